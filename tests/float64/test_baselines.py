"""The LSSL in double precision, against dense steps written out."""

import jax
import jax.numpy as jnp
import numpy as np

from annotated_ssm import s4
from annotated_ssm.baselines import (LSSL_METHODS, lssl_apply, lssl_initialize,
                                     lssl_kernel, lssl_step)
from annotated_ssm.hippo import transition
from annotated_ssm.nplr import dplr


def written_out(A, B, C, D, dt, u, steps, x):
    """Outputs (L, H) and the state (H, N) after u, by dense solves."""
    x, y, I = np.array(x), np.empty(u.shape), np.eye(A.shape[-1])
    for k, row in enumerate(u):
        for h, value in enumerate(row):
            Δ = dt[h] * steps[k]
            right = (I + Δ/2 * A[h]) @ x[h] + Δ * B[h] * value
            x[h] = np.linalg.solve(I - Δ/2 * A[h], right)
            y[k, h] = C[h] @ x[h] + D[h] * value
    return y, x


def test_layer_is_dense_steps():
    rng, H, N, L = np.random.default_rng(0), 3, 6, 37
    p = {k: np.asarray(v, np.float64) for k, v in lssl_initialize(
        jax.random.key(0), H, N, tied=False).items()}
    p["A"] = p["A"] + 0.1 * rng.standard_normal(p["A"].shape)
    system = p["A"], p["B"], p["C"], p["D"], np.exp(p["log_dt"])
    u, x0 = rng.standard_normal((L, H)), rng.standard_normal((H, N))
    steps = rng.uniform(0.2, 3, L)
    ones = np.ones(L)
    run = jax.jit(lssl_apply, static_argnames=("kernel_method", "mode"))
    for s in (None, steps):
        y, last = run(*system, u, steps=s, x0=x0)
        assert y.dtype == last.dtype == jnp.float64
        y_true, x_true = written_out(*system, u, ones if s is None else s, x0)
        np.testing.assert_allclose(y, y_true, atol=1e-12)
        np.testing.assert_allclose(last, x_true, atol=1e-12)
    y, last = run(*system, u, x0=x0, rate=1.7, kernel_method="krylov")
    y_true, x_true = written_out(*system, u, 1.7 * ones, x0)
    np.testing.assert_allclose(y, y_true, atol=1e-12)
    np.testing.assert_allclose(last, x_true, atol=1e-12)
    y_k, x = lssl_step(*system, u[0], x0, step=0.3)
    y_true, x_true = written_out(*system, u[:1], [0.3], x0)
    np.testing.assert_allclose(y_k, y_true[0], atol=1e-12)
    np.testing.assert_allclose(x, x_true, atol=1e-12)


def test_kernels_are_s4s():
    rng, N, L, dt = np.random.default_rng(1), 16, 100, 0.02
    Λ, P, B, V = dplr("legs", N)
    C = rng.standard_normal((2, N))
    u = rng.standard_normal((L, 2))
    A, B_dense = transition("legs", N)
    D = np.zeros(2)
    y, _ = s4.apply_ssm(Λ, P, B, C @ V, D, dt, u)
    for method in LSSL_METHODS:
        y_dense, _ = lssl_apply(A, B_dense, C, D, dt, u, kernel_method=method)
        np.testing.assert_allclose(y_dense, y, atol=1e-11)
        assert lssl_kernel(A, B_dense, C[0], dt, L, method).dtype == jnp.float64
