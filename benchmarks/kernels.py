"""Kernels of diagonal plus low-rank systems: time, memory and error.

    python -m benchmarks.kernels [--quick]

Writes results/benchmarks/kernels.json: every method against the broadcasting
kernel (forward, and forward with gradients of all parameters), the errors in
single precision, and the grid of sizes behind `method="auto"`.
"""

import os
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from annotated_ssm.cauchy import METHODS_C_TILDE, dplr_kernel, to_C_tilde
from annotated_ssm.nplr import dplr
from benchmarks.measure import compare, provenance, record
from benchmarks.peers import broadcasting_kernel

FAST = ("cauchy", "cauchy_blocked", "doubling", "krylov")
ARGUMENTS = ("Λ", "P", "B", "C", "dt")


def channels(H, N, L, dt_min=1e-3, dt_max=1e-1, seed=0):
    """Parameters of H channels of N states, in single precision."""
    rng = np.random.default_rng(seed)
    Λ, P, B, _ = dplr("legs", N)
    repeat = lambda a: np.tile(a, (H,) + (1,) * a.ndim).astype(np.complex64)
    C = rng.normal(size=(H, N // 2)) + 1j * rng.normal(size=(H, N // 2))
    dt = np.geomspace(dt_min, dt_max, H).astype(np.float32)
    return repeat(Λ), repeat(P), repeat(B), C.astype(np.complex64), dt


def kernel(method, L):
    """The kernels of all channels by one method, from whichever C it takes."""
    if method == "broadcasting":
        both = lambda a: jnp.concatenate([a, a.conj()], -1)
        one = lambda Λ, P, B, C, dt: broadcasting_kernel(
            both(Λ), both(P[0]), both(B), both(C), dt, L)
    else:
        one = lambda *a: dplr_kernel(*a, L, method=method,
                                     C_tilde=method in METHODS_C_TILDE)
    return jax.vmap(one)


def with_gradients(run):
    return jax.grad(lambda *a: jnp.sum(run(*a)**2), tuple(range(5)))


def speed(H, L, gradients, methods, rounds=9):
    """All methods against the broadcasting kernel, on the same numbers."""
    wrap = with_gradients if gradients else lambda run: run
    functions = {m: wrap(kernel(m, L)) for m in ("broadcasting", *methods)}
    table = compare(functions, channels(H, 64, L), "broadcasting", rounds)
    return {"H": H, "N": 64, "L": L, "gradients": gradients, "methods": table}


def grid(N, L, gradients, H=16, rounds=9):
    """The methods with the true C against each other, at one size."""
    wrap = with_gradients if gradients else lambda run: run
    methods = ("doubling", "krylov") + (("naive",) if N * L <= 2**14 else ())
    table = compare({m: wrap(kernel(m, L)) for m in methods},
                    channels(H, N, L), "doubling", rounds, budget=10)
    return {"H": H, "N": N, "L": L, "gradients": gradients,
            "speedup_over_doubling": {m: table[m]["speedup"] for m in methods}}


def write_values(path, L, H):
    """Kernels and gradients of all methods; in this process's precision."""
    wide = jax.config.jax_enable_x64
    to = (lambda a: a.astype(np.result_type(a, float))) if wide else np.asarray
    given = [to(a) for a in channels(H, 64, L, dt_min=1e-4)]
    weights = np.random.default_rng(1).normal(size=(H, L)).astype(np.float32)
    tilde_path = path + ".tilde.npy"
    if wide:
        tilde = jax.vmap(lambda Λ, P, C, dt: to_C_tilde(Λ, P, C, dt, L)[0])(
            given[0], given[1], given[3], given[4])
        np.save(tilde_path, np.asarray(tilde, np.complex64))
    tilde = to(np.load(tilde_path))
    values = {}
    for method in FAST + (() if wide else ("broadcasting",)):
        takes = method in METHODS_C_TILDE or method == "broadcasting"
        arguments = given[:3] + [tilde if takes else given[3], given[4]]
        run = kernel(method, L)
        loss = lambda *a, run=run: jnp.sum(run(*a) * to(weights))
        values[f"{method} K"] = jax.jit(run)(*arguments)
        slopes = jax.jit(jax.grad(loss, tuple(range(5))))(*arguments)
        values |= {f"{method} {n}": g for n, g in zip(ARGUMENTS, slopes)}
    np.savez(f"{path}.{'double' if wide else 'single'}.npz",
             **{k: np.asarray(v) for k, v in values.items()})


def errors(L, H=32):
    """Largest error over the largest value, Δ spread over [1e-4, 1e-1].

    Of all channels together, and of the worst channel by itself.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/values"
        for wide in ("1", "0"):
            subprocess.run([sys.executable, "-m", "benchmarks.kernels",
                            "--values", path, str(L), str(H)], check=True,
                           env=os.environ | {"JAX_ENABLE_X64": wide})
        with (np.load(f"{path}.single.npz") as single,
              np.load(f"{path}.double.npz") as double):
            table = {}
            for key in single:
                method, what = key.split()
                exact = double[key.replace("broadcasting", "cauchy")]
                rows = lambda a: np.abs(a).reshape(H, -1).max(1)
                gap, size = rows(single[key] - exact), rows(exact)
                table.setdefault(method, {})[what] = {
                    "all": float(f"{gap.max() / size.max():.2g}"),
                    "worst_channel": float(f"{(gap / size).max():.2g}")}
    return {"H": H, "N": 64, "L": L, "dt": [1e-4, 1e-1], "methods": table}


def main(quick=False):
    rounds = 3 if quick else 9
    result = provenance(quick=quick, dt=[1e-3, 1e-1], dtype="float32")
    result["speed"] = [speed(H, L, gradients, FAST, rounds)
                       for L in ((256,) if quick else (1024, 4096))
                       for H in ((8,) if quick else (64, 128))
                       for gradients in (False, True)]
    if not quick:
        result["speed"].append(speed(128, 16384, False, FAST, rounds))
    result["errors"] = [errors(L) for L in ((256,) if quick else (1024, 4096))]
    result["grid"] = [grid(N, L, gradients, rounds=rounds)
                      for N in ((4,) if quick else (4, 16, 64, 256))
                      for L in ((64,) if quick else (16, 128, 1024, 8192))
                      for gradients in (False, True)]
    if quick:
        print(result)
    else:
        print(record("kernels", result))


if __name__ == "__main__":
    if "--values" in sys.argv:
        path, L, H = sys.argv[sys.argv.index("--values") + 1:]
        write_values(path, int(L), int(H))
    else:
        main("--quick" in sys.argv)
