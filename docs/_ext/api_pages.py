"""The API pages: one for each exported module, written from the docstrings.

Every public name of the module's `__all__` gets an entry: the signature, with the
shapes of jaxtyping's annotations in short (`u: Float[L H]`), the docstring, and a
link to the cell of the notebook that derives and exports it.
"""

import ast
import importlib
import inspect
import re
import sys
import types
import typing
from pprint import pformat

from bibliography import escape
from freshness import ROOT
from sphinx.ext.napoleon import Config, GoogleDocstring

# The mark tells book.py to take the quotes off: a signature must be Python.
SHAPE_MARK = "§"
NAPOLEON = Config(napoleon_use_rtype=False, napoleon_use_ivar=True,
                  napoleon_custom_sections=[("Source", "returns_style")])
RETURNED = re.compile(r"^((?:Returns|Yields|Source):\n)((?:[ ]+.*\n?|\n)+)", re.MULTILINE)
HIDDEN_COLON = "\ue000"


def exported_modules(root, package):
    """Module -> (notebook, names), for every module that a notebook exports.

    In the order of the notebooks; what draws the chapters' figures comes last.
    """
    found = {}
    for path in (root / package).glob("[!_]*.py"):
        found[f"{package}.{path.stem}"] = notebook_named_in(path), all_names(path)
    return dict(sorted(found.items(), key=lambda item: (".figures_" in item[0],
                                                        item[1][0])))


def notebook_named_in(path):
    """The notebook that the header of an exported file names."""
    match = re.search(r"nbs/(\w+)\.ipynb", path.read_text(encoding="utf-8")[:400])
    if not match:
        raise ValueError(f"{path.name} doesn't name the notebook it is exported from")
    return match[1]


def all_names(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    return []


def symbols(modules):
    """Short name -> full names, for all that has an API entry."""
    found = {}
    for module, (_, names) in modules.items():
        stem = module.split(".")[-1]
        add(found, module, module)
        for name in names:
            full = f"{module}.{name}"
            for short in (name, f"{stem}.{name}", full):
                add(found, short, full)
            for method, _ in public_methods(getattr(importlib.import_module(module),
                                                    name)):
                add(found, f"{name}.{method}", f"{full}.{method}")
    return found


def add(found, short, full):
    found[short] = (*found.get(short, ()), full)


def index_page(modules):
    lines = ["API", "===", "",
             "The package is flat: one module for each notebook that exports one. The",
             "code of every entry is in its notebook, beside the derivation.", "",
             ".. list-table::", "   :header-rows: 1", "   :widths: 22 50 28", "",
              "   * - Module", "     - What it holds", "     - Notebook"]
    for module, (notebook, names) in modules.items():
        loaded = importlib.import_module(module)
        summary = (inspect.getdoc(loaded) or "").split("\n\n")[0].replace("\n", " ")
        held = ", ".join(f":py:obj:`{name} <{module}.{name}>`" for name in names)
        lines += [f"   * - :py:mod:`{module.split('.')[-1]} <{module}>`",
                  f"     - {inline(summary)}", "", f"       {held}",
                  f"     - :doc:`/{notebook}`"]
    return "\n".join(lines) + "\n"


def module_page(module, notebook, names):
    """The page of a module, in reStructuredText."""
    loaded = importlib.import_module(module)
    title = module
    lines = [title, "=" * len(title), "", f".. py:module:: {module}", "",
             f"Exported from :doc:`/{notebook}`.", "",
             *markdown_to_rst(inspect.getdoc(loaded) or ""), ""]
    functions = source_order(loaded, names)
    for name in functions:
        lines += entry(module, notebook, name, getattr(loaded, name))
    return "\n".join(lines) + "\n"


def source_order(module, names):
    source = inspect.getsource(module)
    place = {name: match.start() if (match := re.search(
        rf"^(?:def |class )?{re.escape(name)}\b", source, re.MULTILINE)) else 0
        for name in names}
    return sorted(names, key=place.get)


def entry(module, notebook, name, value):
    """The entry of one name: a function, a class with its methods, or a constant."""
    link = [".. container:: derivation", "",
            f"   `in the notebook <../{notebook}.ipynb#def-{name}>`__", ""]
    if inspect.isclass(value):
        lines = describe("class", name, class_signature(value), value, link)
        for method, function in public_methods(value):
            lines += indent(describe("method", f"{name}.{method}",
                                     signature(function, bound=True), function))
        return lines
    if callable(value) and not typing.get_origin(value):
        return describe("function", name, signature(value), value, link)
    lines = ["", f".. py:data:: {name}"]
    link = [*link, *sections(constant_doc(module, name)), ""]
    shown = (annotation(value) if typing.get_origin(value) else
             pformat(value, width=68, sort_dicts=False))
    # Where things lie on the machine that builds the site is nobody's business.
    if len(shown) > 1500 or any(part in shown for part in
                                (" at 0x", str(ROOT), sys.prefix)):
        return [*lines, "", *indent(link)]
    if len(shown) <= 60:
        return [*lines, f"   :value: {shown}", "", *indent(link)]
    block = [".. code-block:: python", "", *indent(shown.splitlines()), ""]
    return [*lines, "", *indent([*link, *block])]


def describe(kind, name, written, value, link=()):
    doc = inspect.getdoc(value) if own_doc(value) else ""
    if kind == "class":
        doc = f"{doc or ''}\n\n{constructor_doc(value)}"
    return ["", f".. py:{kind}:: {name}{written}", "",
            *indent([*link, *sections(doc or ""), ""])]


def sections(doc):
    """The lines of a docstring in reStructuredText, its sections as field lists.

    Napoleon takes what stands before a colon in Returns for a type. Here it never
    is one, so these colons are out of its sight while it reads.
    """
    text = RETURNED.sub(lambda m: m[1] + m[2].replace(":", HIDDEN_COLON),
                        "\n".join(markdown_to_rst(doc)))
    lines = "\n".join(GoogleDocstring(text, NAPOLEON).lines()).split("\n")
    return [line.replace(HIDDEN_COLON, ":") for line in lines]


def constructor_doc(value):
    """Args and what follows them, of the `__init__` that a class defines itself."""
    doc = getattr(vars(value).get("__init__"), "__doc__", None)
    found = re.search(r"^(Args|Raises):$.*", inspect.cleandoc(doc or ""),
                      re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def constant_doc(module, name):
    """The string that stands below the assignment of a name, as its docstring."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node, below in zip(body, body[1:]):
        if (isinstance(node, ast.Assign) and isinstance(below, ast.Expr)
                and isinstance(getattr(below.value, "value", None), str)
                and name in [getattr(target, "id", None) for target in node.targets]):
            return inspect.cleandoc(below.value.value)
    return ""


def own_doc(value):
    """Whether the docstring was written for the value, not made by `dataclass`."""
    doc = value.__doc__ or ""
    return not (inspect.isclass(value) and doc.startswith(f"{value.__name__}("))


def indent(lines):
    return [f"   {line}" if line else "" for line in lines]


def public_methods(value):
    """The methods that a class defines itself and documents."""
    if not inspect.isclass(value):
        return []
    return [(name, member) for name, member in vars(value).items()
            if inspect.isfunction(member) and member.__doc__
            and (not name.startswith("_") or name == "__call__")]


def class_signature(value):
    if issubclass(value, tuple) or "__init__" not in vars(value):
        try:
            return signature(value)
        except (TypeError, ValueError):
            return "()"
    return signature(value.__init__, bound=True)


def signature(function, bound=False):
    """The signature as text, with the annotations in short."""
    given = inspect.signature(function)
    parameters = list(given.parameters.values())[1 if bound else 0:]
    shown = [p.replace(annotation=p.empty if p.annotation is p.empty
                       else Shown(annotation(p.annotation)),
                       default=p.empty if p.default is p.empty
                       else Shown(default(p.default))) for p in parameters]
    result = given.return_annotation
    if result is given.empty or (bound and result is None):
        result = given.empty
    else:
        result = Shown(annotation(result))
    return str(given.replace(parameters=shown, return_annotation=result))


class Shown:
    """Text that a signature shows as it is."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def default(value):
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return re.sub(r"<([\w.]+).*>", r"\1", repr(value))


def annotation(kind):
    """An annotation in short: `Float[ArrayLike, "L H"]` becomes `Float[L H]`."""
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, str):
        return kind
    if kind is Ellipsis:
        return "..."
    if hasattr(kind, "dim_str"):
        return f"{kind.dtype.__name__}['{SHAPE_MARK}{kind.dim_str or 'scalar'}']"
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(annotation(part) for part in inner))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is typing.Annotated:
        return annotation(inner[0])
    if isinstance(kind, list):
        return f"[{', '.join(annotation(part) for part in kind)}]"
    if origin is not None:
        name = getattr(kind, "__name__", None) or origin.__name__
        return f"{name}[{', '.join(annotation(part) for part in inner)}]"
    # jax.Array is called jaxlib._jax.Array by itself.
    return getattr(kind, "__name__", str(kind)).split(".")[-1]


INLINE = re.compile(
    r"\$(?P<math>[^$]+)\$|(?P<ticks>`+)(?P<code>[^`]+)(?P=ticks)"
    r"|\[(?P<text>[^\]]+)\]\((?P<url>https?://[^)\s]+)\)"
    r"|\*\*(?P<bold>[^*]+)\*\*|\*(?P<slant>[^*\s][^*]*)\*")


def inline(text):
    """Inline Markdown (maths, code, links, emphasis) in reStructuredText."""
    out, last = [], 0
    for match in INLINE.finditer(text):
        out.append(escape(text[last:match.start()]))
        last = match.end()
        if match["math"]:
            piece = f":math:`{match['math']}`"
        elif match["code"]:
            piece = f"``{match['code']}``"
        elif match["url"]:
            piece = f"`{escape(match['text'])} <{match['url']}>`__"
        elif match["bold"]:
            piece = f"**{match['bold']}**"
        else:
            piece = f"*{match['slant']}*"
        # reStructuredText wants white space around markup; an escaped one is none.
        glued = text[match.start() - 1:match.start()].strip(), text[last:last + 1].strip()
        out.append(("\\ " if glued[0] else "") + piece + ("\\ " if glued[1] else ""))
    return "".join([*out, escape(text[last:])])


BLOCK = re.compile(
    r"^(?P<margin>[ ]*)(?P<fence>\$\$|```)(?P<language>\w*)[ ]*\n(?P<body>.*?)\n"
    r"[ ]*(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)


def markdown_to_rst(text):
    """The lines of a docstring, in reStructuredText that napoleon can read."""
    out, last = [], 0
    for match in BLOCK.finditer(text):
        out.append(inline(text[last:match.start()]))
        last = match.end()
        kind = "math::" if match["fence"] == "$$" else (
            f"code-block:: {match['language'] or 'python'}")
        body = "\n".join(f"   {line}" for line in match["body"].splitlines())
        out.append(f"\n{match['margin']}.. {kind}\n\n{body}\n")
    return "".join([*out, inline(text[last:])]).splitlines()
