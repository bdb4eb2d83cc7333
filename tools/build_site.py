"""Build the website from the executed notebooks in docs/_build/src.

`pytest nbs` executes the notebooks and stamps the copies; this refuses copies
that are missing or stale. The pages are gathered and generated in a temporary
folder, Sphinx runs with warnings as errors, and the finished site replaces the
old one whole.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]
import api_pages  # noqa: E402
import bibliography  # noqa: E402
from freshness import EXECUTED, source_stamp  # noqa: E402

SITE = ROOT / "docs" / "_build" / "html"
# Caption -> the chapters in the part, first and last.
PARTS = {"Foundations": (0, 1), "HiPPO and S4": (2, 7), "S5": (8, 10),
         "Using it": (11, 18), "Results and other codes": (19, 99)}
NUMBERED = re.compile(r"(\d+)([a-z]*)_")


class SiteError(Exception):
    """Why the site can't be built."""


def stale_notebooks(notebooks, executed, stamp):
    """Of the notebooks, those without an executed copy of the present sources."""
    def fresh(path):
        copy = executed / path.name
        if not copy.exists():
            return False
        metadata = nbformat.read(copy, as_version=4).metadata
        return metadata.get("source_stamp") == stamp
    return [path.name for path in notebooks if not fresh(path)]


def contents(pages, modules):
    """The table of contents, for sphinx-external-toc, of the pages that exist."""
    parts = []
    for caption, (first, last) in PARTS.items():
        chapters = [page for page in pages if (match := NUMBERED.match(page))
                    and first <= int(match[1]) <= last and is_chapter(page)]
        parts.append((caption, chapters))
    appendix = [{"file": "api/index", "entries": [
        {"file": f"api/{name}", "title": name}
        for name in (module.split(".")[-1] for module in modules)]}]
    appendix += [{"file": page} for page in pages if page == "00b_checks"]
    if figures := [page for page in pages if is_figures(page)]:
        appendix.append({"file": "figures",
                         "entries": [{"file": page} for page in figures]})
    appendix += [{"file": page} for page in (*pages, "references")
                 if not NUMBERED.match(page) and page != "index"]
    subtrees = [{"caption": caption, "entries": [{"file": page} for page in chapters]}
                for caption, chapters in parts if chapters]
    return {"root": "index",
            "subtrees": [*subtrees, {"caption": "Appendix", "entries": appendix}]}


def is_figures(page):
    return bool(re.match(r"\d+[a-z]?f_", page))


def is_chapter(page):
    return not is_figures(page) and page != "00b_checks"


def figures_page(pages):
    lines = ["# The figures", "", "Each chapter's figures are drawn by functions of a",
             "companion notebook, which shows every one and checks what it draws.", ""]
    return "\n".join(lines + [f"- [{page}]({page}.ipynb)" for page in pages]) + "\n"


def palette_css(palette):
    """The figures' colours as CSS variables."""
    lines = [f"  --ssm-{name}: {colour};" for name, colour in palette.items()]
    return "\n".join(["/* From annotated_ssm.plotting.PALETTE. */", ":root {", *lines, "}"])


def stage(folder, notebooks, root=ROOT):
    """Gather in the folder the sources of all pages, copied and generated."""
    from annotated_ssm.plotting import PALETTE
    package = settings(root)["lib_name"]
    copies = [EXECUTED / path.name for path in notebooks]
    copies += sorted((root / "nbs").glob("*.md"))
    for path in copies:
        shutil.copy(path, folder)
    pages = [path.stem for path in copies]
    modules = api_pages.exported_modules(root, package)
    generated = {"references.rst": bibliography.references_page(root / "docs/references.bib"),
                 "api/index.rst": api_pages.index_page(modules),
                 "_static/palette.css": palette_css(PALETTE)}
    if figures := [page for page in pages if is_figures(page)]:
        generated["figures.md"] = figures_page(figures)
    for module, (notebook, names) in modules.items():
        generated[f"api/{module.split('.')[-1]}.rst"] = api_pages.module_page(
            module, notebook, names)
    for name, text in generated.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "_toc.yml").write_text(yaml.safe_dump(contents(pages, modules)))


def settings(root=ROOT):
    parser = ConfigParser(delimiters=["="])
    parser.read(root / "settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def build(site=SITE, draft=False):
    """Build the site and return its folder; SiteError says why not.

    A draft, for use while chapters are being written, leaves out notebooks without
    present outputs and shows warnings without failing.
    """
    notebooks = sorted((ROOT / "nbs").glob("*.ipynb"))
    for copy in EXECUTED.glob("*.ipynb"):
        if not (ROOT / "nbs" / copy.name).exists():
            copy.unlink()
    stale = stale_notebooks(notebooks, EXECUTED, source_stamp(ROOT))
    if draft:
        notebooks = [path for path in notebooks if path.name not in stale]
    elif stale:
        raise SiteError(
            "no outputs of the present sources for " + ", ".join(stale)
            + ": run `make site` (or `pytest nbs` before this)")
    site.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site.parent, prefix="site-") as temporary:
        source, html = Path(temporary, "source"), Path(temporary, "html")
        source.mkdir()
        stage(source, notebooks)
        strict = [] if draft else ["-W", "--keep-going"]
        command = [sys.executable, "-m", "sphinx", "-q", "-E", "-n", *strict,
                   "-b", "html", "-c", str(ROOT / "docs"), str(source), str(html)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SiteError(readable(done.stderr, temporary))
        if done.stderr:
            print(readable(done.stderr, temporary))
        shutil.rmtree(html / ".doctrees", ignore_errors=True)
        old = Path(temporary, "old")
        if site.exists():
            site.rename(old)
        html.rename(site)
    return site


def readable(log, temporary):
    """Sphinx's warnings with the names that a reader knows."""
    def cell(match):
        number, line = divmod(int(match[2]), 10000)
        return f"{match[1]}: cell {number}, line {line}:"

    log = log.replace(f"{temporary}/source/", "nbs/").strip()
    return re.sub(r"^(\S+\.ipynb):(\d+):", cell, log, flags=re.MULTILINE)


if __name__ == "__main__":
    try:
        print(f"The site is at {build(draft='--draft' in sys.argv) / 'index.html'}")
    except SiteError as error:
        sys.exit(str(error))
