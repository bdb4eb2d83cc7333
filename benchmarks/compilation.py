"""Seconds of compilation of S5's layer and of the reference's, in turn.

    python -m benchmarks.compilation [--quick]

Writes results/benchmarks/compilation.json. From the call to the program, tracing
included; every shape in a process of its own, and nothing is compiled twice.
"""

import time

import jax
import numpy as np

from benchmarks.measure import provenance, record
from benchmarks.scans import alone, gradient, ours, problem, reference, start_with


def seconds(function, arguments):
    """From Python to a program, with nothing left from before."""
    jax.clear_caches()
    start = time.perf_counter()
    jax.jit(function).lower(*arguments).compile()
    return time.perf_counter() - start


def shape(batch, L, H, P, gradients, rounds):
    """Both at one shape; the first round isn't counted."""
    arguments = problem(batch, L, H, P)
    functions = {"ours": ours({}, batch, L), "reference": reference}
    if gradients:
        functions = {name: gradient(f) for name, f in functions.items()}
    times = np.array([[seconds(f, arguments) for f in functions.values()]
                      for _ in range(rounds + 1)])[1:]
    return {"batch": batch, "L": L, "H": H, "P": P, "gradients": gradients,
            "seconds": dict(zip(functions, np.median(times, 0).round(3).tolist())),
            "share": round(float(np.median(times[:, 0] / times[:, 1])), 3),
            "rounds": rounds}


def main(quick=False):
    result = provenance(quick=quick, dtype="float32", seed=0)
    result["shapes"] = alone("benchmarks.compilation", quick, 1 if quick else 3)
    print(result if quick else record("compilation", result))


if __name__ == "__main__":
    start_with(main, shape)
