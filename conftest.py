"""Run the notebooks as tests: one item a notebook, in a fresh kernel.

An executed copy of each notebook is written to docs/_build/src, stamped with a
hash of everything that its outputs depend on. The site is built from those
copies and refuses any whose stamp is not of the present sources, so tests and
documentation share one execution and the site can't show stale outputs.
"""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from freshness import EXECUTED, source_stamp  # noqa: E402

SECONDS_PER_CELL = 900


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb" and file_path.parent == ROOT / "nbs":
        return NotebookFile.from_parent(parent, path=file_path)


class NotebookFile(pytest.File):
    def collect(self):
        yield NotebookItem.from_parent(self, name="run")


class NotebookError(Exception):
    """A cell of the notebook raised."""


class NotebookItem(pytest.Item):
    def runtest(self):
        execute(self.path, EXECUTED / self.path.name)

    def repr_failure(self, excinfo):
        if isinstance(excinfo.value, NotebookError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, 0, self.path.stem


def execute(path, destination):
    """Run every cell of the notebook at path; write the stamped copy whole."""
    stamp = source_stamp(ROOT)
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        nb, timeout=SECONDS_PER_CELL, kernel_name="python3", record_timing=False,
        store_widget_state=False, resources={"metadata": {"path": str(path.parent)}})
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), old]))
    try:
        client.execute()
    except CellExecutionError as error:
        raise NotebookError(str(error)) from None
    finally:
        os.environ.pop("PYTHONPATH") if old is None else os.environ.update(PYTHONPATH=old)
    nb.metadata["source_stamp"] = stamp
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_suffix(".part")
    nbformat.write(nb, part)
    part.replace(destination)
