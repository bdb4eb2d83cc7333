"""The stamp that ties an executed notebook to the sources it was run from."""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXECUTED = ROOT / "docs" / "_build" / "src"


def _notebook_source(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\0".join("".join(cell["source"]) for cell in cells).encode()


def source_stamp(root=ROOT):
    """A hash of all that the outputs depend on.

    That is the package (its data too), the source of every notebook, the
    measured results and the lock files, which name every dependency's version.
    Outputs committed in the notebooks don't count.
    """
    digest = hashlib.sha256()
    package = [p for p in (root / "annotated_ssm").rglob("*")
               if p.is_file() and "__pycache__" not in p.parts]
    plain = [*package, *root.glob("results/**/*.json"),
             *root.glob("requirements-lock-*.txt")]
    for path in sorted(plain):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    for path in sorted((root / "nbs").glob("*.ipynb")):
        digest.update(path.name.encode() + _notebook_source(path))
    return digest.hexdigest()
