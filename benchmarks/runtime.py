"""Steps of S4D, S4 and S5 at the lengths of the Long Range Arena.

    python -m benchmarks.runtime [--quick]

Writes results/benchmarks/runtime.json, in the shape of Table 4 of Smith et al.,
2023: speed and memory of whole models over those of S4D's, in training and
forward, at the sizes that the S4 paper has for ListOps, Text and Path-X. Each
length runs in a process of its own. What was stopped goes on with the lengths
that are missing: those that are measured wait in build/benchmarks.
"""

import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from annotated_ssm.assembly import Form, build
from annotated_ssm.catalogue import get
from benchmarks.measure import ROOT, compare, provenance, record
from benchmarks.peers import training_step

PROGRESS = ROOT / "build" / "benchmarks" / "runtime.json"
LIMIT = 24e9        # bytes of temporary memory above which a program isn't run
#: name -> what a model sees of the task, and sequences in a batch.
TASKS = {
    "listops": (Form(16, 10, 2_048, "classification", True, False, False), 4),
    "text": (Form(259, 2, 4_096, "classification", True, False, False), 4),
    "pathx": (Form(1, 2, 16_384, "classification", False, False, False), 1)}
QUICK = {"listops": (Form(16, 10, 32, "classification", True, False, False), 2)}


def experiments(task, small):
    """Name -> experiment: S4's sizes with each layer, and S5's own sizes.

    All in both directions, as in the table."""
    base = replace(get(f"{task}-s4"), bidirectional=True, dropout=0.0)
    own = replace(get(f"{task}-s5"), dropout=0.0)
    if small:
        base, own = (replace(e, H=8, depth=1, N=4, P=8, blocks=1)
                     for e in (base, own))
    s5 = replace(base, layer="S5", blocks=1)
    return {"S4D": replace(base, layer="S4D"), "S4": base,
            "S5, P = H": replace(s5, P=base.H), "S5, P = N": replace(s5, P=base.N),
            "S5, its paper's size": own}


def programs(experiment, form, batch):
    """A training step and a forward pass, each with its arguments; parameters."""
    model = build(experiment, form)
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    model.eval()
    answer = nnx.split(model)[0]

    def scores(params, u, graph=graph):
        own = jax.tree.map(lambda x: x, rest)       # running averages may change
        return nnx.merge(graph, params, own)(u)

    rng = np.random.default_rng(0)
    shape = (batch, form.length)
    u = jnp.asarray(rng.integers(form.features, size=shape), jnp.int32) \
        if form.tokens else jnp.asarray(rng.normal(size=(*shape, 1)), jnp.float32)
    labels = jnp.asarray(rng.integers(form.classes, size=batch))
    optimizer = optax.adam(1e-3)
    return {
        "training": (training_step(scores, optimizer),
                     (params, optimizer.init(params), u, labels)),
        "forward": (partial(scores, graph=answer), (params, u)),
    }, sum(p.size for p in jax.tree.leaves(params))


def length(task, quick=False):
    """All models at the length of a task, in turn."""
    start, (form, batch) = time.perf_counter(), (QUICK if quick else TASKS)[task]
    chosen = experiments(task, quick)
    made = {name: programs(e, form, batch) for name, e in chosen.items()}
    result = {"task": task, "L": form.length, "batch": batch, "models": {
        name: {"H": e.H, "depth": e.depth, "parameters": made[name][1]}
        | ({"P": e.P, "blocks": e.blocks} if e.layer == "S5" else {"N": e.N})
        for name, e in chosen.items()}}
    for what in "training", "forward":
        pairs = {name: programs[what] for name, (programs, _) in made.items()}
        rows = compare({name: f for name, (f, _) in pairs.items()},
                       {name: a for name, (_, a) in pairs.items()}, "S4D",
                       rounds=1 if quick else 9, budget=180, limit=LIMIT)
        for name, row in rows.items():
            result["models"][name][what] = row
    return result | {"wall_s": round(time.perf_counter() - start, 1)}


def main(quick=False):
    result = provenance(quick=quick, dtype="float32")
    same = ("commit", "uncommitted_changes", "configuration", "device", "jax")
    done = {}
    if not quick and PROGRESS.exists():
        there = json.loads(PROGRESS.read_text())
        if all(there["of"][key] == result[key] for key in same):
            done = there["lengths"]
    for task in QUICK if quick else TASKS:
        if task in done:
            continue
        alone = [sys.executable, "-m", "benchmarks.runtime", "--length", task,
                 *(["--quick"] if quick else [])]
        done[task] = json.loads(subprocess.run(
            alone, check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
        if not quick:
            PROGRESS.parent.mkdir(parents=True, exist_ok=True)
            PROGRESS.write_text(json.dumps({"of": result, "lengths": done}))
    result["lengths"] = [*done.values()]
    if quick:
        print(result)
    else:
        print(record("runtime", result))
        PROGRESS.unlink(missing_ok=True)


if __name__ == "__main__":
    if "--length" in sys.argv:
        task = sys.argv[sys.argv.index("--length") + 1]
        print(json.dumps(length(task, "--quick" in sys.argv)))
    else:
        main("--quick" in sys.argv)
