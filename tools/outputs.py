"""Copy the executed notebooks' outputs into nbs/, for readers on GitHub and Colab.

Cells are matched by id, and a cell whose source has changed since is an error.
Execution counts, metadata and what a machine writes to stderr (warnings,
progress bars) stay out.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from freshness import EXECUTED  # noqa: E402

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def clean(output):
    """The output without what differs from one execution to the next."""
    kept = {key: value for key, value in output.items() if key != "transient"}
    if "execution_count" in kept:
        kept["execution_count"] = None
    if "metadata" in kept:
        kept["metadata"] = {}
    if "data" in kept:
        kept["data"] = dict(kept["data"])
        plain = kept["data"].get("text/plain")
        if plain is not None:
            lines = plain if isinstance(plain, list) else [plain]
            kept["data"]["text/plain"] = [ADDRESS.sub("", line) for line in lines]
    return kept


def merge(source, executed):
    """The source notebook with the executed one's outputs."""
    by_id = {cell["id"]: cell for cell in executed["cells"]}
    for cell in source["cells"]:
        if cell["cell_type"] != "code":
            continue
        twin = by_id[cell["id"]]
        if "".join(twin["source"]) != "".join(cell["source"]):
            raise ValueError(f"cell {cell['id']} has changed since it was executed")
        cell["outputs"] = [clean(output) for output in twin["outputs"]
                           if output.get("name") != "stderr"]
        cell["execution_count"] = None
    return source


def main():
    for path in sorted((ROOT / "nbs").glob("*.ipynb")):
        old = path.read_text(encoding="utf-8")
        executed = json.loads((EXECUTED / path.name).read_text(encoding="utf-8"))
        new = json.dumps(merge(json.loads(old), executed), indent=1,
                         ensure_ascii=False, sort_keys=True) + "\n"
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}, {len(new.encode()) // 1000} kB")


if __name__ == "__main__":
    main()
