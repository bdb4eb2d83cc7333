"""The Sphinx extension that makes one book of the notebooks.

Numbered equations, figures, sections and exercises become targets; the plain
Markdown links that Jupyter and GitHub understand (`[(8.3)](08_scan.ipynb#eq-8.3)`)
become links to them; a link to a cited work becomes a link to its entry in the
bibliography; the name of an exported symbol in code type becomes a link to its
API entry. What is missing, doubled or out of order is a warning, and the build
treats warnings as errors.
"""

import json
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from docutils import nodes
from notebooks import to_site
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

logger = logging.getLogger(__name__)

NUMBER = r"(\d+[a-z]*\.\d+)"
TAG = re.compile(r"\\tag\{" + NUMBER + r"\}")
CHAPTER_HEADING = re.compile(r"(\d+[a-z]?)\.\s")
SECTION_HEADING = re.compile(NUMBER + r"\s")
EXERCISE_HEADING = re.compile(r"Exercise " + NUMBER + r"\b")
FIGURE_NAME = re.compile(r"fig-" + NUMBER)
SHAPE_MARK = "§"


def read_notebook(app, docname, source):
    """On reading a page: replace the executed notebook by the site's form of it."""
    if Path(app.env.doc2path(docname)).suffix != ".ipynb":
        return
    page = to_site(json.loads(source[0]))
    for problem in page.problems:
        logger.warning(problem, location=docname)
    if page.module:
        modules(app.env)[docname] = page.module
    source[0] = json.dumps(page.notebook)


def targets(env):
    """Of every page, target -> id, in the order in which the page has them."""
    if not hasattr(env, "book_targets"):
        env.book_targets = {}
    return env.book_targets


def modules(env):
    """Of every page that exports a module or documents one, the module."""
    if not hasattr(env, "book_modules"):
        env.book_modules = {}
    return env.book_modules


class Book(SphinxTransform):
    """Give targets their ids, and links their meaning, in one parsed page."""

    default_priority = 400

    def apply(self):
        self.found = targets(self.env)[self.env.docname] = {}
        if self.env.docname.startswith("api/"):
            modules(self.env)[self.env.docname] = self.env.docname[4:]
        self.mark_headings()
        self.mark_equations()
        self.mark_figures()
        self.mark_definitions()
        self.check_pictures()
        self.turn_links()
        self.link_names()
        self.show_shapes()

    def add_target(self, target, node, make_first=True):
        if target in self.found:
            logger.warning("%s is on this page twice", target, location=node)
        identifier = target.replace(".", "-")
        if identifier not in node["ids"]:
            node["ids"].insert(0 if make_first else len(node["ids"]), identifier)
        self.document.ids.setdefault(identifier, node)
        self.found[target] = identifier

    def mark_headings(self):
        for section in self.document.findall(nodes.section):
            title = section[0].astext()
            if match := EXERCISE_HEADING.match(title):
                self.add_target(f"ex-{match[1]}", section)
            elif match := SECTION_HEADING.match(title) or CHAPTER_HEADING.match(title):
                self.add_target(f"sec-{match[1]}", section)

    def mark_equations(self):
        for node in self.document.findall(nodes.math_block):
            tags = TAG.findall(node.astext())
            if len(tags) > 1:
                logger.warning("one block with %d equation numbers", len(tags),
                               location=node)
            if tags:
                self.add_target(f"eq-{tags[0]}", node)
                node["classes"].append("numbered")
            # Sphinx would wrap the lines in an environment that forbids \tag.
            text = rf"\[{node.astext()}\]"
            node.rawsource, node["nowrap"] = text, True
            node.children = [nodes.Text(text)]
            node.children[0].parent = node

    def mark_figures(self):
        for node in self.document.findall(nodes.figure):
            for name in node["names"]:
                if FIGURE_NAME.fullmatch(name):
                    self.add_target(name, node)

    def mark_definitions(self):
        """A cell that exports a definition is where its API entry links back to."""
        for node in self.document.findall(nodes.container):
            for name in node.get("cell_metadata", {}).get("defines", ()):
                if f"def-{name}" not in self.found:
                    self.add_target(f"def-{name}", node, make_first=False)

    def check_pictures(self):
        for node in self.document.findall(nodes.image):
            if not node.get("alt", "").strip():
                logger.warning("a picture without alternative text", location=node)

    def turn_links(self):
        works = self.config.book_works
        for node in list(self.document.findall(nodes.reference)):
            uri = node.get("refuri")
            if not uri:
                continue
            if uri.rstrip("/") in works:
                if self.env.docname == "references":
                    continue  # the entry itself keeps the way out
                page, target = "references", works[uri.rstrip("/")]
                self.replace(node, page, target, "citation")
            elif re.match(r"[a-zA-Z][\w+.-]*:", uri):
                continue
            else:
                path, _, fragment = unquote(uri).partition("#")
                self.turn_local(node, path, fragment)

    def turn_local(self, node, path, fragment):
        if not path:
            self.replace(node, self.env.docname, fragment, "internal")
            return
        here = posixpath.dirname(self.env.docname)
        full = posixpath.normpath(posixpath.join(here, path))
        page = re.sub(r"\.(ipynb|md|rst)$", "", full)
        if page in self.env.found_docs:
            self.replace(node, page, fragment, "internal")
            return
        # Files of the repository that are no pages: show them where they are kept.
        root, sources = Path(self.config.book_root), Path(self.config.book_sources)
        try:
            inside = (root / sources / full).resolve().relative_to(root.resolve())
        except ValueError:
            inside = None
        if inside is None or not (root / inside).exists():
            logger.warning("link to %s: there is no such page or file", path,
                           location=node)
            return
        kind = "tree" if (root / inside).is_dir() else "blob"
        node["refuri"] = f"{self.config.book_repository}/{kind}/main/{inside}"

    def replace(self, node, page, target, kind):
        pending = addnodes.pending_xref(
            "", refdomain="", reftype="book", reftarget=target, book_page=page,
            refdoc=self.env.docname, refexplicit=True, refwarn=True)
        pending.source, pending.line = node.source, node.line
        pending += nodes.inline("", "", *node.children, classes=["book", kind])
        node.replace_self(pending)

    def link_names(self):
        symbols = self.config.book_symbols
        own = modules(self.env).get(self.env.docname)
        for node in list(self.document.findall(nodes.literal)):
            if inside(node, nodes.title, nodes.reference, addnodes.pending_xref,
                      nodes.rubric):
                continue
            full = resolve_name(node.astext(), symbols, own)
            if not full or full in described(node):
                continue
            pending = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=full,
                refdoc=self.env.docname, refexplicit=True, refwarn=True)
            pending.source, pending.line = node.source, node.line
            node.replace_self(pending)
            pending += node

    def show_shapes(self):
        """In a signature, show Float['§L H'] as Float[L H]."""
        for node in self.document.findall(addnodes.desc_sig_literal_string):
            text = node.astext()
            if text[1:2] == SHAPE_MARK:
                node.children = [nodes.Text(text[2:-1])]
                node.children[0].parent = node
                node["classes"].append("shape")


def inside(node, *kinds):
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


def described(node):
    """The full names of the API entries that the node is part of."""
    names = []
    while node := node.parent:
        if isinstance(node, addnodes.desc):
            for signature in node.findall(addnodes.desc_signature):
                names.append(f"{signature.get('module')}.{signature.get('fullname')}")
                break
    return names


def resolve_name(text, symbols, own_module):
    """The full name that a short one in code type means, or None.

    `symbols` maps a short name to the full names of all that are called so.
    Where several are, the page's own module decides; otherwise there's no link.
    """
    name = text.removesuffix("()")
    found = symbols.get(name, ())
    if len(found) == 1:
        return found[0]
    own = [full for full in found if full.split(".")[1] == own_module]
    return own[0] if len(own) == 1 else None


def resolve_reference(app, env, node, content):
    """Make the link of a pending reference of ours."""
    if node["reftype"] != "book":
        return None
    page, target = node["book_page"], node["reftarget"]
    identifier = ""
    if target:
        identifier = targets(env).get(page, {}).get(target)
        if identifier is None:
            identifier = existing_id(env, page, target)
        if identifier is None:
            logger.warning("link to %s: page %s has no such target", target, page,
                           location=node)
            return content
    return make_refnode(app.builder, node["refdoc"], page, identifier, content)


def existing_id(env, page, target):
    """The id on a page that isn't one of the book's own targets (a heading's slug)."""
    return next((target for _ in env.get_doctree(page).findall(
        lambda n: isinstance(n, nodes.Element) and target in n.get("ids", ()))), None)


def check_numbers(app, env):
    """Numbers are unique in the book and rise in each page."""
    owner = {}
    for page, found in sorted(targets(env).items()):
        last = {}
        for target in found:
            kind, _, number = target.partition("-")
            if kind == "def":
                continue
            if target in owner:
                logger.warning("%s is in %s too", target, owner[target], location=page)
            owner[target] = page
            chapter, _, count = number.partition(".")
            place = int(count or 0)
            if place <= last.get((kind, chapter), -1):
                logger.warning("%s is out of order", target, location=page)
            last[kind, chapter] = place


def tidy_buttons(app, pagename, templatename, context, doctree):
    """A page that was generated has no source to show or to download.

    And GitHub shows a notebook as a notebook, if it isn't asked for the plain text.
    """
    for button in context.get("header_buttons", ()):
        for link in button.get("buttons", ()):
            if "url" in link:
                link["url"] = link["url"].removesuffix("?plain=1")
    kept = Path(app.config.book_root) / app.config.book_sources
    if doctree is not None and any(
            (kept / f"{pagename}{suffix}").exists() for suffix in (".ipynb", ".md")):
        return
    context["header_buttons"] = [
        button for button in context.get("header_buttons", ())
        if button.get("label") not in
        {"download-buttons", "launch-buttons", "source-buttons"}]


def name_once(app, pagename, templatename, context, doctree):
    """The front page is called as the whole site is: its title says so once."""
    if context.get("title") == context.get("docstitle"):
        context["docstitle"] = ""


def setup(app):
    app.add_config_value("book_symbols", {}, "env")
    app.add_config_value("book_works", {}, "env")
    app.add_config_value("book_root", "", "env")
    app.add_config_value("book_sources", "nbs", "env")
    app.add_config_value("book_repository", "", "env")
    app.connect("source-read", read_notebook)
    app.connect("missing-reference", resolve_reference)
    app.connect("env-check-consistency", check_numbers)
    app.connect("html-page-context", tidy_buttons, priority=900)
    app.connect("html-page-context", name_once)
    app.add_transform(Book)
    return {"parallel_read_safe": False}
