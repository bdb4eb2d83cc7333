"""Every page of the built site, in Chromium."""

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from repository import MODULES, NOTEBOOKS, cells, directives, settings  # noqa: E402

REPOSITORY = settings()["git_url"]
MARKDOWN = sorted((ROOT / "nbs").glob("*.md"))
SOURCES = {path.stem: path for path in (*NOTEBOOKS, *MARKDOWN)}
GENERATED = {"api/index", "references", "figures", "search",
             *(f"api/{path.stem}" for path in MODULES)}
# What must never reach a reader: directives, and markup that wasn't understood.
RAW = re.compile(r"#\||\$\$|\\begin|\\tag|\{(eq|cite|py:\w+|ref|numref)\}|\[@|:py:\w+:"
                 r"|:math:|\]\(http|\]\(#|\]\(\w+\.ipynb")


def everywhere(seen, what):
    """{page: what's wrong there}, for the pages with anything wrong."""
    return {page: wrong for page, facts in seen.items() if (wrong := what(facts))}


def test_every_source_has_its_page(site):
    assert site.pages == sorted(f"{name}.html" for name in {*SOURCES, *GENERATED})


def test_nothing_is_fetched_elsewhere_and_nothing_fails(seen):
    assert everywhere(seen, lambda facts: facts["noise"]) == {}


def test_no_markup_is_left_in_the_text(seen):
    assert everywhere(seen, lambda facts: [
        facts["prose"][max(0, m.start() - 40):m.end() + 40]
        for m in RAW.finditer(facts["prose"])]) == {}
    assert everywhere(seen, lambda facts: [
        code for code in facts["code"] if re.search(r"^\s*#\|", code, re.M)]) == {}


def test_no_page_tells_where_it_was_built(site):
    assert [page for page in site.pages
            if str(ROOT) in (site.folder / page).read_text(encoding="utf-8")] == []


def test_all_maths_is_typeset(seen):
    assert everywhere(seen, lambda f: f["maths"] - f["typeset"]) == {}
    assert everywhere(seen, lambda f: f["mathErrors"]) == {}
    assert sum(f["typeset"] for f in seen.values()) > 100


@pytest.mark.parametrize("width", ["wide", "wide at 390"])
def test_no_page_scrolls_sideways(seen, width):
    assert everywhere(seen, lambda facts: facts[width]) == {}


def test_no_code_scrolls_sideways_on_a_desktop(seen):
    assert everywhere(seen, lambda facts: facts["wideCode"]) == {}


def test_formulas_fit_a_desktop_and_begin_at_their_beginning(seen):
    assert everywhere(seen, lambda facts: facts["wideMaths"]) == {}
    assert everywhere(seen, lambda facts: facts["late maths at 390"]) == {}


@pytest.mark.parametrize("look", ["axe light", "axe dark", "axe 390"])
def test_everyone_can_read_it(seen, look):
    assert everywhere(seen, lambda facts: facts.get(look)) == {}
    assert len([page for page, facts in seen.items() if look in facts]) > len(SOURCES)


def test_every_picture_is_there_and_described(seen):
    assert everywhere(seen, lambda facts: [
        src for src, has_alt, figure_alt, width in facts["pictures"]
        if not has_alt or figure_alt == "" or not width]) == {}


def test_figures_are_captioned_with_their_numbers(seen):
    for path in NOTEBOOKS:
        labels = [found["label"] for source, _ in cells(path, "code")
                  if "label" in (found := directives(source)) and "hide" not in found]
        captions = seen[f"{path.stem}.html"]["captions"]
        numbers = [label.removeprefix("fig-") for label in labels]
        assert len(captions) == len(numbers), path.name
        for number, caption in zip(numbers, captions, strict=True):
            if number[0].isdigit():
                assert caption.startswith(f"Figure {number}. "), path.name


def test_every_link_and_anchor_leads_somewhere(site, seen):
    def broken(facts):
        missing = []
        for link in facts["links"]:
            address, anchor = urldefrag(link)
            if not address.startswith(site.address):
                continue
            name = address.removeprefix(site.address) or "index.html"
            if not (site.folder / name).is_file():
                missing.append(link)
            elif anchor and name in seen and anchor not in seen[name]["ids"]:
                missing.append(link)
        return missing
    assert everywhere(seen, broken) == {}


def test_every_number_is_an_anchor(seen):
    """An equation's, figure's, section's or exercise's number is in the address."""
    for path in NOTEBOOKS:
        ids = seen[f"{path.stem}.html"]["ids"]
        text = "\n".join(source for source, _ in cells(path, "markdown"))
        equations = re.findall(r"\\tag\{([\w.]+)\}", text)
        sections = re.findall(r"^#{2,} (\d+[a-z]?\.\d+) ", text, re.M)
        exercises = re.findall(r"^#{2,} Exercise (\d+[a-z]?\.\d+)", text, re.M)
        wanted = [f"{kind}-{number.replace('.', '-')}" for kind, numbers in
                  (("eq", equations), ("sec", sections), ("ex", exercises))
                  for number in numbers]
        assert [anchor for anchor in wanted if ids.count(anchor) != 1] == [], path.name


def test_notebook_pages_lead_to_colab_and_to_their_source(seen):
    colab = REPOSITORY.replace("https://github.com",
                               "https://colab.research.google.com/github")
    for page, facts in seen.items():
        stem = page.removesuffix(".html")
        outside = {link for link in facts["links"]
                   if link.startswith((REPOSITORY, colab)) and "/nbs/" in link}
        if stem not in SOURCES:
            assert not outside, page
            continue
        name = SOURCES[stem].name
        expected = {f"{REPOSITORY}/blob/main/nbs/{name}"}
        if name.endswith(".ipynb"):
            expected.add(f"{colab}/blob/main/nbs/{name}")
            assert any(link.endswith(f"/_sources/{name}") for link in facts["links"])
        assert expected <= outside, page


def test_citations_lead_to_the_bibliography(seen):
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{([^,\s]+),", text, re.M)
    urls = re.findall(r"^\s*url\s*=\s*[{\"]([^}\"]+)", text, re.M)
    facts = seen["references.html"]
    assert len(keys) == len(urls) and set(urls) <= set(facts["links"])
    assert set(keys) <= set(facts["ids"])
    for page in (f"{path.stem}.html" for path in NOTEBOOKS):
        assert not set(urls) & set(seen[page]["links"]), page


def exported(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    return []


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_api_page_tells_all(path, seen):
    """Signature, parameters, what is raised: for every exported name."""
    module = importlib.import_module(f"annotated_ssm.{path.stem}")
    entries = {entry["id"]: entry for entry in seen[f"api/{path.stem}.html"]["entries"]}
    for name in exported(path):
        entry = entries[f"annotated_ssm.{path.stem}.{name}"]
        value = getattr(module, name)
        assert "in the notebook" in entry["body"], name
        assert "jaxlib" not in entry["text"] and " at 0x" not in entry["text"], name
        if not inspect.isfunction(value):
            continue
        doc = inspect.getdoc(value)
        for parameter in inspect.signature(value).parameters:
            assert re.search(rf"\b{parameter}\b", entry["text"]), (name, parameter)
        for section, title in {"Args:": "Parameters", "Returns:": "Returns",
                               "Raises:": "Raises", "Source:": "Source"}.items():
            if section in doc:
                assert f"{title}:" in entry["body"], (name, title)


def test_names_in_the_prose_lead_to_the_api(seen):
    """A chapter that names in its prose what it exports links to the entry."""
    linked = 0
    for path in NOTEBOOKS:
        module = next((directives(source)["default_exp"] for source, _ in
                       cells(path, "code") if "default_exp" in directives(source)), None)
        if module is None:
            continue
        lines = [line for source, _ in cells(path, "markdown")
                 for line in source.splitlines() if not line.startswith("#")]
        found = {link.split("#")[-1] for link in seen[f"{path.stem}.html"]["apiLinks"]}
        for name in exported(ROOT / "annotated_ssm" / f"{module}.py"):
            if any(re.search(rf"(?<![`\[])`{name}`(?!`)", line) for line in lines):
                assert f"annotated_ssm.{module}.{name}" in found, (path.name, name)
                linked += 1
    assert linked > 10


def page_with(seen, what):
    """The first page of a notebook whose links or ids have the text."""
    return next(page for page, facts in seen.items() if page[:2].isdigit()
                and any(what in link for link in facts["links"]))


def test_equation_link_jumps(site, seen, tab):
    tab.goto(site.address + page_with(seen, "#eq-"))
    tab.wait_for_function("MathJax.startup.promise.then(() => true)")
    link = tab.locator('article a.reference.internal[href*="#eq-"]').first
    target = link.get_attribute("href").split("#")[1]
    link.click()
    expect(tab.locator(f"#{target}")).to_be_in_viewport()
    assert tab.locator(f"#{target} mjx-container").count() == 1


def test_copy_button_copies_the_code(site, tab):
    tab.goto(site.address + "00_notation.html")
    cell = tab.locator("div.cell_input").first
    cell.hover()
    cell.locator("button.copybtn").click()
    expect(cell.locator("button.copybtn.success")).to_be_visible()
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == cell.locator("pre").text_content().strip()


def test_search_finds_a_page(site, tab):
    tab.goto(site.address + "index.html")
    boxes = tab.locator("button.search-button-field, button.search-button")
    assert sum(box.is_visible() for box in boxes.all()) == 1
    boxes.locator("visible=true").click()
    tab.locator("#pst-search-dialog input[type=search]").fill("notation")
    tab.keyboard.press("Enter")
    found = tab.locator('#search-results a[href*="00_notation.html"]').first
    expect(found).to_be_visible()
    found.click()
    expect(tab.locator("h1").first).to_contain_text("Notation")


def test_light_and_dark_take_turns(site, tab):
    tab.goto(site.address + "00_notation.html")
    for mode, theme in (("dark", "dark"), ("light", "light"), ("auto", "light")):
        tab.locator("button.theme-switch-button").locator("visible=true").first.click()
        tab.locator(f'.theme-change-button[data-mode="{mode}"]').first.click()
        assert tab.evaluate("({...document.documentElement.dataset})")["mode"] == mode
        expect(tab.locator("html")).to_have_attribute("data-theme", theme)


def test_palette_is_that_of_the_figures(site, tab):
    from annotated_ssm.plotting import PALETTE
    tab.goto(site.address + "index.html")
    shown = tab.evaluate("""names => Object.fromEntries(names.map(name => [name,
        getComputedStyle(document.documentElement).getPropertyValue("--ssm-" + name)]))""",
                         list(PALETTE))
    assert shown == PALETTE


def test_folded_code_unfolds(site, seen, tab):
    page = next(page for page, facts in seen.items()
                if "Show the solution of Exercise" in facts["prose"])
    tab.goto(site.address + page)
    fold = tab.locator("details.hide", has_text="Show the solution of Exercise").first
    code = fold.locator("pre").first
    expect(code).to_be_hidden()
    fold.locator("summary").click()
    expect(code).to_be_visible()


def test_an_animation_moves_and_can_be_stopped(site, tab):
    tab.goto(site.address + "02_hippo.html")
    button = tab.locator("figure button.motion")
    image = tab.locator("figure:has(button.motion) img")
    image.scroll_into_view_if_needed()

    def moments():
        seen = set()
        for _ in range(4):
            seen.add(image.screenshot())
            tab.wait_for_timeout(400)
        return len(seen)

    expect(button).to_have_text("Pause")
    assert moments() > 1
    button.click()
    expect(button).to_have_text("Play")
    tab.wait_for_timeout(400)
    assert moments() == 1
    button.click()
    expect(button).to_have_text("Pause")
    assert moments() > 1
