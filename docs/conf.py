"""Sphinx's configuration. `tools/build_site.py` gathers the sources and runs it."""

import sys
from configparser import ConfigParser
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE / "_ext")]
import api_pages  # noqa: E402
import bibliography  # noqa: E402

_parser = ConfigParser(delimiters=["="])
_parser.read(ROOT / "settings.ini", encoding="utf-8")
_settings = _parser["DEFAULT"]

project = _settings["title"]
author = _settings["author"]
copyright = _settings["copyright"]
release = version = _settings["version"]

extensions = ["myst_nb", "book", "sphinx.ext.mathjax", "sphinx_copybutton",
              "sphinx_external_toc"]
# Nothing here is for parallel reading: the book's numbers are checked as a whole.
nb_execution_mode = "off"
nb_merge_streams = True
nb_output_stderr = "remove-warn"
nb_render_markdown_format = "myst"

# The Markdown is what Jupyter and GitHub understand too, and no more.
myst_enable_extensions = ["dollarmath"]
myst_disable_syntax = ["myst_role", "myst_target", "myst_line_comment",
                       "myst_block_break"]
myst_all_links_external = True
myst_dmath_allow_labels = False
myst_dmath_double_inline = True
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}, "chtml": {"mtextInheritFont": True}}

add_module_names = False
python_maximum_signature_line_length = 68
# Other packages' types have no pages here.
nitpick_ignore_regex = [("py:class", r".*")]

book_root = str(ROOT)
book_sources = _settings["nbs_path"]
book_repository = _settings["git_url"]
book_works = bibliography.works(HERE / "references.bib")
book_symbols = api_pages.symbols(
    api_pages.exported_modules(ROOT, _settings["lib_name"]))

html_theme = "sphinx_book_theme"
html_title = project
html_baseurl = _settings["doc_host"] + _settings["doc_baseurl"] + "/"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["palette.css", "custom.css"]
html_js_files = [("book.js", {"defer": "defer"})]
html_show_sourcelink = False
html_domain_indices = False
html_use_index = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg",
             "text": project, "alt_text": ""},
    "repository_url": _settings["git_url"],
    "repository_branch": _settings["branch"],
    "path_to_docs": _settings["nbs_path"],
    "use_repository_button": True,
    "use_source_button": True,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "launch_buttons": {"colab_url": "https://colab.research.google.com"},
    "navbar_persistent": [],
    "show_toc_level": 2,
    "home_page_in_toc": True,
}
copybutton_exclude = ".linenos, .gp, .go"


def add_generated(app, config):
    """What the build generated beside the pages."""
    config.html_static_path.append(str(Path(app.srcdir) / "_static"))


def setup(app):
    app.connect("config-inited", add_generated)
