"""Execute the notebooks whose executed copy isn't of the present sources.

`make site` need not repeat what `make test` has just run: a copy in
docs/_build/src carries a stamp of everything that its outputs depend on.
"""

import subprocess
import sys

from build_site import EXECUTED, ROOT, source_stamp, stale_notebooks


def main():
    notebooks = sorted((ROOT / "nbs").glob("*.ipynb"))
    stale = stale_notebooks(notebooks, EXECUTED, source_stamp(ROOT))
    print(f"{len(notebooks) - len(stale)} of {len(notebooks)} executed notebooks "
          "are of the present sources and are used again", flush=True)
    if not stale:
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-q",
                           *(f"nbs/{name}" for name in stale)], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
