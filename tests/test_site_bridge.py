"""From notebook to page: what the bridge turns, and what it refuses."""

import inspect
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import jax
import numpy as np
import pytest
from annotated_ssm.interface import SSMParam
from annotated_ssm.layers import S5
from annotated_ssm.tasks import Split
from jaxtyping import Array, Complex, Float

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tools")]
import api_pages  # noqa: E402
import bibliography  # noqa: E402
import build_site  # noqa: E402
import notebooks  # noqa: E402

SVG = {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
       "text/plain": "<Figure>"}
FIGURE = "#| label: fig-{}\n#| fig-cap: A line.\n#| fig-alt: A rising line.\nplot()"


def code(source, *data):
    return {"cell_type": "code", "id": str(abs(hash(source)) % 10**8), "metadata": {},
            "execution_count": None, "source": source,
            "outputs": [{"output_type": "display_data", "metadata": {}, "data": d}
                        for d in data]}


def text(source):
    return {"cell_type": "markdown", "id": str(abs(hash(source)) % 10**8),
            "metadata": {}, "source": source}


def notebook(*cells):
    return {"nbformat": 4, "nbformat_minor": 5, "cells": list(cells),
            "metadata": {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}}


# Each page has one flaw, or none, and the warning that it must give.
GOOD = notebook(
    code("#| default_exp scan"),
    code("#| hide\nsecret = 1"),
    text("# 1. Good\n\n## 1.1 A section\n\n$$\n\\begin{aligned} a &= b \\\\ c &= d "
         "\\end{aligned} \\tag{1.1}\n$$\n\nsee [(1.1)](#eq-1.1), [there](02_other.ipynb#eq-2.1),"
         " [it](#sec-1.1), [Smith](https://example.org/smith), `scan_it` and `none`.\n\n"
         "### Exercise 1.1: easy\n\nand [the exercise](#ex-1.1), [Figure 1.1](#fig-1.1)."),
    code("#| export\ndef scan_it():\n    return 1"),
    code("#| code-fold: true\nchecks.grade('1.1', scan_it, 1)"),
    code("#| echo: false\n" + FIGURE.format("1.1"), {"text/plain": "'said'"}, SVG))
PAGES = {
    "01_good": (GOOD, None),
    "02_other": (notebook(text("# 2. Other\n\n$$\nx \\tag{2.1}\n$$")), None),
    "03_alt": (notebook(text("# 3. A"), code("plot()", SVG)),
               "a picture without fig-alt, fig-cap, label"),
    "04_twice": (notebook(text("# 4. T\n\n$$\nx \\tag{4.1}\n$$\n\n$$\ny \\tag{4.1}\n$$")),
                 "eq-4.1 is on this page twice"),
    "05_taken": (notebook(text("# 5. T\n\n$$\nx \\tag{2.1}\n$$")),
                 "eq-2.1 is in 02_other too"),
    "06_order": (notebook(text("# 6. O\n\n$$\nx \\tag{6.2}\n$$\n\n$$\ny \\tag{6.1}\n$$")),
                 "eq-6.1 is out of order"),
    "07_anchor": (notebook(text("# 7. L\n\n[there](02_other.ipynb#eq-2.9)")),
                  "link to eq-2.9: page 02_other has no such target"),
    "08_page": (notebook(text("# 8. L\n\n[there](22_nowhere.ipynb)")),
                "link to 22_nowhere.ipynb: there is no such page or file"),
    "09_unknown": (notebook(text("# 9. U"), code("#| eval: false\nx = 1")),
                   "unknown directive #| eval"),
    "10_image": (notebook(text("# 10. I\n\n![](01_good.svg)")),
                 "a picture without alternative text"),
    "11_two": (notebook(text("# 11. T"), code(FIGURE.format("11.1"), SVG, SVG)),
               "2 pictures under fig-11.1"),
    "12_none": (notebook(text("# 12. N"), code(FIGURE.format("12.1"))),
                "figure fig-12.1 has no picture"),
}
CONF = f"""
import sys
sys.path.insert(0, {str(ROOT / 'docs' / '_ext')!r})
extensions = ["myst_nb", "book", "sphinx.ext.mathjax"]
root_doc = "01_good"
html_title = "1. Good"
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_all_links_external = True
suppress_warnings = ["toc.not_included", "image.not_readable"]
book_works = {{"https://example.org/smith": "smith"}}
book_symbols = {{"scan_it": ("annotated_ssm.scan.scan_it",)}}
book_root = {str(ROOT)!r}
exclude_patterns = ["html"]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """All the pages, built at once: their folder, and the warnings of each."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "conf.py").write_text(CONF)
    (folder / "references.rst").write_text(
        "Works\n=====\n\n.. container:: work\n   :name: smith\n\n   Smith\n")
    (folder / "api").mkdir()
    (folder / "api" / "scan.rst").write_text(
        "scan\n====\n\n.. py:module:: annotated_ssm.scan\n\n"
        ".. py:function:: scan_it(u: Float['§L H'])\n\n   ``scan_it`` scans.\n")
    for name, (page, _) in PAGES.items():
        (folder / f"{name}.ipynb").write_text(json.dumps(page))
    run = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-n", "-b", "html",
                          folder, folder / "html"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    warnings = {name: [line for line in run.stderr.splitlines()
                       if f"/{name}.ipynb" in line] for name in PAGES}
    return folder / "html", warnings


@pytest.mark.parametrize("name", PAGES)
def test_each_flaw_is_a_warning_and_nothing_else_is(name, built):
    expected = PAGES[name][1]
    found = built[1][name]
    if expected is None:
        assert found == []
    else:
        assert any(expected in line for line in found), found


def test_the_page_is_what_was_meant(built):
    page = (built[0] / "01_good.html").read_text()
    for anchor in ("eq-1-1", "sec-1-1", "ex-1-1", "fig-1-1", "def-scan_it"):
        assert page.count(f'id="{anchor}"') == 1
    for link in ('href="#eq-1-1"', 'href="02_other.html#eq-2-1"', 'href="#sec-1-1"',
                 'href="references.html#smith"', 'href="#fig-1-1"', 'href="#ex-1-1"',
                 'href="api/scan.html#annotated_ssm.scan.scan_it"'):
        assert link in page
    assert r"\tag{1.1}\]" in page and "split" not in page
    assert "#|" not in page and "secret" not in page and "plot()" not in page
    assert "Show the solution of Exercise 1.1" in page
    assert 'alt="A rising line."' in page
    assert re.search(r"<strong>Figure 1.1.</strong>\s*A line.", page)
    assert "said" in page and page.index("said") < page.index("<figure")


def test_a_signature_shows_shapes_and_no_link_to_itself(built):
    page = (built[0] / "api" / "scan.html").read_text()
    shown = re.sub(r"<[^>]+>", "", page)
    assert "Float[L H]" in shown and "§" not in page
    assert page.count('href="#annotated_ssm.scan.scan_it"') == 1  # the permanent link


def test_the_front_page_says_its_name_once(built):
    titles = [re.search(r"<title>\s*(.*?)\s*</title>", (built[0] / page).read_text())[1]
              for page in ("01_good.html", "02_other.html")]
    assert titles == ["1. Good", "2. Other &#8212; 1. Good"]


def test_stale_outputs_are_refused(tmp_path):
    sources, executed = tmp_path / "nbs", tmp_path / "src"
    for name, stamp in (("01_fresh", "now"), ("02_stale", "then"), ("03_bare", None)):
        page = notebook(text("# A"))
        for folder in (sources, executed):
            folder.mkdir(exist_ok=True)
            page["metadata"]["source_stamp"] = stamp
            (folder / f"{name}.ipynb").write_text(json.dumps(page))
    (sources / "04_missing.ipynb").write_text(json.dumps(page))
    stale = build_site.stale_notebooks(sorted(sources.glob("*")), executed, "now")
    assert stale == ["02_stale.ipynb", "03_bare.ipynb", "04_missing.ipynb"]


def test_contents_have_every_page_once():
    pages = ["index", "00_notation", "00b_checks", "05b_more", "08_scan", "08f_figures",
             "20_performance", "contributing"]
    found = re.findall(r"'file': '([\w/]+)'",
                       str(build_site.contents(pages, ["annotated_ssm.scan"])))
    assert sorted(found) == sorted([*pages[1:], "api/index", "api/scan", "figures",
                                    "references"])


def test_palette_reaches_the_stylesheet_whole():
    from annotated_ssm.plotting import PALETTE
    css = build_site.palette_css(PALETTE)
    assert dict(re.findall(r"--ssm-([\w-]+): ([^;]+);", css)) == PALETTE
    used = re.findall(r"var\(--ssm-([\w-]+)\)",
                      (ROOT / "docs/_static/custom.css").read_text())
    assert set(used) - {"package", "lesson"} <= set(PALETTE)


@pytest.mark.parametrize("kind, shown", [
    (Float[Array, "L H"], "Float['§L H']"),
    (Float[jax.Array | np.ndarray, "L H"], "Float['§L H']"),
    (Complex[Array, "P"] | None, "Complex['§P'] | None"),
    (Float[Array, ""], "Float['§scalar']"),
    (tuple[Float[Array, "L"], int], "tuple[Float['§L'], int]"),
    (typing.Literal["zoh", "bilinear"], "Literal['zoh', 'bilinear']"),
    (typing.Callable[[int], float], "Callable[[int], float]"),
])
def test_annotations_are_short(kind, shown):
    assert api_pages.annotation(kind) == shown


def test_docstrings_become_restructured_text():
    lines = api_pages.markdown_to_rst("With $a_b$, `x` and [it](https://a.org) *now*s.\n"
                                      "$$\na = b\n$$\nmore_")
    assert lines[0] == ("With :math:`a_b`, ``x`` and `it <https://a.org>`__ *now*\\ s."
                        .replace("`a_b`,", "`a_b`\\ ,"))
    assert ".. math::" in lines and lines[-1] == "more\\_"


def entry_of(kind):
    module = sys.modules[kind.__module__]
    return "\n".join(api_pages.entry(module.__name__, "11_layers", kind.__name__, kind))


def test_a_class_says_what_its_constructor_takes():
    parameters = list(inspect.signature(S5.__init__).parameters)[1:]
    assert {"H", "P", "unit_variance", "rngs"} <= set(parameters)
    own = entry_of(S5).partition(".. py:method::")[0]
    for name in parameters:
        assert re.search(rf"^   :param {name}: \w", own, re.MULTILINE), name
    assert ":raises ValueError: " in own and "Draw the initial" not in own


def test_a_class_without_a_constructor_of_its_own_has_its_docstring_only():
    assert entry_of(SSMParam).count(":param") == 0
    assert entry_of(Split).count(":param u:") == 1   # made by dataclass


def test_a_colon_in_returns_makes_no_type():
    lines = api_pages.sections("Sum.\n\nReturns:\n    (L, H): the sum, and $x$: y.\n"
                               "\nRaises:\n    ValueError: no.")
    assert r":returns: (L, H): the sum, and :math:`x`\ : y." in lines
    assert ":raises ValueError: no." in lines


def test_a_constant_has_the_docstring_below_it():
    found = api_pages.entry("annotated_ssm.interface", "11b_interface", "SLOWEST_DECAY",
                            1e-3)
    assert "   The smallest −Re λ that a layer starts from." in found
    assert api_pages.constant_doc("annotated_ssm.layers", "S5") == ""


def test_two_works_with_one_address_are_refused(tmp_path):
    entry = "@misc{%s, title={A}, author={B, C}, year={2020}, url={https://a.org/%s}}\n"
    path = tmp_path / "references.bib"
    path.write_text(entry % ("a", "") + entry % ("b", ""))
    with pytest.raises(ValueError, match="a and b have the same url"):
        bibliography.works(path)


def test_only_public_definitions_are_targets():
    source = ("%matplotlib inline\nA = 1\nB, (D, _E) = 2, (3, 4)\ndef f(): pass\n"
              "class C: pass\ndef _g(): pass")
    assert notebooks.defined_names(source) == ["A", "B", "D", "f", "C"]
    assert notebooks.defined_names("T: dict[str, int] = {}\n_u: int = 1") == ["T"]


def test_a_section_of_several_lines_is_indented_as_a_whole():
    """As in the docstring of a method, which stands deeper than a function's."""
    class Shown:
        def method(self):
            """Do it.

            Raises:
                ValueError: the first line of three,
                    the second one, and
                    the third.
            """

    lines = api_pages.describe("method", "Shown.method", "()", Shown.method)
    assert not any("\n" in line for line in lines)
    assert all(line.startswith("   ") for line in lines[2:] if line)
