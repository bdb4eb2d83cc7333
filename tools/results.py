"""Measure what is missing of results/experiments, one process a run.

    python tools/results.py            every run of RUNS that has no result yet
    python tools/results.py --nightly  the cheapest of each table, one seed, anew,
                                       beside what is kept
    python tools/results.py NAME …     these experiments only

A run that was killed goes on where it was: its directory is in build/runs. A
result of another configuration than today's counts as missing, and so does one
of a package with uncommitted changes, which is never kept.

After a run, its record gets the scores of the task's rivals on the test, and of
its model on the other tests of EVALUATIONS; the responses of a few models go to
results/kernels. A kept record that lacks them gets them without a new run, as
long as the run's directory is there. The models that come with the package are
copied into it at the end, when nothing is measured any more.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from flax import nnx

from annotated_ssm import assembly, datasets, experiments, tasks
from annotated_ssm.configurations import restored

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "experiments"
RESPONSES = ROOT / "results" / "kernels"
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
    "pendulum-s5": 3, "pendulum-s5-ignored": 3,
    "pendulum-s5-appended": 3, "pendulum-gru": 3, "spoken-digits-s5": 3,
    "spoken-digits-s4": 3, "spoken-digits-s4-zoh": 3, "spoken-digits-s5-speaker": 1,
    "spoken-digits-s4-speaker": 1, "mails-s5": 1, "mnist-small": 1,
    "mnist-permuted-small": 1}
#: Experiment -> the name under which the package has its model.
PRETRAINED = {f"pixels-digits-{layer}": f"digits-{layer}"
              for layer in ("s5", "s4", "s4d", "dss")}
SHELF = ROOT / "annotated_ssm" / "data" / "pretrained"
NIGHTLY = ("digits", "ablation-vector", "ett-h24-s5", "recall-s5", "pendulum-s5",
           "spoken-digits-s5")

# Experiment -> name -> arguments of `experiments.evaluate` on the test.
_WINDOWS = {"pools": [4, 4, 2, 1, 1]}   # of the same time as in training
_HALF_RATE = {
    "4 kHz, every second sample": {"overrides": {"task.decimate": "plain"} | _WINDOWS},
    "4 kHz, filtered": {"overrides": {"task.decimate": "filtered"} | _WINDOWS},
    "4 kHz, filtered, pools as in training": {
        "overrides": {"task.decimate": "filtered"}},
    "4 kHz, Δ as in training": {"rate": 1.0, "overrides": {"task.decimate": "plain"}}}
EVALUATIONS = {
    "spoken-digits-s5": _HALF_RATE, "spoken-digits-s4": _HALF_RATE,
    "spoken-digits-s4-zoh": _HALF_RATE,
    "pendulum-s5": {"intervals not told": {"overrides": {"task.times": "ignored"}}}}
#: Of these, it is kept how unevenly the test's error lies on its examples.
UNEVEN = ("pendulum-s5", "pendulum-s5-ignored", "pendulum-s5-appended", "pendulum-gru")
# Of these, seed 0, the layers' responses are kept, as images of 8×8 pixels.
KERNELS = ("digits", "ablation-s4-legs-trained")
SHAPE, PIXEL, STRONGEST = (8, 8), (3, 4), 8


def kept(name, seed):
    """The record in results/ of a run as it is configured today, or None."""
    path = RESULTS / f"{name}-seed{seed}.json"
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    now = experiments.settings(experiments.get(name))
    differ = experiments.differences(record["configuration"], now)
    return None if record["uncommitted"] or differ else record


def lacking(record):
    """The evaluations that a record should have and hasn't."""
    there = record.get("evaluations", {})
    asked = EVALUATIONS.get(record["name"], {})
    return {name: arguments for name, arguments in asked.items()
            if there.get(name, {}).get("asked") != arguments}


def no_spread(record):
    """Whether the spread of the test's error should be kept and isn't."""
    return record["name"] in UNEVEN and "spread" not in record


def no_responses(record):
    """Whether the model's responses should be kept and aren't."""
    return (record["seed"] == 0 and record["name"] in KERNELS
            and not (RESPONSES / f"{record['name']}.json").exists())


def unfinished(record):
    """Whether something is to be added that only the run's model can tell."""
    return bool(lacking(record) or no_responses(record) or no_spread(record))


def has_model(record, out):
    """Whether the run's directory is there, and is of this very run."""
    path = Path(out) / f"{record['name']}-seed{record['seed']}"
    if not all((path / n).exists() for n in ("model.npz", "result.json")):
        return False
    there = json.loads((path / "result.json").read_text(encoding="utf-8"))
    return all(there[k] == record[k] for k in ("configuration", "commit", "test"))


def missing(name, seed, out):
    """Whether a run has to be made: no record, or no way to complete it."""
    record = kept(name, seed)
    return record is None or (unfinished(record) and not has_model(record, out))


def complete(name, seed):
    """Whether there is a record to which nothing is to be added."""
    record = kept(name, seed)
    return record is not None and "rivals" in record and not unfinished(record)


def measure(name, seed, out, data=None):
    """Run in a process of its own, politely; its record, or None if it failed."""
    command = [sys.executable, "-m", "annotated_ssm", "train", name, "--quiet",
               "--seed", str(seed), "--out", str(out),
               *(["--data", str(data)] if data else [])]
    if shutil.which("nice"):
        command = ["nice", "-n", "10", *command]
    print(" ".join(command[command.index("train"):]), flush=True)
    if subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode:
        return None
    path = Path(out) / f"{name}-seed{seed}" / "result.json"
    return json.loads(path.read_text(encoding="utf-8"))


_scores = {}


def rivals(record, data=None):
    """What the task's rivals reach on its test, and how large the test is."""
    experiment = restored(record["configuration"])
    key = json.dumps([experiment.task, experiment.options], sort_keys=True)
    if key not in _scores:
        task = tasks.get(experiment.task, data, **experiment.options)
        found = tasks.baseline_scores(task, "test")
        _scores[key] = {
            "rivals": {name: {metric: float(value) for metric, value in score.items()}
                       for name, score in found.items()},
            "test_examples": len(task.test)}
    return _scores[key]


def spread(record, directory, data=None):
    """The standard error of the test's squared error, and its worst example."""
    experiment = restored(record["configuration"])
    test = tasks.get(experiment.task, data, **experiment.options).test
    model, errors = experiments.load(directory), []
    answers = nnx.jit(lambda model, u, steps: model(u, steps))
    for i in range(0, len(test), experiment.training.batch_size):
        these = slice(i, i + experiment.training.batch_size)
        steps = None if test.steps is None else test.steps[these]
        off = np.asarray(answers(model, test.u[these], steps), np.float64)
        errors.extend(np.mean((off - test.y[these]) ** 2, axis=(1, 2)))
    errors = np.array(errors)
    assert np.isclose(errors.mean(), record["test"]["mse"], rtol=1e-4)
    return {"standard_error": errors.std(ddof=1) / np.sqrt(len(errors)),
            "worst_share": errors.max() / errors.sum(),
            "median": float(np.median(errors))}


def added(record, out, data=None):
    """The record with what it lacks; None if the package isn't as committed."""
    here = experiments.provenance()
    if here["uncommitted"] is not False:
        return None
    directory = Path(out) / f"{record['name']}-seed{record['seed']}"
    new = {}
    if "rivals" not in record:
        new |= rivals(record, data)
    if asked := lacking(record):
        found = {name: {"asked": arguments} | {
            metric: float(value) for metric, value in
            experiments.evaluate(directory, "test", data_dir=data,
                                 **arguments).items()}
            for name, arguments in asked.items()}
        new["evaluations"] = record.get("evaluations", {}) | found
    if no_spread(record):
        new["spread"] = spread(record, directory, data)
    if new:
        new["judged"] = {key: here[key] for key in
                         ("commit", "uncommitted", "device", "date")}
    return record | new


def own_responses(layer, length, at):
    """What each feature of a layer answers to an impulse in itself, (H, length).

    Without the direct term D u, which is one pixel."""
    H = layer.H
    each = jnp.arange(H)
    lit = jnp.zeros((H, length, H)).at[each, at, each].set(1.0)
    y = layer(lit)[0][each, :, each]
    return np.array(y.at[:, at].add(-layer.D[...]), np.float64)


def quantized(images):
    """Each image in 127ths of its largest entry, as whole numbers."""
    largest = np.abs(images).max(axis=-1, keepdims=True)
    return np.rint(127 * images / np.where(largest > 0, largest, 1)).astype(int)


def responses(record, directory):
    """The strongest responses of each layer, before and after training."""
    told = json.loads((Path(directory) / "experiment.json").read_text(encoding="utf-8"))
    trained = experiments.load(directory)
    start = assembly.build(restored(told["configuration"]),
                           assembly.Form(**told["form"]), told["seed"])
    start.eval()
    length, at = int(np.prod(SHAPE)), PIXEL[0] * SHAPE[1] + PIXEL[1]
    layers = []
    for blocks in zip(start.backbone.blocks, trained.backbone.blocks):
        before, after = (own_responses(b.layer, length, at) for b in blocks)
        strength = np.sum(after**2, axis=-1)
        which = np.sort(np.argsort(-strength, kind="stable")[:STRONGEST])
        layers.append({"features": which.tolist()} | {
            when: quantized(images[which]).tolist()
            for when, images in (("before", before), ("after", after))})
    return {"of": f"{record['name']}-seed{record['seed']}",
            "layer": record["configuration"]["layer"], "shape": SHAPE,
            "pixel": PIXEL, "unit": "the largest entry of an image is ±127",
            "command": record["command"], "commit": record["commit"],
            "date": record["date"], "device": record["device"],
            "test": record["test"], "layers": layers}


def _write(path, text):
    with datasets.written_atomically(path) as file:
        file.write((text + "\n").encode())


def keep(record):
    """Write a record to results/, unless nobody could repeat it."""
    if record["uncommitted"] is not False:
        print(f"{record['name']}: not kept, the package has uncommitted changes or "
              "is in no checkout")
        return False
    _write(RESULTS / f"{record['name']}-seed{record['seed']}.json",
           json.dumps(record, indent=1))
    return True


def fill(name, seed, out, data=None):
    """Make what is missing of one result; whether all of it is there now."""
    record = kept(name, seed)
    if missing(name, seed, out):
        record = measure(name, seed, out, data)
        if record is None or not keep(record):
            return False
    directory = Path(out) / f"{name}-seed{seed}"
    if no_responses(record):
        _write(RESPONSES / f"{name}.json", json.dumps(responses(record, directory)))
    whole = added(record, out, data)
    if whole is None:
        print(f"{name}: rivals and evaluations wait for a committed package")
        return False
    return keep(whole)


def ship(out):
    """Copy the models whose records are kept into the package."""
    for name, short in PRETRAINED.items():
        record = kept(name, 0)
        if record is not None and has_model(record, out):
            (SHELF / short).mkdir(parents=True, exist_ok=True)
            for file in ("experiment.json", "model.npz", "result.json"):
                shutil.copyfile(Path(out) / f"{name}-seed0" / file, SHELF / short / file)


def worse(then, now):
    """Whether a result of today is worse than the kept one, by more than chance.

    By three standard errors of the difference of two shares of the test's
    examples; errors of other kinds, by a quarter."""
    (old, new), n = (r["test"][then["metric"]] for r in (then, now)), then.get(
        "test_examples", 1)
    if then["metric"] == "accuracy":
        return old - new > 3 * np.sqrt(2 * old * (1 - old) / n) + 1 / n
    return new > 1.25 * old


def nightly(name, out, data=None):
    """One seed of an experiment anew; what is wrong with it, or None."""
    then, now = kept(name, 0), measure(name, 0, out, data)
    if now is None:
        return f"{name}: failed"
    metric, value = now["metric"], now["test"][now["metric"]]
    if then is None:
        return f"{name}: {metric} {value:.4g}, and no record of today's configuration"
    told = f"{name}: {metric} {value:.4g}, was {then['test'][metric]:.4g}"
    print(told, flush=True)
    return told if worse(then, now) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--out", type=Path, default=RUNS_AT, help="of the runs")
    parser.add_argument("--data", type=Path, help="where data is kept")
    args = parser.parse_args()
    for name in args.names:
        experiments.get(name)
    if args.nightly:
        failed = [wrong for name in args.names or NIGHTLY
                  if (wrong := nightly(name, args.out, args.data)) is not None]
    else:
        todo = [(name, seed) for name in args.names or RUNS
                for seed in range(RUNS.get(name, 1)) if not complete(name, seed)]
        failed = [f"{name} seed {seed}" for name, seed in todo
                  if not fill(name, seed, args.out, args.data)]
        ship(args.out)
    if failed:
        sys.exit(f"{'worse, or ' * args.nightly}not measured: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
