"""Turn an executed notebook into the form that the site shows.

The directives (`#| hide`, `#| export`, `#| label: fig-8.2`, ...) become tags and
metadata that myst-nb knows, and every directive line goes. The Markdown cells
are left as they are: `book.py` works on the parsed pages.
"""

import ast
import re
from dataclasses import dataclass, field

HIDDEN = {"hide", "default_exp", "exporti"}
KNOWN = HIDDEN | {"export", "code-fold", "echo", "label", "fig-cap", "fig-alt"}
DIRECTIVE = re.compile(r"^#\|[ \t]*([\w-]+)[ \t]*:?[ \t]*(.*?)[ \t]*$", re.MULTILINE)
DIRECTIVE_LINE = re.compile(r"^[ \t]*#\|.*\n?", re.MULTILINE)
# Figures of chapters are numbered; the front page's picture has just a name.
FIGURE_LABEL = re.compile(r"fig-(?:(\d+[a-z]*\.\d+)|[a-z]+)")
GRADED = re.compile(r"""\bgrade\(\s*["'](\d+[a-z]?\.\d+)["']""")
MODULE_MAGIC = re.compile(r"^[%!].*$", re.MULTILINE)


@dataclass
class Page:
    """A notebook for the site, and what is wrong with it."""

    notebook: dict
    module: str | None = None
    problems: list = field(default_factory=list)


def directives(source):
    """The directives of a code cell, name -> text after it."""
    return {name: text.strip("\"'") for name, text in DIRECTIVE.findall(source)}


def defined_names(source):
    """The public names that a code cell defines at its top level."""
    names = []
    for node in ast.parse(MODULE_MAGIC.sub("", source)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [n.id for target in targets for n in ast.walk(target)
                      if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [name for name in names if not name.startswith("_")]


def has_image(output):
    return any(kind.startswith("image/") for kind in output.get("data", ()))


def to_site(notebook):
    """The page for an executed notebook, given as the dict that its JSON holds."""
    page, lines = Page({**notebook, "cells": []}), []
    for number, cell in enumerate(notebook["cells"]):
        source = cell["source"]
        source = source if isinstance(source, str) else "".join(source)
        if cell["cell_type"] == "code":
            add_code_cell(page, cell, source, f"cell {number}")
        else:
            page.notebook["cells"].append(cell)
        # Where a warning is: line 10000 n + m is line m of the notebook's cell n.
        lines += [10000 * number] * (len(page.notebook["cells"]) - len(lines))
    page.notebook["metadata"] = {**notebook["metadata"], "source_map": lines}
    return page


def add_code_cell(page, cell, source, where):
    found = directives(source)
    for name in found.keys() - KNOWN:
        page.problems.append(f"{where}: unknown directive #| {name}")
    page.module = found.get("default_exp", page.module)
    shown = DIRECTIVE_LINE.sub("", source).strip("\n")
    tags = set(cell["metadata"].get("tags", ()))
    metadata = {"mystnb": {}}
    if HIDDEN & found.keys():
        tags.add("remove-cell")
    if found.get("echo") == "false":
        tags.add("remove-input")
    if found.get("code-fold") == "true":
        tags.add("hide-input")
        graded = GRADED.search(shown)
        metadata["mystnb"]["code_prompt_show"] = (
            f"Show the solution of Exercise {graded[1]}" if graded else "Show the code")
        metadata["mystnb"]["code_prompt_hide"] = "Hide it"
    if "export" in found:
        metadata["defines"] = defined_names(shown)
        tags.add("export")

    outputs = cell.get("outputs", [])
    images = [] if "remove-cell" in tags else [o for o in outputs if has_image(o)]
    figure = figure_metadata(page, found, images, where)
    body = {**cell, "source": shown,
            "metadata": {**metadata, "tags": sorted(tags)},
            "outputs": [o for o in outputs if o not in images]}
    if shown or body["outputs"]:
        page.notebook["cells"].append(body)
    if images:
        # Only the picture is the figure: what the cell printed stays above it.
        # (myst-nb skips cells without source.)
        page.notebook["cells"].append({
            "cell_type": "code", "id": f"{cell.get('id', where)}-figure",
            "execution_count": None, "source": shown or "figure", "outputs": images,
            "metadata": {"tags": ["remove-input"], "mystnb": figure}})


def figure_metadata(page, found, images, where):
    """myst-nb's metadata for the figure of a cell, from its three directives."""
    wanted = {"label", "fig-cap", "fig-alt"}
    given = {name for name in wanted if found.get(name)}
    if not images:
        if given:
            page.problems.append(f"{where}: figure {found.get('label')} has no picture")
        return {}
    if missing := sorted(wanted - given):
        page.problems.append(f"{where}: a picture without {', '.join(missing)}")
        return {}
    label = FIGURE_LABEL.fullmatch(found["label"])
    if not label:
        page.problems.append(f"{where}: label {found['label']!r} is not like fig-8.2")
        return {}
    if len(images) > 1:
        page.problems.append(f"{where}: {len(images)} pictures under {found['label']}")
        return {}
    number = f"**Figure {label[1]}.** " if label[1] else ""
    return {"figure": {"name": found["label"], "caption": number + found["fig-cap"]},
            "image": {"alt": found["fig-alt"]}}
