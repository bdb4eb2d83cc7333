"""Execute the notebooks whose executed copy isn't of the present sources.

`make site` need not repeat what `make test` has just run: a copy in
docs/_build/src carries a stamp of everything that its outputs depend on.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from freshness import EXECUTED, source_stamp  # noqa: E402


def stamp_of(copy):
    """The stamp that an executed copy carries, or None where there is none."""
    if not copy.exists():
        return None
    metadata = json.loads(copy.read_text(encoding="utf-8"))["metadata"]
    return metadata.get("source_stamp")


def main():
    notebooks = sorted((ROOT / "nbs").glob("*.ipynb"))
    present = source_stamp(ROOT)
    stale = [path for path in notebooks
             if stamp_of(EXECUTED / path.name) != present]
    for copy in EXECUTED.glob("*.ipynb"):
        if not (ROOT / "nbs" / copy.name).exists():
            copy.unlink()
    print(f"{len(notebooks) - len(stale)} of {len(notebooks)} executed notebooks "
          "are of the present sources and are used again", flush=True)
    if stale:
        subprocess.run([sys.executable, "-m", "pytest", "-q",
                        *(str(path.relative_to(ROOT)) for path in stale)],
                       check=True, cwd=ROOT)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(failure.returncode)
