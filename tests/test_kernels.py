"""A notebook's kernel ends with it: left running, dozens would fill the memory."""

import os
import time
from pathlib import Path

import nbformat
import pytest
from kernels import NotebookError, run_notebook


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")        # a zombie has ended, too
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def notebook(folder, *cells):
    path = folder / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]), path)
    return path


@pytest.mark.parametrize("last", ["2 + 2", "1 / 0"])
def test_the_kernel_is_gone_when_its_notebook_is_done(tmp_path, last):
    report = tmp_path / "pid"
    path = notebook(
        tmp_path, f"import os, pathlib\npathlib.Path({str(report)!r}).write_text("
        "str(os.getpid()))", last)
    if last == "1 / 0":
        with pytest.raises(NotebookError, match="ZeroDivisionError"):
            run_notebook(path, tmp_path)
    else:
        assert run_notebook(path, tmp_path).cells[-1].outputs[0].data[
            "text/plain"] == "4"
    pid = int(report.read_text())
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid)
