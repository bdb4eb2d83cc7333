"""The built package, installed alone, is what the book says it is.

Each environment holds the wheel, what it requires and a kernel, nothing else:
at the newest locked versions, and (on the oldest supported Python, for which
that lock is made) at the oldest versions that settings.ini admits. There the
README's example and every notebook run from an empty folder, as in Colab.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser

import pytest
from kernels import Ahead, run_notebook
from packaging.requirements import Requirement
from repository import NOTEBOOKS, PACKAGE, ROOT, settings

BUILD = ROOT / "build"
RUNNING = "%d.%d" % sys.version_info[:2]
NEWEST, LOWEST = f"requirements-lock-{RUNNING}.txt", "requirements-lowest.txt"
LOCKS = {"newest": NEWEST}
if RUNNING == settings()["min_python"]:
    LOCKS["lowest"] = LOWEST


def uv(*arguments):
    subprocess.run([sys.executable, "-m", "uv", "--system-certs", *map(str, arguments)],
                   check=True, cwd=ROOT)


@pytest.fixture(scope="session")
def wheel():
    """The wheel, built by way of the source distribution."""
    folder = BUILD / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir",
                    folder, ROOT], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def make_environment(name, wheel):
    """An environment with the wheel; its dependencies are kept between runs."""
    required = settings()["requirements"].split()
    lock = ROOT / LOCKS[name]
    key = hashlib.sha256(lock.read_bytes() + repr(required).encode()).hexdigest()[:12]
    folder = BUILD / "environments" / f"{name}-{RUNNING}-{key}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        uv("venv", "--quiet", "--clear", "--python", sys.executable, folder)
        if name == "lowest":
            uv("pip", "sync", "--quiet", "--python", python, "--require-hashes", lock)
        else:
            uv("pip", "install", "--quiet", "--python", python, "--constraints", lock,
               "ipykernel", *required)
        (folder / "complete").touch()
    uv("pip", "install", "--quiet", "--python", python, "--no-deps", "--reinstall", wheel)
    uv("pip", "check", "--quiet", "--python", python)
    return python


@pytest.fixture(scope="session")
def interpreter(wheel):
    """interpreter(name): the Python of an environment, made once."""
    return functools.cache(lambda name: make_environment(name, wheel))


@pytest.fixture(scope="session")
def ahead():
    jobs = Ahead()
    yield jobs
    jobs.stop()


def clean_environment():
    """The machine's variables without what would lend the repository's imports."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}


def test_metadata_is_that_of_the_settings(wheel):
    s = settings()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(n for n in names if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(info).decode())
        scripts = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert metadata["Name"].replace("-", "_") == s["lib_name"]
    assert metadata["Version"] == s["version"]
    assert metadata["Summary"] == s["description"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=" + s["min_python"]
    assert metadata["Author-email"] == f"{s['author']} <{s['author_email']}>"
    assert metadata["Keywords"].split(",") == sorted(s["keywords"].split())
    stated = [Requirement(r) for r in metadata.get_all("Requires-Dist")]
    required = {Requirement(r) for r in s["requirements"].split()}
    assert {r for r in stated if r.marker is None} == required
    urls = dict(u.split(", ") for u in metadata.get_all("Project-URL"))
    assert urls == {"Source": s["git_url"], "Documentation": s["doc_host"] + s["doc_baseurl"]}
    assert metadata.get_payload().strip() == (ROOT / "README.md").read_text("utf-8").strip()
    command, _, target = s["console_scripts"].partition("=")
    assert f"{command} = {target}" in scripts
    assert any(n.endswith("licenses/LICENSE") for n in names)


def test_wheel_is_the_package_with_its_results_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    package = {p.relative_to(ROOT).as_posix() for p in PACKAGE.rglob("*")
               if p.is_file() and "__pycache__" not in p.parts}
    results = {f"annotated_ssm/data/{p.relative_to(ROOT).as_posix()}"
               for p in (ROOT / "results").rglob("*.json")}
    assert results and packed == package | results
    shelf = "annotated_ssm/data/pretrained"
    assert {f"{shelf}/digits-{layer}/{file}" for layer in ("s4", "s4d", "dss", "s5")
            for file in ("model.npz", "experiment.json", "result.json")} <= packed


@pytest.mark.parametrize("name", LOCKS)
def test_lowest_bounds_are_installed(name, interpreter):
    """The environments are what they claim: newest is the lock's, lowest the bounds'."""
    listing = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "freeze", "--python", interpreter(name)],
        check=True, capture_output=True, text=True).stdout
    installed = dict(re.findall(r"^([\w.-]+)==(\S+)", listing, re.M))
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / LOCKS[name]).read_text(), re.M))
    installed.pop("annotated-ssm", None)
    assert installed and installed.items() <= pins.items()


@pytest.mark.parametrize("name", LOCKS)
def test_readme_example_runs_from_an_empty_folder(name, interpreter, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = "\n".join(re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S))
    assert "annotated_ssm" in example
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    subprocess.run([interpreter(name), "example.py"], cwd=tmp_path, check=True,
                   env=clean_environment())


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("how", ["command", "module"])
def test_command_line_lists_experiments(name, how, interpreter, tmp_path):
    python = interpreter(name)
    start = {"command": [python.parent / "annotated-ssm"],
             "module": [python, "-m", "annotated_ssm"]}[how]
    listing = subprocess.run([*start, "list"], cwd=tmp_path, check=True, text=True,
                             capture_output=True, env=clean_environment()).stdout
    assert "digits" in listing


# The newest versions have run every notebook already, from the source. From the
# wheel alone they run at the other end, or, where that isn't, at this one.
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.parametrize("name", [[*LOCKS][-1]])
def test_notebook_runs_from_the_installed_package(
        name, path, interpreter, ahead, request, tmp_path_factory):
    def run_alone(name, path):
        folder = tmp_path_factory.mktemp(f"{name}-{path.stem}")
        copy = shutil.copy(path, folder)
        return run_notebook(copy, folder, python=interpreter(name))

    def all_selected():
        chosen = [item.callspec.params for item in request.session.items
                  if getattr(item, "originalname", "") == request.function.__name__]
        for params in chosen:
            interpreter(params["name"])     # made here, not by the jobs at once
        return {(p["name"], p["path"]): functools.partial(run_alone, p["name"], p["path"])
                for p in chosen}

    executed = ahead.result((name, path), all_selected)
    assert any(cell.get("outputs") for cell in executed.cells)
