"""Woodbury and the O(N) step against dense algebra in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.hippo import MEASURES, transition
from annotated_ssm.nplr import discretize_dplr, dplr, step, woodbury

EPS = np.finfo(float).eps


def draw(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("N", [1, 2, 9, 40])
def test_woodbury_is_the_dense_solve(r, N):
    rng = np.random.default_rng(10 * r + N)
    d, P, Q, v = 4 + draw(rng, N), draw(rng, r, N), draw(rng, r, N), draw(rng, N)
    full = np.diag(d) + P.T @ Q.conj()
    expected = np.linalg.solve(full, v)
    bound = 50 * EPS * np.linalg.cond(full) * np.abs(d).max() * np.abs(expected).max()
    np.testing.assert_allclose(woodbury(d, P, Q, v), expected, rtol=0, atol=bound)


def dense_bilinear(A, B, dt):
    left = np.eye(len(A)) - dt / 2 * A
    return (np.linalg.solve(left, np.eye(len(A)) + dt / 2 * A),
            np.linalg.solve(left, dt * B))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("conj_sym", [True, False])
@pytest.mark.parametrize("dt", [1e-4, 1e-2, 0.5])
def test_the_step_is_the_dense_step(measure, conj_sym, dt):
    """Theorem 2 over 20 steps, rank one and two."""
    A, B = transition(measure, 16)
    A_bar, B_bar = dense_bilinear(A, B, dt)
    Λ, P, B_half, V = dplr(measure, 16, conj_sym)
    system = discretize_dplr(Λ, P, B_half, dt, conj_sym=conj_sym)
    back = (lambda x: 2 * (V @ x).real) if conj_sym else (lambda x: (V @ x).real)
    x, exact = np.zeros(len(Λ), complex), np.zeros(16)
    for u in np.random.default_rng(0).normal(size=20):
        x = np.asarray(step(system, jnp.asarray(x), u, conj_sym))
        exact = A_bar @ exact + B_bar * u
        scale = max(1.0, np.abs(exact).max())
        np.testing.assert_allclose(back(x), exact, rtol=0, atol=1e-14 * scale * 20)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("conj_sym", [True, False])
@pytest.mark.parametrize("dt", [1e-4, 1e-2, 0.5])
def test_one_step_to_the_last_digits(measure, conj_sym, dt):
    """Theorem 2 to 1e-14 of the state, from any state, with any input."""
    A_bar, B_bar = dense_bilinear(*transition(measure, 16), dt)
    Λ, P, B, V = dplr(measure, 16, conj_sym)
    system = discretize_dplr(Λ, P, B, dt, conj_sym=conj_sym)
    for x, u in zip(np.random.default_rng(0).normal(size=(5, 16)), np.arange(5.0)):
        got = V @ np.asarray(step(system, jnp.asarray(V.conj().T @ x), u, conj_sym))
        got = (2 * got if conj_sym else got).real
        exact = A_bar @ x + B_bar * u
        assert np.abs(got - exact).max() <= 1e-14 * np.abs(exact).max()


@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_theorem_2_as_it_is_stated(r):
    """Ā = A₁A₀ and B̄ = 2 A₁B, with A₁ by Woodbury, at any rank."""
    rng, dt = np.random.default_rng(r), 0.05
    Λ, P, B = -np.abs(rng.normal(size=12)) + 3j * rng.normal(size=12), draw(
        rng, r, 12), draw(rng, 12)
    D = np.diag(1 / (2 / dt - Λ))
    A0 = 2 / dt * np.eye(12) + np.diag(Λ) - P.T @ P.conj()
    A1 = D - D @ P.T @ np.linalg.inv(
        np.eye(r) + P.conj() @ D @ P.T) @ P.conj() @ D
    s = discretize_dplr(Λ, P, B, dt, conj_sym=False)
    np.testing.assert_allclose(np.eye(12) + np.diag(s.E) - s.P.T @ s.Q, A1 @ A0,
                               rtol=0, atol=1e-14)
    np.testing.assert_allclose(s.B, 2 * A1 @ B, rtol=0, atol=1e-14)


def test_one_flipped_sign_breaks_woodbury_and_the_step():
    rng = np.random.default_rng(0)
    d, P, Q, v = 4 + draw(rng, 9), draw(rng, 2, 9), draw(rng, 2, 9), draw(rng, 9)
    expected = np.linalg.solve(np.diag(d) + P.T @ Q.conj(), v)
    for wrong in ((-d, P, Q, v), (d, -P, Q, v), (d, P, -Q, v), (d, P, Q, -v),
                  (d, P, Q.conj(), v)):
        assert np.abs(woodbury(*wrong) - expected).max() > 1e-3
    A_bar, B_bar = dense_bilinear(*transition("legs", 8), 0.1)
    Λ, P, B, V = dplr("legs", 8)
    x = rng.normal(size=8)
    half, exact = jnp.asarray(V.conj().T @ x), A_bar @ x + B_bar
    off = lambda s: np.abs(2 * (V @ np.asarray(step(s, half, 1.0))).real - exact).max()
    right = discretize_dplr(Λ, P, B, 0.1)
    assert off(right) < 1e-14
    for name in right._fields:
        assert off(right._replace(**{name: -getattr(right, name)})) > 1e-2, name
    for wrong in ((-Λ, P, B), (Λ.conj(), P, B), (Λ, P, -B)):
        assert off(discretize_dplr(*wrong, 0.1)) > 1e-2
    assert off(discretize_dplr(Λ, P, B, 0.1, Q=-P)) > 1e-2
    literal = 2 * (V @ np.asarray(step(right, half, 1.0, conj_sym=False))).real
    assert np.abs(literal - exact).max() > 1e-2        # half of each pair


def test_small_steps_keep_their_digits():
    """E is small beside one: it must carry a relative, not an absolute, error."""
    Λ, P, B, _ = dplr("legs", 64)
    E = discretize_dplr(Λ, P, B, 1e-9).E
    np.testing.assert_allclose(E, 1e-9 * Λ / (1 - 5e-10 * Λ), rtol=4 * EPS)


@pytest.mark.parametrize("conj_sym", [True, False])
def test_untied_factors(conj_sym):
    """Q that differs from P, with the partners' Q the conjugates of the stored."""
    rng = np.random.default_rng(3)
    Λ, P, B, _ = dplr("legt", 12)
    Q = P + 0.3 * draw(rng, *P.shape)
    both = lambda a: np.concatenate([a, a.conj()], -1)
    full = np.diag(both(Λ)) - both(P).T @ both(Q).conj()
    A_bar, B_bar = dense_bilinear(full, both(B), 0.1)
    arrays = (Λ, P, B, Q) if conj_sym else map(both, (Λ, P, B, Q))
    L_, P_, B_, Q_ = arrays
    system = discretize_dplr(L_, P_, B_, 0.1, Q=Q_, conj_sym=conj_sym)
    x, exact = np.zeros(len(L_), complex), np.zeros(12, complex)
    for u in rng.normal(size=10):
        x = np.asarray(step(system, jnp.asarray(x), u, conj_sym))
        exact = A_bar @ exact + B_bar * u
    np.testing.assert_allclose(both(x) if conj_sym else x, exact, rtol=0,
                               atol=1e-13 * np.abs(exact).max())


def test_tied_factors_are_stable_whatever_they_are():
    Λ, _, _, _ = dplr("legs", 16, conj_sym=False)
    rng = np.random.default_rng(0)
    for _ in range(50):
        P = 10 * draw(rng, 2, 16)
        A = np.diag(Λ) - P.T @ P.conj()
        assert np.linalg.eigvals(A).real.max() <= -0.5 + 1e-9


@pytest.mark.parametrize("argument", range(4))
def test_gradients_are_those_of_the_dense_rule(argument):
    Λ, P, B, _ = dplr("legs", 8)
    both = lambda a: jnp.concatenate([a, a.conj()], -1)

    def fast(Λ, P, B, dt):
        system, x = discretize_dplr(Λ, P, B, dt), jnp.zeros(4, complex)
        for u in (1.0, -0.5, 0.2):
            x = step(system, x, u)
        return jnp.sum(jnp.abs(x) ** 2)

    def dense(Λ, P, B, dt):
        A = jnp.diag(both(Λ)) - both(P).T @ both(P).conj()
        left, x = jnp.eye(8) - dt / 2 * A, jnp.zeros(8, complex)
        for u in (1.0, -0.5, 0.2):
            x = jnp.linalg.solve(left, x + dt / 2 * A @ x + dt * both(B) * u)
        return jnp.sum(jnp.abs(x[:4]) ** 2)

    arguments = (jnp.asarray(Λ), jnp.asarray(P), jnp.asarray(B), 0.1)
    got, want = (jax.grad(f, argument)(*arguments) for f in (fast, dense))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 * np.abs(want).max())
