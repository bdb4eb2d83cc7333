"""Kernels in single precision: accuracy, gradients and memory, every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import cauchy
from annotated_ssm.cauchy import (METHODS, METHODS_C_TILDE, dplr_kernel,
                                  from_C_tilde, to_C_tilde)
from annotated_ssm.nplr import dplr

STEPS = np.array([1e-4, 1e-3, 1e-2, 1e-1], np.float32)
L = 512
EVERY = METHODS + METHODS_C_TILDE
each_method = pytest.mark.parametrize("method", EVERY)
# Dense powers solve with a matrix of norm dt/2 · 8000, one rounding a power.
TOLERANCE = {"naive": 1e-4}


def both(a):
    return np.concatenate([a, a.conj()], -1)


def system():
    """LegS of 64 states, rounded to single precision as it will be used."""
    Λ, P, B, _ = dplr("legs", 64)
    rng = np.random.default_rng(0)
    C = rng.normal(size=32) + 1j * rng.normal(size=32)
    return [a.astype(np.complex64) for a in (Λ, P, B, C)]


def powers(Λ, P, B, C, dt, L=L, tilde=False):
    """Dense powers in double precision; from C̃ where C is that."""
    Λ, P, B, C = (both(np.asarray(a, complex)) for a in (Λ, P, B, C))
    A, I = np.diag(Λ) - P.T @ P.conj(), np.eye(len(Λ))
    A_bar = np.linalg.solve(I - dt / 2 * A, I + dt / 2 * A)
    if tilde:
        C = np.linalg.solve((I - np.linalg.matrix_power(A_bar, L)).T, C)
    x, K = np.linalg.solve(I - dt / 2 * A, dt * B), np.empty(L)
    for k in range(L):
        K[k] = (C @ x).real
        x = A_bar @ x
    return K


def kernel(method, L=L):
    """The method, from the C that it takes."""
    return lambda *a: dplr_kernel(*a, L, method=method,
                                  C_tilde=method in METHODS_C_TILDE)


@each_method
def test_accuracy(method):
    tilde = method in METHODS_C_TILDE
    expected = np.array([powers(*system(), float(dt), tilde=tilde)
                         for dt in STEPS])
    run = jax.jit(jax.vmap(kernel(method), (None,) * 4 + (0,)))
    K = run(*system(), STEPS)
    assert K.dtype == jnp.float32
    gap = np.abs(K - expected).max(1) / np.abs(expected).max(1)
    assert gap.max() <= TOLERANCE.get(method, 1e-5), gap


def slopes(direction, given, argument, weights, tilde):
    """Derivative of weights · K along a direction, in double precision."""
    h = 1e-6 * np.abs(given[argument]).max()
    ends = []
    for sign in (1, -1):
        moved = list(given)
        moved[argument] = given[argument] + sign * h * direction
        ends.append(powers(*moved, tilde=tilde) @ weights)
    return (ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize("method", EVERY[1:])
def test_gradients(method):
    """Along the gradient itself, relative to the largest of four channels.

    On the circle, dt moves each node past sharp resonances: its gradient has
    few digits in single precision, and no more is promised.
    """
    rng = np.random.default_rng(1)
    weights = rng.normal(size=L)
    Λ, P, B, _ = system()
    C = (rng.normal(size=(4, 32)) + 1j * rng.normal(size=(4, 32))
         ).astype(np.complex64)
    loss = lambda *a: kernel(method)(*a) @ jnp.asarray(weights, jnp.float32)
    one = jax.vmap(jax.grad(loss, tuple(range(5))), (None,) * 3 + (0, None))
    gradient = jax.jit(jax.vmap(one, (None,) * 4 + (0,)))(Λ, P, B, C, STEPS)
    for i, dt in enumerate(STEPS):
        for j, g in enumerate(gradient):
            gaps, sizes = [], []
            for h in range(4):
                given = [a.astype(complex) for a in (Λ, P, B, C[h])]
                given.append(float(dt))
                at = np.asarray(g[i, h], complex)
                direction = at.conj() / np.abs(at).max()   # JAX conjugates
                direction = direction.real if j == 4 else direction
                want = slopes(direction, given, j, weights,
                              method in METHODS_C_TILDE)
                gaps.append(abs(np.sum(at * direction).real - want))
                sizes.append(abs(want))
            bound = (1e-5 if method in METHODS else 1e-4 if j < 4 else 1e-3)
            assert max(gaps) <= bound * max(sizes), (dt, j, max(gaps), sizes)


@pytest.mark.parametrize("method, share", [
    ("krylov", 0.05), ("doubling", 0.05), ("cauchy", 0.4),
    ("cauchy_blocked", 0.1)])
def test_memory(method, share):
    """Temporary memory beside one complex number a node, state and channel."""
    H, L, N = 8, 4096, 64
    shapes = [jax.ShapeDtypeStruct(s, jnp.complex64)
              for s in ((H, 32), (H, 1, 32), (H, 32), (H, 32))]
    run = jax.vmap(lambda *a: dplr_kernel(
        *a, L, C_tilde=method in METHODS_C_TILDE, method=method))
    compiled = jax.jit(run).lower(
        *shapes, jax.ShapeDtypeStruct((H,), jnp.float32)).compile()
    used = compiled.memory_analysis().temp_size_in_bytes
    assert used <= share * H * L * N * 8


def chosen(monkeypatch, states, L, tilde):
    """The method that "auto" ends in, from the function it calls."""
    called = []
    for name in ("krylov_kernel", "doubling_kernel", "_cauchy_kernel"):
        inner = getattr(cauchy, name)
        monkeypatch.setattr(cauchy, name, lambda *a, n=name, f=inner: (
            called.append((n, a[-1])), f(*a))[1])
    Λ, P, B, _ = dplr("legs", states)
    dplr_kernel(Λ, P, B, B, 0.01, L, C_tilde=tilde)
    return called


@pytest.mark.parametrize("states, L, name", [
    (64, 64, "krylov_kernel"), (64, 4096, "krylov_kernel"),
    (16, 4095, "krylov_kernel"), (18, 4096, "krylov_kernel"),
    (16, 4096, "doubling_kernel"), (2, 5000, "doubling_kernel")])
def test_auto_with_the_true_C(monkeypatch, states, L, name):
    (called, _), = chosen(monkeypatch, states, L, tilde=False)
    assert called == name


@pytest.mark.parametrize("states, L, block", [
    (64, 64, None), (64, 2048, None), (64, 2049, cauchy.BLOCK)])
def test_auto_with_C_tilde(monkeypatch, states, L, block):
    assert chosen(monkeypatch, states, L, tilde=True) == [("_cauchy_kernel", block)]


def test_lengths_are_prefixes_of_each_other():
    given = system()
    K = dplr_kernel(*given, 0.01, 100)
    for L in (1, 2, 3, 31, 33):
        np.testing.assert_allclose(dplr_kernel(*given, 0.01, L), K[:L], rtol=0,
                                   atol=1e-5 * np.abs(K).max())


def test_the_condition_is_the_price_of_the_way_back():
    Λ, P, _, C = system()
    there, cond = to_C_tilde(Λ, P, C, 0.01, L)
    back, _ = from_C_tilde(Λ, P, there, 0.01, L)
    eps = np.finfo(np.float32).eps
    assert np.abs(back - C).max() <= 20 * eps * cond * np.abs(C).max()
