"""What readers see on GitHub is what the notebooks print when they are run."""

import pytest
from repository import NOTEBOOKS, ROOT, cells

EXECUTED = ROOT / "docs" / "_build" / "src"


def kinds(cell):
    """The kinds of a cell's outputs: what it printed, values, pictures."""
    found = [sorted(output.get("data", [output.get("name")]))
             for output in cell["outputs"] if output.get("name") != "stderr"]
    # One stream may arrive in several pieces.
    return [kind for k, kind in enumerate(found) if kind != found[k - 1: k][:1]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_committed_outputs_are_complete(path):
    executed = EXECUTED / path.name
    assert executed.exists(), "run the notebooks first: pytest nbs"
    fresh = {cell["id"]: kinds(cell) for _, cell in cells(executed, "code")}
    committed = {cell["id"]: kinds(cell) for _, cell in cells(path, "code")}
    assert committed == fresh, "run `make outputs`"
