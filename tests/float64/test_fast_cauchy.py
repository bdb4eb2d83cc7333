"""Cauchy sums by the tree against direct sums, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.cauchy import (cauchy_sums, dplr_kernel, to_C_tilde,
                                  unit_nodes)
from annotated_ssm.fast_cauchy import (cauchy_sums_fast, cardinal, dplr_kernel_fast,
                                       far_error, interpolation_points, order_for,
                                       tree_depth)
from annotated_ssm.nplr import dplr

EPS = np.finfo(float).eps
LENGTHS = (1, 2, 3, 5, 127, 1000, 1001)
DT = 0.01


def draw(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def pole_sets(M=32):
    """Poles of every kind, (sets, M)."""
    rng = np.random.default_rng(0)
    wide = 10**rng.uniform(-1, 5, M)
    crowd = -0.5 + 300j
    return np.stack([
        dplr("legs", 2 * M)[0],
        -10**rng.uniform(-3, 4, M) + 1j * wide,                # anywhere
        np.full(M, crowd),                                     # all the same
        crowd + 1e-3 * (-rng.uniform(size=M) + 1j * rng.normal(size=M)),
        -1e-6 + 1j * wide,                                     # near the axis
        -10**rng.uniform(-2, 5, M) + 0j,                       # real
        np.full(M, -2 / DT + 0j),                              # at infinity
        rng.uniform(0.1, 9, M) - 1j * wide,                    # right and below
        2j / DT * np.tan(np.pi / 4 * (1 + 1e-9) + 1e-6j * np.arange(1, M + 1)),
    ])


def direct(v, Λ, L, conj_sym):
    """The sums, the sums of magnitudes, and what rounding does, in NumPy."""
    s, c, _ = unit_nodes(L, half=conj_sym)
    if conj_sym:
        v, Λ = (np.concatenate([a, a.conj()], -1) for a in (v, Λ))
    σ, c = 2 / DT * s[:, None], c[:, None]
    D = 1 / (1j * σ - c * Λ)
    loss = np.abs(D)**2 * (np.abs(σ) + np.abs(c * Λ))
    return D @ v, np.abs(D) @ np.abs(v), EPS * (loss @ np.abs(v))


def share(got, v, Λ, L, conj_sym=True):
    """Largest error beyond rounding, relative to the sum of magnitudes."""
    expected, size, rounding = direct(v, Λ, L, conj_sym)
    assert got.shape == expected.shape
    gap = np.maximum(np.abs(got - expected) - 20 * rounding, 0)
    return (gap / size).max()


@pytest.mark.parametrize("conj_sym", [True, False])
@pytest.mark.parametrize("L", LENGTHS)
def test_every_kind_of_pole(L, conj_sym):
    sets = pole_sets()
    v = draw(np.random.default_rng(1), *sets.shape)
    run = jax.jit(jax.vmap(lambda v, Λ: cauchy_sums_fast(
        v, Λ, DT, L, tol=1e-8, conj_sym=conj_sym)))
    for got, w, Λ in zip(run(v, sets), v, sets):
        assert share(got, w, Λ, L, conj_sym) <= 1e-8


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
def test_tolerance(tol):
    sets = pole_sets()
    v = draw(np.random.default_rng(2), *sets.shape)
    assert tree_depth(3000, order_for(tol)) >= 2
    run = jax.jit(jax.vmap(lambda v, Λ: cauchy_sums_fast(v, Λ, DT, 3000, tol=tol)))
    worst = [share(got, w, Λ, 3000) for got, w, Λ in zip(run(v, sets), v, sets)]
    assert max(worst) <= tol + 50 * EPS, worst


@pytest.mark.parametrize("N", [2, 64, 512])
def test_hippo(N):
    Λ = dplr("legs", N)[0]
    v = draw(np.random.default_rng(3), N // 2)
    for L in (1000, 4096):
        got = cauchy_sums_fast(v, Λ, DT, L, tol=1e-12)
        assert share(got, v, Λ, L) <= 1e-12


@pytest.mark.parametrize("p", [2, 4, 8, 12])
def test_the_bound_is_met(p):
    """On the widest arc, by a pole one arc away; also by deep and far ones."""
    h = np.pi / 16
    points, α = interpolation_points(p, h), np.linspace(-h, h, 301)
    pole = np.array([3 * h + 1e-9j, -3 * h + 1e-9j, 3 * h + 0.3j, 5 * h + 0j,
                     np.pi / 2 + 0.1j, np.pi - 3 * h - 1e-9j])
    q = cardinal(α, points) @ (1 / np.sin(points[:, None] - pole))
    error = np.abs(1 - q * np.sin(α[:, None] - pole)).max(0)
    assert error.max() <= far_error(p) * (1 + 1e-6) + 100 * EPS
    assert error[0] > 0.99 * far_error(p)
    assert error[2:5].max() < 0.9 * far_error(p)


def test_any_number_of_numerators():
    rng = np.random.default_rng(4)
    Λ, v = dplr("legs", 16)[0], draw(rng, 2, 3, 8)
    got = cauchy_sums_fast(v, Λ, DT, 500)
    assert got.shape == (2, 3, 251)
    for i in np.ndindex(2, 3):
        assert share(got[i], v[i], Λ, 500) <= 1e-6
    assert cauchy_sums_fast(v[:0], Λ, DT, 500).shape == (0, 3, 251)
    assert np.array_equal(cauchy_sums_fast(v[..., :0], Λ[:0], DT, 500),
                          np.zeros((2, 3, 251)))


@pytest.mark.parametrize("conj_sym", [True, False])
def test_gradients(conj_sym):
    """By v, Λ and dt, those of the direct sum; a few of the poles are crowded."""
    L, rng = 300, np.random.default_rng(5)
    Λ = np.concatenate([dplr("legs", 32)[0], np.full(4, -0.5 + 30j),
                        [-200 + 0j, -7 + 0j]])
    v, weights = draw(rng, 2, len(Λ)), draw(rng, 2, L // 2 + 1 if conj_sym else L)
    s, c, _ = unit_nodes(L, half=conj_sym)

    def loss(sums):
        return lambda v, Λ, dt: jnp.sum((weights * sums(v, Λ, dt)).real)

    exact = loss(lambda v, Λ, dt: cauchy_sums(v, Λ, 2 / dt * s, c, conj_sym))
    fast = loss(lambda v, Λ, dt: cauchy_sums_fast(v, Λ, dt, L, tol=1e-12,
                                                  conj_sym=conj_sym))
    assert tree_depth(L, order_for(1e-12)) >= 2
    gradients = (jax.jit(jax.grad(f, (0, 1, 2)))(v, Λ, DT) for f in (exact, fast))
    for want, got in zip(*gradients):
        np.testing.assert_allclose(got, want, rtol=0,
                                   atol=1e-10 * np.abs(want).max())


@pytest.mark.parametrize("measure, conj_sym, L", [
    ("legs", True, 1000), ("legs", True, 7), ("legs", False, 501),
    ("legt", True, 801), ("legt", False, 600)])
def test_kernel(measure, conj_sym, L):
    """Any rank, untied factors: the kernel of the direct product."""
    rng = np.random.default_rng(6)
    Λ, P, B, _ = dplr(measure, 32, conj_sym=conj_sym)
    Λ = Λ - 0.1
    Q, C = P + 0.05 * draw(rng, *P.shape), draw(rng, len(Λ))
    C, _ = to_C_tilde(Λ, P, C, 0.02, L, Q=Q, conj_sym=conj_sym)

    def run(kernel, **how):
        return jax.jit(lambda *a: kernel(*a, 0.02, L, Q=Q, C_tilde=True,
                                         conj_sym=conj_sym, **how))(Λ, P, B, C)

    expected = run(dplr_kernel, method="cauchy")
    scale = np.abs(expected).max()
    for tol in (1e-4, 1e-12):
        np.testing.assert_allclose(run(dplr_kernel_fast, tol=tol), expected,
                                   rtol=0, atol=100 * tol * scale)


def test_gradients_of_the_kernel():
    Λ, P, B, _ = dplr("legs", 32)
    C = draw(np.random.default_rng(7), 16)
    weights = np.random.default_rng(8).normal(size=400)
    loss = lambda kernel: lambda *a: weights @ kernel(*a, 400, C_tilde=True)
    fast = lambda *a, **kw: dplr_kernel_fast(*a, tol=1e-12, **kw)
    gradients = (jax.jit(jax.grad(loss(f), (0, 1, 2, 3, 4)))(Λ, P, B, C, DT)
                 for f in (dplr_kernel, fast))
    for want, got in zip(*gradients):
        np.testing.assert_allclose(got, want, rtol=0,
                                   atol=1e-9 * np.abs(want).max())
