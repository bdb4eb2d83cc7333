"""The tree in single precision: accuracy, gradients, and work by counting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.cauchy import cauchy_sums, dplr_kernel, to_C_tilde, unit_nodes
from annotated_ssm.checks import operations
from annotated_ssm.fast_cauchy import (FAR, cauchy_sums_fast, dplr_kernel_fast,
                                       far_error, make_tree, order_for,
                                       tree_depth)
from annotated_ssm.nplr import dplr

SINGLE = float(np.finfo(np.float32).eps)


def draw(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("dt", [1e-3, 1e-1])
def test_accuracy(tol, dt):
    """Against sums in double precision; what the nodes' rounding does aside."""
    L, Λ = 2000, dplr("legs", 64)[0].astype(np.complex64)
    v = draw(np.random.default_rng(0), 3, 32).astype(np.complex64)
    dt = np.float32(dt)
    got = jax.jit(lambda *a: cauchy_sums_fast(*a, L, tol=tol))(v, Λ, dt)
    assert got.dtype == jnp.complex64
    s, c, _ = unit_nodes(L)
    σ, c = 2 / float(dt) * s[:, None], c[:, None]
    v, Λ = (np.concatenate([a, a.conj()], -1).astype(complex) for a in (v, Λ))
    D = 1 / (1j * σ - c * Λ)
    size = np.abs(v) @ np.abs(D).T
    loss = np.abs(v) @ (np.abs(D)**2 * (np.abs(σ) + np.abs(c * Λ))).T
    assert (np.abs(got - v @ D.T) <= tol * size + 5 * SINGLE * (loss + size)).all()


def test_channels_with_steps_of_their_own():
    L, rng = 700, np.random.default_rng(1)
    Λ, v = dplr("legs", 16)[0].astype(np.complex64), draw(rng, 5, 8)
    v, dt = v.astype(np.complex64), jnp.geomspace(1e-3, 1e-1, 5)
    run = lambda v, dt: cauchy_sums_fast(v, Λ, dt, L)
    together = jax.jit(jax.vmap(run))(v, dt)
    for i in range(5):
        alone = run(v[i], dt[i])
        np.testing.assert_allclose(together[i], alone, rtol=0,
                                   atol=1e-4 * np.abs(alone).max())


def test_real_numerators_and_few_nodes():
    Λ, v = dplr("legs", 8)[0].astype(np.complex64), np.ones(4, np.float32)
    for L in (1, 2, 9):
        s, c, _ = unit_nodes(L)
        direct = cauchy_sums(v + 0j, Λ, jnp.float32(20 * s), jnp.float32(c))
        np.testing.assert_allclose(cauchy_sums_fast(v, Λ, 0.1, L), direct,
                                   rtol=0, atol=1e-5 * np.abs(direct).max())


def test_gradients():
    """No node near a pole, where single precision has few digits to compare."""
    L, rng = 600, np.random.default_rng(2)
    Λ = (-30 - 9 * rng.uniform(size=16) + 300j * rng.uniform(size=16))
    v, weights = draw(rng, 2, 16), draw(rng, 2, 301).astype(np.complex64)
    s, c, _ = map(jnp.float32, (*unit_nodes(L)[:2], 0))
    exact = lambda v, Λ, dt: cauchy_sums(v, Λ, 2 / dt * s, c)
    fast = lambda v, Λ, dt: cauchy_sums_fast(v, Λ, dt, L)
    loss = lambda sums: lambda *a: jnp.sum((weights * sums(*a)).real)
    given = v.astype(np.complex64), Λ.astype(np.complex64), jnp.float32(0.02)
    gradients = (jax.jit(jax.grad(loss(f), (0, 1, 2)))(*given) for f in (exact, fast))
    for want, got in zip(*gradients):
        np.testing.assert_allclose(got, want, rtol=0,
                                   atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("L", [1, 2, 3, 300, 1025])
def test_kernel(L):
    Λ, P, B, _ = dplr("legs", 64)
    C = draw(np.random.default_rng(3), 32)
    C, _ = to_C_tilde(Λ, P, C, 0.01, L)
    expected = dplr_kernel(Λ, P, B, C, 0.01, L, C_tilde=True)
    K = dplr_kernel_fast(Λ, P, B, C, 0.01, L, C_tilde=True)
    assert K.dtype == jnp.float32 and K.shape == (L,)
    np.testing.assert_allclose(K, expected, rtol=0,
                               atol=2e-4 * np.abs(expected).max())


# Work


def work(M, L, T=4, tol=1e-4, product=cauchy_sums_fast):
    like = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.complex64)
    return operations(lambda v, Λ: product(v, Λ, 0.01, L, tol=tol),
                      like(T, M), like(M))


def naive(v, Λ, dt, L, tol):
    s, c, _ = unit_nodes(L)
    return cauchy_sums(v, Λ, jnp.float32(2 / dt * s), jnp.float32(c))


def test_work_is_a_sum_and_not_a_product():
    """Linear in the poles, with a slope that is logarithmic in L; linear in L."""
    lengths = [2**k for k in range(10, 15)]
    slope = np.array([(work(512, L) - work(256, L)) / 256 for L in lengths])
    start = np.array([2 * work(256, L) - work(512, L) for L in lengths])
    for L, a, b in zip(lengths, slope, start):
        assert abs(work(4096, L) - (4096 * a + b)) <= 1e-6 * work(4096, L)
    np.testing.assert_allclose(np.diff(slope), np.diff(slope)[0], rtol=0.05)
    np.testing.assert_allclose(start[1:] / start[:-1], 2, rtol=0.1)
    both = work(8192, 16384) / work(4096, 8192)
    assert 1.9 < both < 2.3
    assert 3.9 < work(8192, 16384, product=naive) / work(4096, 8192, product=naive) < 4.1
    assert work(8192, 16384) < work(8192, 16384, product=naive) / 20


def test_work_grows_with_the_digits():
    few, many = work(512, 8192, tol=1e-3), work(512, 8192, tol=1e-12)
    assert few < many < 4 * few


def test_the_backward_pass_is_of_the_same_order():
    like = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.complex64)
    loss = lambda v, Λ, L: jnp.sum(jnp.abs(cauchy_sums_fast(v, Λ, 0.01, L)))
    small, large = (operations(lambda v, Λ: jax.grad(loss, 1)(v, Λ, L),
                               like(1, M), like(M))
                    for M, L in ((512, 2048), (2048, 8192)))
    assert 3.8 < large / small < 5.5


# Parts


def test_points():
    assert [order_for(10.0**-k) for k in (2, 4, 6, 8, 10, 12)] == [4, 6, 10, 12, 14, 18]
    for tol in (1e-3, 1e-9, 1e-15):
        p = order_for(tol)
        assert p % 2 == 0 and far_error(p) <= tol < far_error(p - 2)


@pytest.mark.parametrize("L", [64, 100, 101, 999, 4096])
def test_tree_has_every_node_once(L):
    p = 4
    depth = tree_depth(L, p)
    tree = make_tree(L, p, depth)
    assert 2**depth * 2 * p <= L // 2 + 1 < 2**depth * 4 * p
    assert len(np.unique(tree.place)) == L // 2 + 1
    sin, cos, _ = unit_nodes(L)
    assert np.array_equal(tree.near[0].reshape(-1)[tree.place], sin)
    assert np.array_equal(tree.near[1].reshape(-1)[tree.place], cos)
    assert tree.near.shape[2] <= 4 * p + 1
    α = np.pi * np.arange(L // 2 + 1) / L
    values = np.exp(1j * (p - 1) * np.arctan2(*tree.far[-1]))    # in the space
    got = np.einsum("bsp,bp->bs", tree.evaluate, values).reshape(-1)[tree.place]
    np.testing.assert_allclose(got, np.exp(1j * (p - 1) * α), atol=1e-12)


def test_far_lists():
    for m in range(2, 7):
        for j in range(2**m):
            listed = {i for i in j + FAR[j % 2] if 0 <= i < 2**m}
            assert listed == {i for i in range(2**m)
                              if abs(i - j) > 1 and abs(i // 2 - j // 2) <= 1}
