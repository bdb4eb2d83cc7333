"""Run the notebooks as tests: one item a notebook, in a fresh kernel.

An executed copy of each notebook is written to docs/_build/src, stamped with a
hash of everything that its outputs depend on. The site is built from those
copies and refuses any whose stamp is not of the present sources, so tests and
documentation share one execution and the site can't show stale outputs.
"""

import functools
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tools")]
from freshness import EXECUTED, source_stamp  # noqa: E402
from kernels import Ahead, NotebookError, run_notebook  # noqa: E402

AHEAD = pytest.StashKey[Ahead]()


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb" and file_path.parent == ROOT / "nbs":
        return NotebookFile.from_parent(parent, path=file_path)


def pytest_sessionstart(session):
    session.stash[AHEAD] = Ahead()


def pytest_sessionfinish(session):
    session.stash[AHEAD].stop()


class NotebookFile(pytest.File):
    def collect(self):
        yield NotebookItem.from_parent(self, name="run")


class NotebookItem(pytest.Item):
    def runtest(self):
        self.session.stash[AHEAD].result(self.path, self.all_selected)

    def all_selected(self):
        return {item.path: functools.partial(execute, item.path)
                for item in self.session.items if isinstance(item, NotebookItem)}

    def repr_failure(self, excinfo):
        if isinstance(excinfo.value, NotebookError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, 0, self.path.stem


def execute(path):
    """Run the notebook at path; write its stamped copy whole."""
    stamp = source_stamp(ROOT)
    notebook = run_notebook(path, path.parent, pythonpath=ROOT)
    notebook.metadata["source_stamp"] = stamp
    EXECUTED.mkdir(parents=True, exist_ok=True)
    part = EXECUTED / f"{path.stem}.part"
    nbformat.write(notebook, part)
    part.replace(EXECUTED / path.name)
