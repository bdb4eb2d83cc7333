"""Run notebooks in fresh kernels of a chosen interpreter, a few at a time."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS_PER_CELL = 900
# Kernels at once: much of a notebook is compilation, which uses one core.
AT_ONCE = max(1, min(4, os.cpu_count() or 1))
# What would make a kernel differ from one that a reader starts.
PRIVATE = ("PYTHONPATH", "MPLBACKEND", "JAX_ENABLE_X64", "PYTEST_CURRENT_TEST")


class NotebookError(Exception):
    """A cell of the notebook raised."""


class OneInterpreter(KernelSpecManager):
    """Every kernel is this interpreter's, whatever the machine has installed."""

    def __init__(self, python):
        super().__init__()
        self.python = str(python)

    def get_kernel_spec(self, kernel_name):
        return KernelSpec(
            argv=[self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="python3", language="python")


def run_notebook(path, folder, python=sys.executable, pythonpath=None):
    """Run every cell of the notebook at path, as a reader would.

    Args:
        path: the notebook.
        folder: the kernel's working directory.
        python: the kernel's interpreter.
        pythonpath: a folder that the kernel may import from, if any.

    Returns:
        The executed notebook, its outputs those of this run alone.

    Raises:
        NotebookError: with the cell and the traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    environment = {k: v for k, v in os.environ.items() if k not in PRIVATE}
    if pythonpath is not None:
        environment["PYTHONPATH"] = str(pythonpath)
    client = NotebookClient(
        notebook, timeout=SECONDS_PER_CELL, startup_timeout=300, record_timing=False,
        store_widget_state=False, resources={"metadata": {"path": str(folder)}},
        # Two kernels of one machine may talk in the clear: no warning.
        extra_arguments=["--log-level=ERROR"],
        km=AsyncKernelManager(kernel_spec_manager=OneInterpreter(python)))
    try:
        # a client that was handed its manager leaves the kernel running
        client.execute(env=environment, cleanup_kc=True)
    except CellExecutionError as error:
        raise NotebookError(str(error)) from None
    return notebook


class Ahead:
    """Jobs that run a few at a time, all of them begun when one is asked for.

    So the tests that wait for them keep their order and their names, while the
    next ones run already.
    """

    def __init__(self):
        self.pool = ThreadPoolExecutor(AT_ONCE)
        self.jobs = {}

    def result(self, key, todo):
        """The result of the job called key; todo gives every {key: function}."""
        if key not in self.jobs:
            for name, job in todo().items():
                if name not in self.jobs:
                    self.jobs[name] = self.pool.submit(job)
        return self.jobs[key].result()

    def stop(self):
        """Begin no more jobs."""
        self.pool.shutdown(wait=False, cancel_futures=True)
