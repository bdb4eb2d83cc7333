"""Layers against those they replaced, and against attention.

    python -m benchmarks.baselines [--quick]

Writes results/benchmarks/baselines.json: a training step of S4 against one of
the LSSL (the table of Gu et al., 2022, section 4.1), one layer of S4 against
softmax and linear attention, and the time of one more token at a given context.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from annotated_ssm import s4
from annotated_ssm.attention import Attention, LinearAttention
from annotated_ssm.baselines import LSSL_METHODS, lssl_apply, lssl_initialize
from annotated_ssm.layers import S5
from annotated_ssm.recurrent import GRU
from benchmarks.measure import compare, provenance, record

LIMIT = 12e9    # bytes of temporary memory above which a program isn't run


def noise(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape),
                       jnp.float32)


def step_of(run, name):
    """A training step: the gradient of all parameters of one of the layers."""
    return lambda p, u: jax.grad(lambda q: jnp.sum(run(q, u) ** 2))(p[name])


def run_s4(p, u):
    return s4.apply_ssm(*s4.system(p), u)[0]


def run_lssl(p, u, method):
    p = dict(p)
    dt = jnp.exp(p.pop("log_dt"))
    return lssl_apply(p["A"], p["B"], p["C"], p["D"], dt, u,
                      kernel_method=method)[0]


def training(size, L, batch, rounds):
    """S4 against the LSSL: H = N = size, and S4 with N/4 too, as the paper.

    The paper doesn't say how long its sequences are; here they are of L.
    """
    key = jax.random.key(0)
    parameters = {"S4, N/4": s4.initialize(key, size, size // 4),
                  "S4, N": s4.initialize(key, size, size),
                  "LSSL": lssl_initialize(key, size, size)}
    functions = {n: step_of(run_s4, n) for n in ("S4, N/4", "S4, N")}
    functions |= {f"LSSL, {m}": step_of(partial(run_lssl, method=m), "LSSL")
                  for m in LSSL_METHODS}
    rows = compare(functions, (parameters, noise(batch, L, size)), "LSSL, naive",
                   rounds, budget=120, limit=LIMIT)
    return {"H": size, "N": size, "L": L, "batch": batch, "layers": rows}


def mixing(H, L, gradients, rounds):
    """One layer of S4 against one of attention, whole sequences of one stream."""
    runs = {"S4": (run_s4, s4.initialize(jax.random.key(0), H, 64))}
    for name, layer in (
            ("attention", Attention(H, capacity=L, rngs=nnx.Rngs(0))),
            ("linear attention", LinearAttention(H, rngs=nnx.Rngs(0)))):
        graph, params = nnx.split(layer)
        runs[name] = (lambda p, u, g=graph: nnx.merge(g, p)(u)[0]), params
    parameters = {name: p for name, (_, p) in runs.items()}
    functions = {name: step_of(run, name) if gradients
                 else (lambda p, u, run=run, name=name: run(p[name], u))
                 for name, (run, _) in runs.items()}
    rows = compare(functions, (parameters, noise(1, L, H)), "attention", rounds,
                   limit=LIMIT)
    return {"H": H, "L": L, "batch": 1, "gradients": gradients, "layers": rows}


def token(context, H, rounds, steps=64):
    """Milliseconds for one more token after `context` − `steps` others."""
    u, runs = noise(steps, 1, H), {}
    for name, layer in (
            ("attention", Attention(H, capacity=context, rngs=nnx.Rngs(0))),
            ("linear attention", LinearAttention(H, rngs=nnx.Rngs(0))),
            ("S5", S5(H, H, rngs=nnx.Rngs(0))), ("GRU", GRU(H, rngs=nnx.Rngs(0)))):
        graph, params = nnx.split(layer)
        runs[name] = (lambda p, *a, g=graph: nnx.merge(g, p).step(*a), params,
                      layer.init_state(1))
    keys, values, count, time = runs["attention"][2]
    runs["attention"] = (*runs["attention"][:2], (
        keys, values, count + context - steps, time + context - steps))
    runs["S4"] = (lambda p, u, x: s4.step(*s4.system(p), u, x),
                  s4.initialize(jax.random.key(0), H, 64),
                  jnp.zeros((1, H, 32), jnp.complex64))

    def scan(name):
        def run(given, u):
            p, x = given[name]
            return jax.lax.scan(lambda x, u: runs[name][0](p, u, x)[::-1], x, u)[1]
        return run

    given = {name: (p, x) for name, (_, p, x) in runs.items()}
    functions = {name: scan(name) for name in runs}
    rows = compare(functions, (given, u), "attention", rounds)
    for row in rows.values():
        row["ms"] = round(row["ms"] / steps, 5)
    return {"H": H, "context": context, "steps": steps, "layers": rows}


def main(quick=False):
    rounds = 1 if quick else 9
    result = provenance(quick=quick, dtype="float32", measure="legs")
    result["training"] = [
        training(*cell, rounds=1 if quick or cell[0] > 256 else 5)
        for cell in (((16, 64, 1),) if quick else
                     ((128, 1024, 1), (256, 1024, 1), (512, 1024, 1)))]
    result["mixing"] = [mixing(H, L, gradients, rounds)
                        for L in ((64,) if quick else (1024, 4096))
                        for H in ((16,) if quick else (128, 256))
                        for gradients in (False, True)]
    result["token"] = [token(T, 16 if quick else 256, rounds)
                       for T in ((128,) if quick else
                                 (1024, 2048, 4096, 8192, 16384))]
    print(result if quick else record("baselines", result))


if __name__ == "__main__":
    main("--quick" in sys.argv)
