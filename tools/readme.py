"""Write README.md from nbs/index.ipynb and its committed outputs (`--check` compares).

The README is what GitHub and the package index show: prose, the shown cells
and their printed values. Hidden cells and directives are dropped, links to
notebooks lead into nbs/, and each figure becomes a committed SVG file.
"""

import json
import re
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FIGURES = ROOT / "docs" / "_static"
NOTE = "<!-- Written from nbs/index.ipynb by `make readme`; don't edit. -->"
HIDDEN = re.compile(r"^#\|\s*(hide|default_exp|exporti)\b", re.M)
DIRECTIVE = re.compile(r"^#\|\s*([\w-]+):\s*(.*?)\s*$", re.M)
LINK = re.compile(r"(\]\(|src=\"|href=\")(?![a-z]+:|#|/)([^)\"\s]+)")


def _text(value):
    return "".join(value) if isinstance(value, list) else value


def _from_root(match, nbs):
    """A link that is relative to nbs/, seen from the repository's root."""
    target = match[2]
    return match[1] + (target[3:] if target.startswith("../") else f"{nbs}/{target}")


def _on_white(svg):
    """A drawing with a ground of its own: a dark page would swallow its ink."""
    return re.sub(r"(<svg\b[^>]*>)", r'\1<rect width="100%" height="100%" fill="white"/>',
                  svg, count=1)


def _output(output, name, alt, figures):
    """Markdown of one output; an SVG goes to figures under its file name."""
    data = output.get("data", {})
    if output["output_type"] == "stream":
        return f"```text\n{_text(output['text']).rstrip()}\n```"
    if "image/svg+xml" in data:
        svg = f"{name}.svg"
        figures[svg] = _on_white(_text(data["image/svg+xml"]).rstrip() + "\n")
        return f"![{alt}](docs/_static/{svg})"
    if "text/markdown" in data:
        return _text(data["text/markdown"]).strip()
    if "text/plain" in data:
        return f"```text\n{_text(data['text/plain']).rstrip()}\n```"
    raise ValueError(f"the README can't show an output of kind {sorted(data)}")


def render(notebook, nbs="nbs"):
    """The README's text, and its figures as {file name: SVG}."""
    parts, figures = [NOTE], {}
    for cell in notebook["cells"]:
        source = _text(cell["source"]).strip()
        if not source or HIDDEN.search(source):
            continue
        if cell["cell_type"] == "markdown":
            parts.append(LINK.sub(lambda m: _from_root(m, nbs), source))
            continue
        directives = dict(DIRECTIVE.findall(source))
        code = re.sub(r"^#\|.*\n?", "", source, flags=re.M).strip()
        if code and directives.get("echo") != "false":
            parts.append(f"```python\n{code}\n```")
        name = "readme-" + directives.get("label", f"figure-{len(figures) + 1}")
        for output in cell["outputs"]:
            parts.append(_output(output, name, directives.get("fig-alt", ""), figures))
            caption = directives.get("fig-cap")
            if caption and parts[-1].startswith("!["):
                parts.append(f"*{caption}*")
    return "\n\n".join(parts) + "\n", figures


def main():
    parser = ConfigParser(delimiters=["="])
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    settings = parser["DEFAULT"]
    index = ROOT / settings["nbs_path"] / settings["readme_nb"]
    text, figures = render(json.loads(index.read_text(encoding="utf-8")),
                           settings["nbs_path"])
    files = {README: text, **{FIGURES / name: svg for name, svg in figures.items()}}
    stale = [path for path, new in files.items()
             if not path.exists() or path.read_text(encoding="utf-8") != new]
    if "--check" in sys.argv:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"not as nbs/index.ipynb has it: {names}; run `make readme`"
                 if stale else 0)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
