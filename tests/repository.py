"""What the repository's own tests read: notebooks, modules, tracked files."""

import json
import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "annotated_ssm"
NOTEBOOKS = sorted((ROOT / "nbs").glob("*.ipynb"))
# Written by hand or by nbdev itself, not exported from a notebook.
UNEXPORTED = {"__init__", "__main__", "_modidx"}
MODULES = sorted(p for p in PACKAGE.glob("*.py") if p.stem not in UNEXPORTED)
BUILT = {".git", ".venv", "build", "dist", "_build", "__pycache__",
         ".ipynb_checkpoints", ".pytest_cache", ".hypothesis"}


def settings():
    parser = ConfigParser(delimiters=["="])
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def cells(path, kind=None):
    """(source, cell) of each cell of the notebook at path."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [("".join(cell["source"]), cell) for cell in notebook["cells"]
            if kind in (None, cell["cell_type"])]


def directives(source):
    """{"label": "fig-8.1", "hide": "", ...} of a code cell."""
    return {name: value.strip() for name, value in
            re.findall(r"^#\|\s*([\w-]+):?[ \t]*(.*)$", source, re.M)}


def chapter(path):
    """"8" of 08_scan, "8f" of 08f_figures, "5b" of 05b_…; None of index."""
    found = re.match(r"0*(\d+[a-z]?)_", path.name)
    return found and found[1]


def tracked_files():
    """What git tracks; in a copy without git, what isn't built."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT,
                             capture_output=True, text=True)
    if listing.returncode == 0:
        names = filter(None, listing.stdout.split("\0"))
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    return [p for p in ROOT.rglob("*")
            if p.is_file() and not BUILT & set(p.relative_to(ROOT).parts)]
