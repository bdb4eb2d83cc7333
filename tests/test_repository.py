"""The rules that every notebook, module and file of the repository keeps."""

import ast
import filecmp
import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from repository import (MODULES, NOTEBOOKS, PACKAGE, ROOT, UNEXPORTED, cells,
                        chapter, directives, settings, tracked_files)

# What each module may build on; and through it, on what that builds on.
IMPORTS = {
    "state_space": (),
    "sequences": ("state_space",),
    "hippo": ("state_space",),
    "diagonalization": ("hippo",),
    "nplr": ("hippo",),
    "cauchy": ("kernels_time", "nplr", "state_space"),
    "kernels_time": ("nplr",),
    "fast_cauchy": ("cauchy",),
    "s4": ("cauchy", "kernels_time", "fast_cauchy", "nplr", "sequences"),
    "s4d": ("nplr", "sequences", "state_space"),
    "bank": ("s4d", "sequences"),
    "scan": ("state_space",),
    "sequence_parallel": ("scan", "sequences"),
    "s5": ("scan", "nplr", "state_space", "sequences"),
    "equivalence": ("s4", "bank", "s5"),
    "interface": ("sequences", "state_space"),
    "layers": ("interface", "s4", "bank", "s5", "sequences"),
    "encoders": ("interface", "sequences", "state_space"),
    "models": ("layers", "encoders"),
    "heads": ("models",),
    "pooling": ("models",),
    "baselines": ("models",),
    "recurrent": ("models",),
    "attention": ("recurrent",),
    "datasets": (),
    "archives": ("datasets",),
    "images": ("archives",),
    "audio": ("archives",),
    "resampling": (),
    "text": ("archives",),
    "streams": ("text",),
    "mails": ("archives",),
    "series": ("archives",),
    "generators": (),
    "listops": ("datasets", "generators"),
    "pathfinder": ("datasets", "generators"),
    "pendulum": ("datasets", "generators"),
    "signals": ("generators",),
    "splits": ("sequences",),
    "metrics": ("sequences",),
    "rivals": ("splits",),
    "problems": ("metrics", "splits"),
    "image_tasks": ("images", "pathfinder", "problems", "rivals"),
    "sound_tasks": ("audio", "problems", "resampling", "rivals"),
    "text_tasks": ("listops", "mails", "problems", "rivals", "streams"),
    "memory_tasks": ("problems", "signals"),
    "series_tasks": ("pendulum", "problems", "rivals", "series", "signals"),
    "tasks": ("image_tasks", "sound_tasks", "text_tasks", "memory_tasks",
              "series_tasks"),
    "optimizer": ("interface",),
    "checkpoints": ("datasets", "sequences"),
    "compiled": ("metrics", "optimizer", "splits"),
    "training": ("models", "tasks", "checkpoints", "compiled"),
    "configurations": ("models", "tasks", "optimizer"),
    "augmentation": ("tasks",),
    "assembly": ("configurations", "training", "baselines", "attention", "heads",
                 "pooling"),
    "catalogue": ("configurations",),
    "experiments": ("assembly", "augmentation", "catalogue"),
    "pretrained": ("experiments",),
    "command_line": ("experiments", "pretrained"),
    "converters": ("layers",),
}
# Functions on arrays that know no neural-network library.
THEORY = ("state_space", "sequences", "hippo", "diagonalization", "nplr", "cauchy",
          "kernels_time", "fast_cauchy", "s4", "s4d", "bank", "scan",
          "sequence_parallel", "s5", "equivalence")
# Notebooks draw and check with these; no module does.
LEAVES = ("plotting", "checks")
TOOLCHAIN = {"nbdev", "fastcore", "execnb"}
# cycler is matplotlib's own; notebooks and checks may ask IPython to display.
COMPANIONS = {"cycler", "IPython", "matplotlib_inline"}

COLAB_CELL = """\
#| hide
# On Colab: install the package and keep Colab's own JAX.
import importlib.metadata
import importlib.util
if importlib.util.find_spec("annotated_ssm") is None:
    import jax
    before = jax.__version__, jax.default_backend()
    %pip install -q "annotated-ssm @ git+{git_url}"
    after = importlib.metadata.version("jax"), jax.default_backend()
    assert after == before, f"JAX changed from {{before}} to {{after}}: restart the runtime\""""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)


def imported(tree):
    """Full names of what a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = "annotated_ssm" if node.level else node.module
            if node.level and node.module:
                origin += "." + node.module
            if origin == "annotated_ssm":
                names |= {f"{origin}.{alias.name}" for alias in node.names}
            else:
                names.add(origin)
    return names


def siblings(names):
    return {n.split(".")[1] for n in names if n.startswith("annotated_ssm.")}


def below(module):
    """All that the module may import, through others too."""
    reached = set()
    for name in IMPORTS[module]:
        reached |= {name} | below(name)
    return reached


def code_of(path):
    """A notebook's code without directives and magics, for ast."""
    source = "\n".join(text for text, _ in cells(path, "code"))
    return ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.M))


# The package


@each_module
def test_imports_point_upward(path):
    used = siblings(imported(ast.parse(path.read_text(encoding="utf-8"))))
    if path.stem.startswith("figures_"):
        allowed = {"plotting"}
    elif path.stem in LEAVES:
        allowed = set()
    else:
        allowed = below(path.stem)
    assert used <= allowed


@each_module
def test_modules_import_only_what_is_required(path):
    names = {name.split(".")[0]
             for name in imported(ast.parse(path.read_text(encoding="utf-8")))}
    # What is installed as orbax-checkpoint is imported as orbax.
    required = {re.split("[-<>=!~]", r)[0] for r in settings()["requirements"].split()}
    foreign = names - set(sys.stdlib_module_names) - {"annotated_ssm"}
    if path.stem in LEAVES:
        required |= COMPANIONS
    if path.stem in THEORY:
        required -= {"flax", "optax", "orbax", "tqdm"}
    assert foreign <= required


@each_notebook
def test_notebooks_know_no_toolchain(path):
    assert not TOOLCHAIN & {n.split(".")[0] for n in imported(code_of(path))}


def test_every_module_is_exported_from_one_notebook():
    exported = [directives(source)["default_exp"] for path in NOTEBOOKS
                for source, _ in cells(path, "code")
                if "default_exp" in directives(source)]
    assert sorted(exported) == [path.stem for path in MODULES]


def test_package_is_what_the_notebooks_export(tmp_path):
    for name in ("nbs", "annotated_ssm"):
        shutil.copytree(ROOT / name, tmp_path / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "settings.ini", tmp_path)
    subprocess.run(
        [sys.executable, "-c", "from nbdev.doclinks import nbdev_export; nbdev_export()"],
        cwd=tmp_path, check=True)
    names = [path.name for path in PACKAGE.glob("*.py")]
    fresh = [path.name for path in (tmp_path / "annotated_ssm").glob("*.py")]
    assert sorted(fresh) == sorted(names)
    _, different, unread = filecmp.cmpfiles(
        PACKAGE, tmp_path / "annotated_ssm", names, shallow=False)
    assert different == [] and unread == [], "run `make export`"


def _undocumented(tree, returns=True):
    """Public definitions whose docstring is missing or leaves something out.

    A function has sections (Args, Returns), or a summary short enough to name
    each of its arguments, or takes its arguments "as in `another`".
    """
    for owner in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))]:
        for node in owner.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if node.name.startswith("_") or getattr(owner, "name", "").startswith("_"):
                continue
            text = ast.get_docstring(node)
            if not text:
                yield f"{node.name}: no docstring"
            elif owner is tree and isinstance(node, ast.FunctionDef):
                arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args,
                                             *node.args.kwonlyargs)]
                unnamed = [a for a in arguments
                           if not re.search(rf"(?<!\w){a}(?!\w)", text)]
                gives = any(n.value for n in ast.walk(node)
                            if isinstance(n, (ast.Return, ast.Yield)))
                if unnamed and "as in `" not in text:
                    yield f"{node.name}: says nothing of {', '.join(unnamed)}"
                elif "Args:" in text and gives and returns and (
                        not re.search("Returns:|Yields:", text)):
                    yield f"{node.name}: no Returns"


@each_module
def test_public_definitions_are_documented(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # Every function of a figures module returns its Figure.
    drawn = path.stem.startswith("figures_")
    assert list(_undocumented(tree, returns=not drawn)) == []


def test_shapes_are_checked_while_the_tests_run():
    import jax.numpy as jnp
    from annotated_ssm.scan import linear_scan
    from jaxtyping import TypeCheckError
    with pytest.raises(TypeCheckError):
        linear_scan("not an array", jnp.ones((3, 2)))


# The notebooks


@each_notebook
def test_first_cells(path):
    first = [source for source, _ in cells(path)][:3]
    if first[0].startswith("#| default_exp"):
        assert re.fullmatch(r"#\| default_exp \w+", first.pop(0))
    assert COLAB_CELL.format(git_url=settings()["git_url"]) in first[:2]
    title = cells(path, "markdown")[0][0]
    assert title in first[:2] and title.startswith("# ")
    number = chapter(path)
    if number and number.isdigit():
        assert re.match(rf"# {number}\. \S.*\n\n> \S", title)


@each_notebook
def test_directives_are_known(path):
    known = {"default_exp", "hide", "export", "exporti", "code-fold", "echo",
             "label", "fig-cap", "fig-alt"}
    for source, _ in cells(path, "code"):
        found = directives(source)
        assert set(found) <= known
        assert found.get("code-fold", "true") == "true"
        assert found.get("echo", "false") == "false"


@each_notebook
def test_figures_have_label_caption_and_alternative_text(path):
    for source, cell in cells(path, "code"):
        found = directives(source)
        kinds = {kind for output in cell["outputs"] for kind in output.get("data", ())}
        draws = kinds & {"image/svg+xml", "image/png"}
        if (draws and "hide" not in found) or {"label", "fig-cap", "fig-alt"} & set(found):
            missing = [n for n in ("label", "fig-cap", "fig-alt") if not found.get(n)]
            assert missing == [], source


@each_notebook
def test_code_lines_fit_the_page(path):
    long = [line for source, _ in cells(path, "code") for line in source.splitlines()
            if len(line) > 88 and not line.startswith("#|")
            and line not in COLAB_CELL.format(git_url=settings()["git_url"])]
    assert long == []


@each_notebook
def test_markdown_is_of_no_site_generator(path):
    own = re.compile(r"^```\{|^:::|\{(?:cite|eq|ref|numref|doc|py)[:}]|\\newcommand"
                     r"|\{\{<|^\+\+\+", re.M)
    assert [own.search(s)[0] for s, _ in cells(path, "markdown") if own.search(s)] == []


def _numbered():
    """(kind, chapter, number, notebook) in order of appearance."""
    patterns = {
        "eq": r"\\tag\{([\w.]+)\.(\d+)\}",
        "ex": r"^### Exercise ([\w.]+)\.(\d+)\b",
        "sec": r"^## (\d+[a-z]?)\.(\d+)\b",
    }
    for path in NOTEBOOKS:
        for source, cell in cells(path):
            if cell["cell_type"] == "markdown":
                for kind, pattern in patterns.items():
                    for found in re.finditer(pattern, source, re.M):
                        yield kind, found[1], int(found[2]), path
            else:
                label = directives(source).get("label")
                if label:
                    found = re.fullmatch(r"fig-(\w+)\.(\d+)|fig-(headline)", label)
                    assert found, f"{path.name}: label {label}"
                    yield "fig", found[3] or found[1], int(found[2] or 1), path


@pytest.mark.parametrize("kind", ["eq", "fig", "ex", "sec"])
def test_numbers_run_in_order(kind):
    runs = {}
    for found, group, number, _ in _numbered():
        if found == kind:
            runs.setdefault(group, []).append(number)
    wrong = {group: numbers for group, numbers in runs.items()
             if numbers != list(range(1, len(numbers) + 1))}
    assert runs and wrong == {}


def test_numbers_are_of_their_chapter():
    for kind, group, number, path in _numbered():
        own = chapter(path)
        if own is not None:
            assert group in (own, own.rstrip("bcd")), f"{path.name}: {kind}-{group}.{number}"


@each_notebook
def test_links_between_notebooks_lead_somewhere(path):
    targets = {}
    for kind, group, number, owner in _numbered():
        targets.setdefault(owner.name, set()).add(f"{kind}-{group}.{number}")
    broken = []
    for source, _ in cells(path, "markdown"):
        for name, anchor in re.findall(r"\]\(([\w.-]*\.ipynb)?(?:#([\w.-]+))?\)", source):
            name = name or path.name
            if not (ROOT / "nbs" / name).exists():
                broken.append(name)
            elif re.match("(eq|fig|ex|sec)-", anchor):
                if anchor not in targets.get(name, ()):
                    broken.append(f"{name}#{anchor}")
    assert broken == []


@each_notebook
def test_notebook_is_small_and_without_execution_counts(path):
    assert path.stat().st_size < 1_000_000
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) <= {"kernelspec"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    for _, cell in cells(path, "code"):
        assert cell["execution_count"] is None
        assert all(o.get("execution_count") is None for o in cell["outputs"])
        assert all(o["output_type"] != "error" for o in cell["outputs"])


# What stands around them


def test_the_front_page_has_the_address_of_the_site():
    wanted = settings()["doc_host"] + settings()["doc_baseurl"] + "/"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"https://[\w.-]+\.github\.io[^)\s]*", readme)) == {wanted}


def test_the_front_page_calls_chapters_by_their_titles():
    index = "".join(text for text, _ in cells(ROOT / "nbs/index.ipynb", "markdown"))
    titles = {path.name: next(text for text, _ in cells(path, "markdown")
                              ).partition("\n")[0].removeprefix("# ")
              for path in NOTEBOOKS}
    named = re.findall(r"^\|[^|]*\| \[([^]]+)\]\((\w+\.ipynb)\)", index, re.M)
    assert named and [(titles[file], file) for _, file in named] == named


def test_readme_is_the_index():
    subprocess.run([sys.executable, ROOT / "tools" / "readme.py", "--check"], check=True)


def test_citation_and_version_are_those_of_the_settings():
    s = settings()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["title"] == s["title"]
    assert citation["abstract"] == s["description"]
    assert [a["name"] for a in citation["authors"]] == [s["author"]]
    assert str(citation["version"]) == s["version"]
    assert citation["repository-code"] == s["git_url"]
    assert citation["url"] == s["doc_host"] + s["doc_baseurl"]
    assert citation["keywords"] == s["keywords"].split()
    assert citation["license"] == "Apache-2.0" and s["license"] == "apache2"
    code = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{s["version"]}"' in code


def test_locks_are_of_the_settings():
    """Each required package is locked, with hashes, within its bounds."""
    from packaging.requirements import Requirement
    s = settings()
    required = [Requirement(r) for r in s["requirements"].split()]
    development = [Requirement(r) for r in s["dev_requirements"].split()]
    first, last = (int(s[k].split(".")[1]) for k in ("min_python", "max_python"))
    locks = {f"requirements-lock-3.{m}.txt": required + development
             for m in range(first, last + 1)}
    assert {p.name for p in ROOT.glob("requirements-*.txt")} == {
        *locks, "requirements-lowest.txt"}
    for name, requirements in (*locks.items(), ("requirements-lowest.txt", required)):
        text = (ROOT / name).read_text(encoding="utf-8")
        pins = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))
        for requirement in requirements:
            pin = pins[requirement.name.lower()]
            assert requirement.specifier.contains(pin), f"{name}: {requirement}"
            if requirement in required and name.endswith("lowest.txt"):
                # The lower bound is a version that is tested, not a guess.
                low = [sp.version for sp in requirement.specifier if sp.operator == ">="]
                assert [pin] == low or pin == low[0] + ".0", f"{requirement}: {pin}"
        assert text.count("==") <= text.count("--hash=sha256:")


def test_no_file_names_a_machine():
    # Written in halves, so that this file doesn't name them itself.
    machine = re.compile("|".join([
        "/wor" "k/", "/roo" "t/", "/hom" r"e/(?!you\b)\w", "/Use" r"rs/\w", "/tm" r"p/\w",
        "pypi" r"\.org", "pythonho" r"sted\.org", "npmjs" r"\.(?:org|com)",
        r"\.\./sha" "red"]))
    found = []
    for path in tracked_files():
        if path.relative_to(ROOT).as_posix() == ".ci/run":
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {m[0]}" for m in machine.finditer(text)]
    assert found == []


def test_no_file_is_large():
    vendored = ["docs/_static/mathjax/tex-chtml.js"]
    large = [p.relative_to(ROOT).as_posix() for p in tracked_files()
             if p.stat().st_size > 1_000_000]
    assert set(large) <= set(vendored)


def test_notice_names_what_others_made():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    named = re.findall(r"^(\S+/\S+)  ", notice, re.M)
    assert [path for path in named if not (ROOT / path).exists()] == []
    licences = [p.relative_to(ROOT) for p in tracked_files()
                if "LICENSE" in p.name and p.parent != ROOT]
    for licence in licences:
        assert any(licence.as_posix().startswith(path.split(".")[0]) for path in named)


def test_no_test_is_skipped():
    excuse = re.compile("pytest" r"\.skip|mark\.(skip|xfail)|importorskip|unittest\.skip")
    tests = [p for p in tracked_files() if p.suffix == ".py" and "tests" in p.parts]
    assert [p.name for p in tests if excuse.search(p.read_text(encoding="utf-8"))
            and p.name != "test_repository.py"] == []
