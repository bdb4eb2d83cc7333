"""Measure what is missing of results/experiments, one process a run.

    python tools/results.py            every run of RUNS that has no result yet
    python tools/results.py --nightly  the cheapest of each table, one seed, anew
    python tools/results.py NAME …     these experiments only

A run that was killed goes on where it was: its directory is in build/runs. A
result of another configuration than today's counts as missing, and so does one
of a package with uncommitted changes, which is never kept. The models that come
with the package are copied into it at the end, when nothing is measured any more.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from annotated_ssm import experiments

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "experiments"
RUNS_AT = ROOT / "build" / "runs"

# Experiment -> how many seeds are measured. Cheap ones first.
_ABLATIONS = [name for name in experiments.EXPERIMENTS if name.startswith("ablation")]
RUNS = {"digits": 3, "digits-identity": 1} | dict.fromkeys(_ABLATIONS, 1) | {
    f"ett-h{horizon}-{layer}": 3 for horizon in (24, 48, 168)
    for layer in ("s5", "s4")} | {"ett-all-h24-s5": 1} | {
    f"{task}-{layer}": 1 for task in ("copying", "selective-copying", "recall")
    for layer in ("s5", "s4", "gru")} | {"recall-attention": 1} | {
    f"listops-small-{layer}": 1 for layer in ("s5", "s4", "gru", "attention")} | {
    f"pixels-digits-{layer}": 1 for layer in ("s5", "s4", "s4d", "dss")} | {
    "pendulum-s5": 3, "pendulum-s5-ignored": 1,
    "pendulum-s5-appended": 1, "pendulum-gru": 1, "spoken-digits-s5": 3,
    "spoken-digits-s4": 1, "mails-s5": 1, "mnist-small": 1, "mnist-permuted-small": 1}
#: Experiment -> the name under which the package has its model.
PRETRAINED = {f"pixels-digits-{layer}": f"digits-{layer}"
              for layer in ("s5", "s4", "s4d", "dss")}
SHELF = ROOT / "annotated_ssm" / "data" / "pretrained"
NIGHTLY = ("digits", "ablation-vector", "ett-h24-s5", "recall-s5", "pendulum-s5",
           "spoken-digits-s5")


def missing(name, seed):
    """Whether a run has no result that is worth keeping."""
    path = RESULTS / f"{name}-seed{seed}.json"
    if not path.exists():
        return True
    record = json.loads(path.read_text(encoding="utf-8"))
    now = experiments.settings(experiments.get(name))
    return bool(record["uncommitted"]
                or experiments.differences(record["configuration"], now))


def measure(name, seed, out):
    """Run in a process of its own, politely; its record, or None if it failed."""
    command = [sys.executable, "-m", "annotated_ssm", "train", name, "--quiet",
               "--seed", str(seed), "--out", str(out)]
    if shutil.which("nice"):
        command = ["nice", "-n", "10", *command]
    print(" ".join(command[-8:]), flush=True)
    if subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode:
        return None
    path = Path(out) / f"{name}-seed{seed}" / "result.json"
    return json.loads(path.read_text(encoding="utf-8"))


def keep(record):
    """Write a record to results/, unless nobody could repeat it."""
    if record["uncommitted"] is not False:
        print(f"{record['name']}: not kept, the package has uncommitted changes or "
              "is in no checkout")
        return False
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{record['name']}-seed{record['seed']}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
    return True


def ship(out):
    """Copy the models whose records are kept into the package."""
    for name, short in PRETRAINED.items():
        run, kept = Path(out) / f"{name}-seed0", RESULTS / f"{name}-seed0.json"
        record = run / "result.json"
        if (record.exists() and kept.exists() and json.loads(record.read_text("utf-8"))
                == json.loads(kept.read_text("utf-8"))):
            (SHELF / short).mkdir(parents=True, exist_ok=True)
            for file in ("experiment.json", "model.npz", "result.json"):
                shutil.copyfile(run / file, SHELF / short / file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--out", type=Path, default=RUNS_AT)
    args = parser.parse_args()
    for name in args.names:
        experiments.get(name)
    if args.nightly:
        failed = [name for name in NIGHTLY if measure(name, 0, args.out) is None]
    else:
        todo = [(name, seed) for name in args.names or RUNS
                for seed in range(RUNS.get(name, 1)) if missing(name, seed)]
        failed = []
        for name, seed in todo:
            record = measure(name, seed, args.out)
            if record is None or not keep(record):
                failed.append(f"{name} seed {seed}")
        ship(args.out)
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
