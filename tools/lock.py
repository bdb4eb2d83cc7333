"""Resolve settings.ini into the four lock files (`make lock`).

One lock per supported Python, with hashes, and one with the oldest versions
that settings.ini admits. uv comes from the present lock, so that a new lock is
a matter of the package index alone.
"""

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What runs a notebook in an environment that holds the package alone.
KERNEL = ["ipykernel>=7.1"]


def compile_lock(requirements, destination, python, *flags):
    """Write the resolved requirements, hashes included, to destination."""
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "-", "--no-config",
        "--system-certs", "--generate-hashes", "--upgrade", "--quiet",
        "--python-version", python, "--output-file", destination.name,
        "--custom-compile-command", "make lock", *flags]
    # A lock is for everyone: no private index, no override of this machine.
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith("UV_") or k == "UV_CACHE_DIR"}
    subprocess.run(command, input="\n".join(requirements), text=True,
                   check=True, cwd=ROOT, env=clean)
    print(f"wrote {destination.name}")


def main():
    parser = ConfigParser(delimiters=["="])
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    settings = parser["DEFAULT"]
    runtime = settings["requirements"].split()
    development = settings["dev_requirements"].split()
    first, last = (int(settings[key].split(".")[1])
                   for key in ("min_python", "max_python"))
    for minor in range(first, last + 1):
        version = f"3.{minor}"
        compile_lock(runtime + development,
                     ROOT / f"requirements-lock-{version}.txt", version)
    compile_lock(runtime + KERNEL, ROOT / "requirements-lowest.txt",
                 settings["min_python"], "--resolution", "lowest-direct")


if __name__ == "__main__":
    main()
