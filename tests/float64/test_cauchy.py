"""Kernels and their gradients against dense powers in double precision."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.cauchy import (METHODS, METHODS_C_TILDE, dplr_kernel,
                                  from_C_tilde, to_C_tilde)
from annotated_ssm.hippo import MEASURES
from annotated_ssm.nplr import dplr

REFERENCE = np.load(Path(__file__).parents[1] / "reference.npz")
LENGTHS = (1, 2, 3, 7, 8, 13, 64, 1000)
STEPS = np.array([1e-4, 1e-2, 1e-1])
EVERY = METHODS + METHODS_C_TILDE
each_method = pytest.mark.parametrize("method", EVERY)


def both(a):
    return np.concatenate([a, a.conj()], -1)


def draw(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def dense(Λ, P, Q, B, dt):
    """The discrete system, all states given."""
    A, I = np.diag(Λ) - P.T @ Q.conj(), np.eye(len(Λ))
    return np.linalg.solve(I - dt / 2 * A, np.column_stack([I + dt / 2 * A, dt * B]))


def powers(Λ, P, Q, B, C, dt, L):
    """The kernel by dense powers in NumPy, all states given."""
    system = dense(Λ, P, Q, B, dt)
    A_bar, x, K = system[:, :-1], system[:, -1], np.empty(L)
    for k in range(L):
        K[k] = (C @ x).real
        x = A_bar @ x
    return K


def tilde(Λ, P, Q, B, C, dt, L):
    A_bar = dense(Λ, P, Q, B, dt)[:, :-1]
    return C @ (np.eye(len(Λ)) - np.linalg.matrix_power(A_bar, L))


def systems(N, shift):
    """Four measures times three steps, LegT's rank two for all, half states.

    On the circle an undamped mode would sit on a node: there it is damped.
    """
    rows = []
    for measure in MEASURES:
        Λ, P, B, _ = dplr(measure, N)
        if shift and measure != "legs":
            Λ = Λ - 1e-3
        P = np.concatenate([P, np.zeros((2 - len(P), N // 2))])
        C = draw(np.random.default_rng(0), N // 2)
        rows += [(Λ, P, P, B, C, dt) for dt in STEPS]
    return [np.stack(column) for column in zip(*rows)]


def kernel_of(method, L, conj_sym=True):
    """The kernel as a function of Λ, P, Q, B, C, dt, with C or C̃ as needed."""
    return lambda Λ, P, Q, B, C, dt: dplr_kernel(
        Λ, P, B, C, dt, L, Q=Q, C_tilde=method in METHODS_C_TILDE,
        conj_sym=conj_sym, method=method)


@each_method
@pytest.mark.parametrize("L", LENGTHS)
def test_dense_powers(method, L):
    circle = method in METHODS_C_TILDE
    rows = systems(16, circle)
    expected = np.array([powers(*map(both, row[:-1]), row[-1], L)
                         for row in zip(*rows)])
    if circle:
        rows[4] = np.array([tilde(*map(both, row[:-1]), row[-1], L)[:8]
                            for row in zip(*rows)])
    K = jax.jit(jax.vmap(kernel_of(method, L)))(*rows)
    gap = np.abs(K - expected).max(1) / np.abs(expected).max(1)
    assert gap.max() <= 1e-10, gap


@each_method
@pytest.mark.parametrize("conj_sym", [True, False])
def test_untied_factors_of_rank_two(method, conj_sym):
    Λ, P, B, _ = dplr("legt", 12)
    rng, Λ = np.random.default_rng(1), Λ - 0.1
    Q, C = P + 0.1 * draw(rng, *P.shape), draw(rng, 6)
    full = tuple(map(both, (Λ, P, Q, B, C)))
    expected = powers(*full, 0.03, 33)
    if method in METHODS_C_TILDE:
        full = (*full[:4], tilde(*full, 0.03, 33))
    given = [a[..., :6] for a in full] if conj_sym else full
    K = jax.jit(kernel_of(method, 33, conj_sym))(*given, 0.03)
    np.testing.assert_allclose(K, expected, rtol=0,
                               atol=1e-11 * np.abs(expected).max())


@each_method
def test_states_without_partners(method):
    """conj_sym=False assumes nothing: the real part of a complex kernel."""
    rng = np.random.default_rng(2)
    Λ = -rng.uniform(0.1, 1, 5) + 3j * rng.normal(size=5)
    P, B, C = draw(rng, 1, 5), draw(rng, 5), draw(rng, 5)
    for L in (7, 8):
        expected = powers(Λ, P, P, B, C, 0.2, L)
        given = tilde(Λ, P, P, B, C, 0.2, L) if method in METHODS_C_TILDE else C
        K = jax.jit(kernel_of(method, L, False))(Λ, P, P, B, given, 0.2)
        np.testing.assert_allclose(K, expected, rtol=0,
                                   atol=1e-12 * np.abs(expected).max())


def gradients(method, L, rows):
    """d(weights · K) by every argument, C being the true one."""
    weights = np.random.default_rng(3).normal(size=L)

    def loss(Λ, P, Q, B, C, dt):
        if method in METHODS_C_TILDE:
            C, _ = to_C_tilde(Λ, P, C, dt, L, Q=Q)
        return jnp.sum(weights * kernel_of(method, L)(Λ, P, Q, B, C, dt))

    return jax.jit(jax.vmap(jax.grad(loss, tuple(range(6)))))(*rows)


@pytest.fixture(scope="module")
def naive_gradients():
    return gradients("naive", 37, systems(8, True))


@pytest.mark.parametrize("method", EVERY[1:])
def test_gradients(method, naive_gradients):
    # Fourier's constant, 1e-3 from the pole with P² = 4, costs (4/1e-3)² eps
    # a rounding, and some ten of those meet.
    tolerance = 10 * (4 / 1e-3)**2 * np.finfo(float).eps
    got = gradients(method, 37, systems(8, True))
    for name, g, want in zip(("Λ", "P", "Q", "B", "C", "dt"), got,
                             naive_gradients):
        flat = lambda a: np.abs(a).reshape(len(a), -1).max(1)
        assert (flat(g - want) <= tolerance * flat(want)).all(), name


def test_the_oracle_has_the_gradients_of_finite_differences():
    Λ, P, B, _ = dplr("legs", 8)
    C = draw(np.random.default_rng(4), 4)
    f = lambda dt: np.sum(powers(*map(both, (Λ, P, P, B, C)), dt, 20)**2)
    g = jax.jit(jax.grad(lambda dt: jnp.sum(kernel_of("naive", 20)(
        Λ, P, P, B, C, dt)**2)))(0.05)
    np.testing.assert_allclose(g, (f(0.05 + 1e-6) - f(0.05 - 1e-6)) / 2e-6,
                               rtol=1e-7)


@pytest.mark.parametrize("L", [1, 7, 1000])
@pytest.mark.parametrize("conj_sym", [True, False])
def test_C_tilde_there_and_back(L, conj_sym):
    Λ, P, B, _ = dplr("legs", 16, conj_sym)
    C = draw(np.random.default_rng(5), len(Λ))
    there, cond = to_C_tilde(Λ, P, C, 1e-3, L, conj_sym=conj_sym)
    back, same = from_C_tilde(Λ, P, there, 1e-3, L, conj_sym=conj_sym)
    full = map(both, (Λ, P, P, B, C)) if conj_sym else (Λ, P, P, B, C)
    expected = tilde(*full, 1e-3, L)[:len(Λ)]
    np.testing.assert_allclose(there, expected, rtol=0,
                               atol=1e-11 * np.abs(expected).max())
    assert cond == same and cond >= 1
    assert np.abs(back - C).max() <= 1e-14 * cond * np.abs(C).max()


def test_condition_of_the_way_back():
    """Some 2e3 for one tap at dt = 1e-3, N = 64, and 1 when all has faded."""
    Λ, P, B, _ = dplr("legs", 64)
    cond = {L: float(to_C_tilde(Λ, P, B, 1e-3, L)[1]) for L in (1, 65536)}
    full = tuple(map(both, (Λ, P, P, B)))
    direct = np.linalg.cond(np.eye(64) - dense(*full, 1e-3)[:, :-1])
    np.testing.assert_allclose(cond[1], direct, rtol=1e-6)
    assert 1e3 < cond[1] < 4e3 and cond[65536] < 1.0001


def reference(method, Λ, P, B, C, dt, L, conj_sym=True):
    """The kernel of a system that is given with C̃."""
    if method in METHODS:
        C, _ = from_C_tilde(Λ, P, C, dt, L, conj_sym=conj_sym)
    return kernel_of(method, L, conj_sym)(Λ, P, P, B, C, dt)


@each_method
def test_the_reference_kernels(method):
    """Kernels of other people's code, of all states and of halves."""
    r = {k[11:]: v for k, v in REFERENCE.items() if k.startswith("as4_16_100")}
    K_16 = reference(method, r["Lambda"], r["P"][None], r["B"],
                     r["Ctilde_conj"].conj(), float(r["step"]), 100, False)
    np.testing.assert_allclose(K_16, r["K"].real, rtol=0, atol=1e-10)
    r = {k[8:]: v for k, v in REFERENCE.items() if k.startswith("s4_legs")}
    for h in range(2):
        K_h = reference(method, r["Lambda"][h], r["P"][:, h], r["B"][0, h],
                        r["Ctilde"][0, h], float(r["dt"][h, 0]), 64)
        np.testing.assert_allclose(K_h, r["K"][0, h], rtol=0, atol=1e-10)
