"""S5's layer alone: time and memory against peers, forward and with gradient.

    python -m benchmarks.scans [--quick]

Writes results/benchmarks/scans.json. Every shape runs in a process of its own:
where memory happens to lie is luck. What the package does by default, and in short
chunks, runs in three processes; the one with the median ratio counts, and the file
has all three ratios.
"""

import json
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version

import equinox as eqx
import jax
import jax.numpy as jnp
from discretax.sequence_mixers.s5 import S5SequenceMixer

from annotated_ssm import s5
from benchmarks import peers
from benchmarks.measure import compare, provenance, record

#: batch, length, features, stored states
SHAPES = [(1, 1024, 128, 128), (8, 1024, 128, 64), (4, 4096, 128, 64),
          (1, 16384, 128, 64), (50, 784, 96, 64)]
METHODS = {
    "chunks": {}, "short chunks": "short", "loop": "sequential",
    "tree, one coefficient": "time_invariant", "tree": "associative",
}


def problem(batch, L, H, P):
    """Λ, B, C, D, dt and u: what all candidates are given."""
    p = s5.initialize(jax.random.key(0), H, 2 * P)
    u = jax.random.normal(jax.random.key(1), (batch, L, H))
    return (p["Lambda_re"] + 1j * p["Lambda_im"], peers.from_pairs(p["B"]),
            peers.from_pairs(p["C"]), p["D"], jnp.exp(p["log_dt"]), u)


def ours(options, batch, L):
    """The package's layer by one method, as a function of the problem."""
    if options == "short":
        options = {"chunk": max(8, s5._chunk_size(L, batch) // 8)}
    elif options:
        options = {"scan_method": options}
    return lambda *problem: s5.apply_ssm(*problem, **options)[0]


#: The algorithm of the paper's authors, as a function of the problem.
reference = jax.vmap(peers.s5_scan_layer, (*[None] * 5, 0))


def discretax(H, P):
    """The published S5 of discretax, given the same numbers."""
    mixer = S5SequenceMixer(H, jax.random.key(0), state_dim=2 * P)

    def layer(Λ, B, C, D, dt, u):
        pairs = lambda z: jnp.stack([z.real, z.imag], -1)
        own = eqx.tree_at(
            lambda m: (m.Lambda_re, m.Lambda_im, m.B, m.C, m.D, m.log_step), mixer,
            (Λ.real, Λ.imag, pairs(B), pairs(C), D, jnp.log(dt)[:, None]))
        return jax.vmap(lambda u: own(u, None))(u)

    return layer


def gradient(function):
    """The outputs, and a cotangent of theirs pulled back to all six arguments."""
    def both(*problem):
        y, pull_back = jax.vjp(function, *problem)
        return y, pull_back(problem[-1])

    return both


def shape(batch, L, H, P, gradients, rounds=11, candidates=len(METHODS)):
    """The first so many candidates and the peers at one shape, in turn."""
    arguments = problem(batch, L, H, P)
    functions = {name: ours(options, batch, L)
                 for name, options in [*METHODS.items()][:candidates]}
    functions["reference"] = reference
    functions["discretax"] = discretax(H, P)
    truth = functions["reference"](*arguments)
    for name, function in functions.items():
        error = jnp.abs(function(*arguments) - truth).max() / jnp.abs(truth).max()
        assert error < 1e-4, (name, error)
    if gradients:
        functions = {name: gradient(f) for name, f in functions.items()}
    return {"batch": batch, "L": L, "H": H, "P": P, "gradients": gradients,
            "chunk": s5._chunk_size(L, batch),
            "methods": compare(functions, arguments, "reference", rounds,
                               budget=90, others=["discretax"])}


def alone(module, quick, *numbers):
    """What a module finds at each shape, in a process of its own."""
    return [json.loads(subprocess.run(
        [sys.executable, "-m", module, "--shape",
         *map(str, (*sizes, int(gradients), *numbers))],
        check=True, text=True, stdout=subprocess.PIPE).stdout)
        for sizes in ([(2, 48, 4, 2)] if quick else SHAPES)
        for gradients in (False, True)]


def start_with(main, shape):
    """All shapes, or the one that `alone` has asked for."""
    if "--shape" in sys.argv:
        batch, L, H, P, gradients, *numbers = map(int, sys.argv[2:])
        print(json.dumps(shape(batch, L, H, P, bool(gradients), *numbers)))
    else:
        main("--quick" in sys.argv)


def middle(rows):
    """The row with the median ratio, with the ratios of all."""
    return sorted(rows, key=lambda row: row["speedup"])[len(rows) // 2] | {
        "runs": [row["speedup"] for row in rows]}


def main(quick=False):
    start = time.perf_counter()
    result = provenance(quick=quick, dt=[1e-3, 1e-1], dtype="float32", seed=0,
                        peers={"discretax": version("discretax")})
    rounds, own = 3 if quick else 11, 2      # chunks and short chunks come first
    first, *again = (alone("benchmarks.scans", quick, rounds, *few)
                     for few in ([], [own], [own]))
    for found, *others in zip(first, *again, strict=True):
        for name in [*METHODS][:own]:
            found["methods"][name] = middle(
                [run["methods"][name] for run in (found, *others)])
    result["shapes"] = first
    result["wall_s"] = round(time.perf_counter() - start, 1)
    if quick:
        print(result)
    else:
        print(record("scans", result))


if __name__ == "__main__":
    start_with(main, shape)
