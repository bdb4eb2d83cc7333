"""The bibliography page, from docs/references.bib."""

import re

from pybtex.database import parse_file
from pybtex.plugin import find_plugin


def works(path):
    """URL -> key of every work; the bridge turns links to these into citations."""
    found = {}
    for key, entry in parse_file(str(path)).entries.items():
        url = entry.fields.get("url", "").rstrip("/")
        if not url:
            raise ValueError(f"{path.name}: {key} has no url")
        if url in found:
            raise ValueError(f"{path.name}: {found[url]} and {key} have the same url")
        found[url] = key
    return found


def references_page(path):
    """The page in reStructuredText: every work, by author and year, with its link."""
    data = parse_file(str(path))
    links = {}
    for key, entry in data.entries.items():
        links[key] = entry.fields.pop("url")
        entry.fields.pop("doi", None)
    style = find_plugin("pybtex.style.formatting", "plain")()
    lines = ["References", "==========", "",
             "The works that the chapters cite. Links in the chapters lead here, and the",
             "links here lead to the works.", ""]
    for entry in style.format_bibliography(data):
        text = " ".join(entry.text.render_as("text").split())
        shown = re.sub(r"^https?://(www\.)?", "", links[entry.key])
        lines += [".. container:: work", f"   :name: {entry.key}", "",
                  f"   {escape(text)}", f"   `{escape(shown)} <{links[entry.key]}>`__", ""]
    return "\n".join(lines)


def escape(text):
    """The text for reStructuredText: nothing in it is markup."""
    return re.sub(r"([\\*`|<>]|_(?!\w))", r"\\\1", text)
