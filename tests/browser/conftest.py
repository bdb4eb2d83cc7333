"""The site, built and served, and what Chromium saw on each of its pages."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kernels import AT_ONCE
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-dev-shm-usage"]
CHROMIUM = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")


class Site:
    """The built site: its folder, its address, the names of its pages."""

    def __init__(self, folder, address):
        self.folder, self.address = folder, address
        self.pages = sorted(str(path.relative_to(folder)) for path in
                            folder.rglob("*.html") if "_static" not in path.parts)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site():
    """Build the site from the executed notebooks, warnings as errors; serve it."""
    build = subprocess.run([sys.executable, ROOT / "tools/build_site.py"],
                           capture_output=True, text=True)
    if build.returncode:
        pytest.fail(f"the site can't be built:\n{build.stderr}", pytrace=False)
    folder = ROOT / "docs" / "_build" / "html"
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(folder, f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()


@contextlib.contextmanager
def chromium():
    path = next(filter(None, (shutil.which(name) for name in CHROMIUM if name)), None)
    if path is None:
        pytest.fail("no Chromium: sudo apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser):
    """A fresh window of a desktop's width."""
    context = browser.new_context(viewport={"width": 1280, "height": 900},
                                  permissions=["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def seen(site):
    """Page -> what was seen there: once at a desktop's width, in light and in dark,
    and once at a telephone's. Several browsers share the pages."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = pool.map(functools.partial(look_at, site),
                         [site.pages[k::AT_ONCE] for k in range(AT_ONCE)])
        found = {name: facts for part in parts for name, facts in part.items()}
    return {name: found[name] for name in site.pages}


def look_at(site, names):
    found = {}
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900},
                                      color_scheme="light", reduced_motion="reduce")
        for name in names:
            # A tab of its own: what one page leaves in memory can't crash a later one.
            page = context.new_page()
            found[name] = look(page, site, name)
            page.close()
    return found


def listen(page, site):
    """The list to which all will be added that a page must not do."""
    noise = []
    page.on("request", lambda r: noise.append(f"foreign request {r.url}") if
            urlsplit(r.url).scheme != "data" and not r.url.startswith(site.address)
            else None)
    page.on("response", lambda r: noise.append(f"{r.status} {r.url}")
            if r.status >= 400 else None)
    page.on("requestfailed", lambda r: noise.append(f"failed {r.url}"))
    page.on("console", lambda m: noise.append(f"{m.type}: {m.text}")
            if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: noise.append(f"error: {e}"))
    return noise


def look(page, site, name):
    noise = listen(page, site)
    page.goto(site.address + name)
    page.wait_for_function("() => !window.MathJax?.startup || window.mathsReady || "
                           "(MathJax.startup.promise.then(() => window.mathsReady = 1), 0)")
    facts = page.evaluate(FACTS)
    # One program makes the API pages: some of them stand for all.
    axe = not name.startswith("api/") or site.pages.index(name) % 8 == 0
    if axe:
        page.add_script_tag(path=ROOT / "tests" / "axe.min.js")
        facts["axe light"] = page.evaluate(AXE, SERIOUS)
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        facts["axe dark"] = page.evaluate(AXE, ["color-contrast"])
    page.set_viewport_size({"width": 390, "height": 844})
    facts["wide at 390"] = page.evaluate(WIDE)
    facts["late maths at 390"] = page.evaluate(LATE)
    if axe:
        facts["axe 390"] = page.evaluate(AXE, ["scrollable-region-focusable"])
    facts["noise"] = list(noise)
    return facts


# Every rule of axe that it rates serious or critical; None means that.
SERIOUS = None
AXE = """async rules => {
  const only = rules ? {runOnly: {type: "rule", values: rules}} : {};
  const {violations} = await axe.run(document, {...only, resultTypes: ["violations"]});
  return violations.filter(v => ["serious", "critical"].includes(v.impact)).flatMap(
    v => v.nodes.map(n => `${v.id}: ${n.target} ${n.any[0]?.message ?? n.html}`));
}"""
WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  return [...document.querySelectorAll(".bd-article *")]
    .filter(e => e.getBoundingClientRect().right > room + 1).slice(0, 5)
    .map(e => e.outerHTML.slice(0, 200)).concat(`page ${document.documentElement.scrollWidth}`);
}"""
# Formulas that show their end before their beginning.
LATE = """() => [...document.querySelectorAll(".bd-article div.math")].filter(e =>
  e.querySelector("mjx-math")?.getBoundingClientRect().left
    < e.getBoundingClientRect().left - 1).map(e => e.id || e.textContent.slice(0, 80))"""
FACTS = """() => {
  const article = document.querySelector(".bd-article") ?? document.body;
  const all = (selector, from = article) => [...from.querySelectorAll(selector)];
  const prose = article.cloneNode(true);
  for (const e of all("code, mjx-container, script, .highlight", prose)) e.remove();
  return {
    title: document.title,
    prose: prose.textContent,
    code: all(".cell_input pre").map(e => e.textContent),
    wideCode: all(".cell_input pre").filter(e => e.scrollWidth > e.clientWidth)
      .map(e => e.textContent.slice(0, 80)),
    maths: all(".math").length,
    wideMaths: all("div.math").filter(e => e.scrollWidth > e.clientWidth + 1)
      .map(e => e.id || e.textContent.slice(0, 80)),
    typeset: all("mjx-container").length,
    mathErrors: all("mjx-merror, [data-mjx-error]").map(e => e.textContent),
    wide: (WIDE)(),
    pictures: all("img", document).map(e => [e.getAttribute("src"), e.hasAttribute("alt"),
      e.closest("figure") ? e.alt : null, e.naturalWidth]),
    captions: all("figcaption").map(e => e.textContent.trim()),
    links: all("a[href]", document).map(e => e.href),
    ids: all("[id]", document).map(e => e.id),
    entries: all("dt.sig").map(e => ({id: e.id, text: e.textContent,
      body: e.parentElement.querySelector(":scope > dd")?.textContent ?? ""})),
    apiLinks: all("a.reference.internal:has(code)").map(e => e.getAttribute("href")),
  };
}""".replace("WIDE", WIDE)
