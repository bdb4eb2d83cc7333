"""What readers see on GitHub is what the notebooks print when they are run."""

import pytest
from repository import NOTEBOOKS, ROOT, cells

EXECUTED = ROOT / "docs" / "_build" / "src"


def kinds(outputs):
    """The kinds of a cell's outputs: what it printed, values, pictures."""
    found = [sorted(output.get("data", [output.get("name")]))
             for output in outputs if output.get("name") != "stderr"]
    # One stream may arrive in several pieces.
    return [kind for k, kind in enumerate(found)
            if k == 0 or kind != ["stdout"] or found[k - 1] != ["stdout"]]


def test_a_stream_in_pieces_is_one_stream():
    text, picture = {"name": "stdout"}, {"data": {"image/svg+xml": ""}}
    assert kinds([text, text, picture, picture, text, text, text]) == kinds(
        [text, picture, picture, text])
    assert kinds([text, picture]) != kinds([picture, text])
    assert kinds([picture, picture]) != kinds([picture])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_committed_outputs_are_complete(path):
    executed = EXECUTED / path.name
    assert executed.exists(), "run the notebooks first: pytest nbs"
    fresh = {cell["id"]: kinds(cell["outputs"]) for _, cell in cells(executed, "code")}
    committed = {cell["id"]: kinds(cell["outputs"]) for _, cell in cells(path, "code")}
    assert committed == fresh, "run `make outputs`"
