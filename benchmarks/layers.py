"""Layers in training and in generation: time and memory against peers.

    python -m benchmarks.layers [--quick]

Writes results/benchmarks/layers.json: the whole training step of a model of
four layers, the kernel of S4D in three forms, one step of S4 against dense
matrices, and the time an output takes after contexts of growing length.
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
import numpy as np
import optax
from discretax.sequence_mixers.s4d import S4DSequenceMixer
from discretax.sequence_mixers.s5 import S5SequenceMixer
from flax import nnx

from annotated_ssm import s4
from annotated_ssm.interface import generate
from annotated_ssm.layers import S4, S4D, S5
from annotated_ssm.models import SequenceClassifier
from annotated_ssm.s4d import diagonal_kernel, initial_eigenvalues
from benchmarks import peers
from benchmarks.measure import compare, provenance, record

CLASSES = 10


def ours(layer, H, depth):
    """Scores of the package's model, and its parameters."""
    model = SequenceClassifier(1, CLASSES, H, depth, layer, norm="layer",
                               glu="full", dropout=0.0, rngs=nnx.Rngs(0))
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    return lambda params, u: nnx.merge(graph, params, rest)(u), params


def theirs(layer, parameters, H, depth):
    """Scores of a peer's layer in the same model, and its parameters."""
    params = peers.model_parameters(parameters, H, depth, CLASSES)
    return jax.vmap(partial(peers.model, layer), (None, 0)), params


def discretax(mixer):
    """A published layer of discretax (benchmarks/peers.txt), key to layer."""
    static = eqx.partition(mixer(jax.random.key(0)), eqx.is_array)[1]
    draw = lambda rng: eqx.partition(
        mixer(jax.random.key(rng.integers(2**31))), eqx.is_array)[0]
    return lambda p, u: eqx.combine(p, static)(u, jax.random.key(0)), draw


def training(H=128, depth=4, L=1024, batch=8, N=64, rounds=9):
    """A whole training step with Adam, ours and peers' side by side."""
    models = {
        "S4": ours(partial(S4, N=N), H, depth),
        "S4D": ours(partial(S4D, N=N), H, depth),
        "S5": ours(partial(S5, P=2 * N), H, depth),
        "S4, broadcasting": theirs(
            peers.s4_layer, lambda rng: peers.s4_parameters(rng, H, N), H, depth),
        "S4D, direct": theirs(
            peers.s4d_layer, lambda rng: peers.s4d_parameters(rng, H, N), H, depth),
        "S5, reference": theirs(
            peers.s5_layer, lambda rng: peers.s5_parameters(rng, H, N), H, depth),
        "S4D, discretax": theirs(*discretax(
            lambda key: S4DSequenceMixer(H, key, state_dim=N)), H, depth),
        "S5, discretax": theirs(*discretax(
            lambda key: S5SequenceMixer(H, key, state_dim=2 * N)), H, depth),
    }
    rng = np.random.default_rng(0)
    u = jnp.asarray(rng.normal(size=(batch, L, 1)), jnp.float32)
    labels = jnp.asarray(rng.integers(CLASSES, size=batch))
    optimizer = optax.adam(1e-3)
    functions = {}
    for name, (scores, params) in models.items():
        step = peers.training_step(scores, optimizer)
        functions[name] = (step, (params, optimizer.init(params), u, labels))
    table = compare({name: f for name, (f, _) in functions.items()},
                    {name: a for name, (_, a) in functions.items()},
                    "S4, broadcasting", rounds, budget=120,
                    others=[name for name in models if name[:4] in ("S4D,", "S5, ")])
    return {"H": H, "N": N, "depth": depth, "L": L, "batch": batch,
            "models": table}


def kernels(H, L, gradients, N=64, rounds=9):
    """S4D's kernel as sum of outer products, by exponentials, by a matrix."""
    rng = np.random.default_rng(0)
    Λ = np.tile(initial_eigenvalues("legs", N), (H, 1)).astype(np.complex64)
    C = (rng.normal(size=Λ.shape) + 1j * rng.normal(size=Λ.shape)).astype(Λ.dtype)
    dt = np.geomspace(1e-3, 1e-1, H).astype(np.float32)
    each = lambda kernel: jax.vmap(lambda Λ, B, C, dt: kernel(Λ, B, C, dt, L))
    functions = {
        "outer products": lambda Λ, B, C, dt: diagonal_kernel(Λ, B, C, dt, L),
        "direct": each(peers.direct_kernel),
        "matrix": each(peers.vandermonde_kernel)}
    if gradients:
        functions = {name: jax.grad(lambda *a, f=f: jnp.sum(f(*a)**2), range(4))
                     for name, f in functions.items()}
    return {"H": H, "N": N, "L": L, "gradients": gradients,
            "methods": compare(functions, (Λ, np.ones_like(Λ), C, dt), "matrix",
                               rounds)}


def steps(H=128, N=64, count=128, rounds=9):
    """One output after the other: the O(N) step against dense matrices."""
    layer = S4(H, N, rngs=nnx.Rngs(0))
    graph, params = nnx.split(layer)
    *_, D, dt = layer.dynamics()
    C = np.random.default_rng(0).normal(size=(H, N))
    dense = {dtype: (*peers.dense_step_system(H, N, np.asarray(dt, float), dtype),
                     jnp.asarray(C, dtype))
             for dtype in ("complex64", "float32")}
    u = jnp.asarray(np.random.default_rng(1).normal(size=(count, 1, H)), jnp.float32)

    def fast(params, u, dense):
        layer = nnx.merge(graph, params)
        return s4.apply_ssm(*layer.dynamics(), jnp.swapaxes(u, 0, 1),
                            mode="recurrence")[0]

    def stepped(params, u, dense):
        layer = nnx.merge(graph, params)
        return jax.lax.scan(lambda x, u_k: layer.step(u_k, x)[::-1],
                            layer.init_state(1), u)[1]

    def slow(params, u, dense, dtype):
        step = lambda x, u_k: peers.dense_step(*dense[dtype], D, u_k[0], x)[::-1]
        return jax.lax.scan(step, jnp.zeros((H, N), dtype), u)[1]

    functions = {"O(N)": fast, "O(N), layer.step": stepped,
                 "dense": partial(slow, dtype="complex64"),
                 "dense, real": partial(slow, dtype="float32")}
    return {"H": H, "N": N, "count": count, "methods": compare(
        functions, (params, u, dense), "dense", rounds, others=["dense, real"])}


def generation(contexts, H=128, depth=4, N=64, rounds=9, chunk=256):
    """Microseconds an output, after contexts of growing length."""
    table = {}
    for name, layer in (("S4", partial(S4, N=N)), ("S4D", partial(S4D, N=N)),
                        ("S5", partial(S5, P=N))):
        model = SequenceClassifier(H, H, H, depth, layer, norm="layer",
                                   dropout=0.0, pool="last", rngs=nnx.Rngs(0))
        feed = lambda y, key: jnp.tanh(y)
        run = partial(generate, model, length=chunk, feed=feed, chunk=chunk)
        carry, at, carries = (jnp.ones((1, H)), model.init_state(1)), 0, {}
        for context in contexts:
            while at < context:
                _, carry = run(*carry)
                at += chunk
            carries[context] = jax.block_until_ready(carry)
        times = {context: [] for context in contexts}
        for _ in range(rounds + 1):
            for context, carry in carries.items():
                start = time.perf_counter()
                jax.block_until_ready(run(*carry))
                times[context].append((time.perf_counter() - start) / chunk)
        table[name] = {str(context): round(1e6 * float(np.median(t[1:])), 1)
                       for context, t in times.items()}
    return {"H": H, "N": N, "depth": depth, "chunk": chunk, "batch": 1,
            "microseconds": table}


def main(quick=False):
    start, rounds = time.perf_counter(), 3 if quick else 9
    result = provenance(quick=quick, dt=[1e-3, 1e-1], dtype="float32", seed=0,
                        peers={"discretax": version("discretax")})
    # Three processes: where memory happens to lie is luck.
    alone = [sys.executable, "-m", "benchmarks.layers", "--training",
             *(["--quick"] if quick else [])]
    result["training"] = [
        json.loads(subprocess.run(alone, check=True, text=True,
                                  stdout=subprocess.PIPE).stdout)
        for _ in range(1 if quick else 3)]
    result["kernels"] = [kernels(H, L, gradients, rounds=rounds)
                         for H, L in ([(8, 64)] if quick else
                                      [(128, 1024), (128, 4096), (64, 16384)])
                         for gradients in (False, True)]
    result["steps"] = steps(**(dict(H=8, N=8) if quick else {}), rounds=rounds)
    contexts = [2**k for k in ((8, 9) if quick else range(10, 17))]
    result["generation"] = generation(
        contexts, **(dict(H=8, depth=1, N=8) if quick else {}), rounds=rounds)
    result["wall_s"] = round(time.perf_counter() - start, 1)
    if quick:
        print(result)
    else:
        print(record("layers", result))


if __name__ == "__main__":
    if "--training" in sys.argv:
        small = dict(H=8, depth=1, L=64, batch=2, N=8, rounds=3)
        print(json.dumps(training(**small if "--quick" in sys.argv else {})))
    else:
        main("--quick" in sys.argv)
