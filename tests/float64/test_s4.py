"""S4 in every way of running against dense matrices, double precision."""

import itertools

import jax
import numpy as np
import pytest
from scipy.linalg import expm

from annotated_ssm import s4
from annotated_ssm.cauchy import METHODS, to_C_tilde
from annotated_ssm.nplr import dplr

H, N, M = 3, 8, 4


def both(a):
    return np.concatenate([a, a.conj()], -1)


def dense(Λ, P, B, C, D, dt, u, *, Q=None, method="bilinear",
          bidirectional=False, steps=None, rate=1.0, mask=None, x0=None):
    """One sequence by matrices of all states, one sample after the other."""
    Q = P if Q is None else Q
    L = len(u)
    n = L if mask is None else int(np.sum(mask))
    steps = np.ones(L) if steps is None else steps
    y = np.zeros((L, H))
    y[:n] = D * u[:n]
    x = np.zeros((1 + bidirectional, H, M), complex)
    if x0 is not None:
        x = x + np.reshape(x0, x.shape)
    for h, i in itertools.product(range(H), range(1 + bidirectional)):
        pick = lambda a, axes: both(a if a.ndim == axes else a[h])
        A = np.diag(pick(Λ, 1)) - pick(P, 2).T @ pick(Q, 2).conj()
        b, I = pick(B, 1), np.eye(N)
        state, c = both(x[i, h]), both(C[h, i*M:(i+1)*M])
        for k in range(n)[::-1] if i else range(n):
            end = k if i == 0 else k + 1 if k + 1 < n else 0
            Δ = rate * np.broadcast_to(dt, H)[h] * steps[end]
            if method == "bilinear":
                right = (I + Δ / 2 * A) @ state + Δ * b * u[k, h]
                state = np.linalg.solve(I - Δ / 2 * A, right)
            else:
                X = expm(Δ * np.block([[A, b[:, None]],
                                       [np.zeros((1, N + 1))]]))
                state = X[:-1, :-1] @ state + X[:-1, -1] * u[k, h]
            y[k, h] += (c @ state).real
        x[i, h] = state[:M]
    return y, x if bidirectional else x[0]


def bank(rng, measure="legs", bidirectional=False, tied=True):
    Λ, P, B, _ = dplr(measure, N)
    Λ = Λ - (0.01 if measure != "legs" else 0)
    if not tied:
        Λ, P, B = (np.stack([a * (1 + h / 10) for h in range(H)])
                   for a in (Λ, P, B))
    C = rng.normal(size=(2, H, M * (1 + bidirectional)))
    return (Λ, P, B, C[0] + 1j * C[1], rng.normal(size=H),
            np.geomspace(0.01, 0.5, H))


def assert_equal(got, want):
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * max(
            1, np.abs(b).max(initial=0)))


@pytest.mark.parametrize("L", [1, 2, 3, 5, 8, 13, 64])
@pytest.mark.parametrize("method", s4.METHODS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_ways_of_running(L, method, bidirectional):
    """Convolution = recurrence = pieces = dense, with and without x0, mask."""
    rng = np.random.default_rng(L)
    given, u = bank(rng, bidirectional=bidirectional), rng.normal(size=(L, H))
    options = dict(method=method, bidirectional=bidirectional)
    starts = rng.normal(size=(*(2,) * bidirectional, H, M)) + 0j
    for x0, mask in itertools.product((None, starts),
                                      (None, np.arange(L) < L - L // 3)):
        want = dense(*given, u, x0=x0, mask=mask, **options)
        for mode in "convolution", "recurrence":
            run = jax.jit(lambda u, x0, mask: s4.apply_ssm(
                *given, u, x0=x0, mask=mask, mode=mode, **options))
            assert_equal(run(u, x0, mask), want)
        if mask is None and not bidirectional and L > 1:
            first, x = s4.apply_ssm(*given, u[:L // 2], x0=x0, **options)
            rest, x = s4.apply_ssm(*given, u[L // 2:], x0=x, mode="recurrence",
                                   **options)
            assert_equal((np.concatenate([first, rest]), x), want)


@pytest.mark.parametrize("measure", s4.MEASURES)
@pytest.mark.parametrize("tied", [True, False])
def test_measures_tied_and_not(measure, tied):
    rng = np.random.default_rng(1)
    given, u = bank(rng, measure, tied=tied), rng.normal(size=(20, H))
    want = dense(*given, u)
    for mode in "convolution", "recurrence":
        assert_equal(s4.apply_ssm(*given, u, mode=mode), want)


@pytest.mark.parametrize("mode", ["convolution", "recurrence"])
def test_untied_low_rank(mode):
    rng = np.random.default_rng(2)
    given, u = bank(rng, "legt"), rng.normal(size=(20, H))
    Q = given[1] * (1 + 0.1 * rng.normal(size=given[1].shape))
    assert_equal(s4.apply_ssm(*given, u, Q=Q, mode=mode), dense(*given, u, Q=Q))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_masks_rates_and_states_of_a_batch(bidirectional):
    """Each row of a padded batch equals its sequence alone."""
    rng = np.random.default_rng(3)
    given = bank(rng, bidirectional=bidirectional)
    u, steps = rng.normal(size=(2, 9, H)), rng.uniform(0, 2, size=(2, 9))
    mask = np.arange(9) < np.array([[9], [6]])
    x0 = rng.normal(size=(*(2,) * bidirectional, 2, H, M)) + 0j
    y, x = s4.apply_ssm(*given, u, steps=steps, mask=mask, x0=x0, rate=1.5,
                        bidirectional=bidirectional)
    for b in range(2):
        want = dense(*given, u[b], steps=steps[b], mask=mask[b],
                     x0=x0[..., b, :, :], rate=1.5, bidirectional=bidirectional)
        assert_equal((y[b], x[..., b, :, :]), want)


def test_steps_of_one_are_no_steps():
    rng = np.random.default_rng(4)
    given, u = bank(rng), rng.normal(size=(2, 11, H))
    assert_equal(s4.apply_ssm(*given, u, steps=np.ones(11)),
                 s4.apply_ssm(*given, u))


@pytest.mark.parametrize("L", [1, 7, 16])
def test_C_tilde(L):
    rng = np.random.default_rng(5)
    Λ, P, B, C, D, dt = bank(rng)
    u = rng.normal(size=(L, H))
    tilde = np.stack([to_C_tilde(Λ, P, C[h], dt[h], 16)[0] for h in range(H)])
    assert_equal(s4.apply_ssm(Λ, P, B, tilde, D, dt, u, C_tilde=16),
                 dense(Λ, P, B, C, D, dt, u))


@pytest.mark.parametrize("kernel_method", METHODS)
def test_kernels(kernel_method):
    rng = np.random.default_rng(6)
    given, u = bank(rng), rng.normal(size=(33, H))
    assert_equal(s4.apply_ssm(*given, u, kernel_method=kernel_method),
                 dense(*given, u))


@pytest.mark.parametrize("method", s4.METHODS)
def test_step(method):
    rng = np.random.default_rng(7)
    given, u = bank(rng), rng.normal(size=(2, 6, H))
    want, _ = s4.apply_ssm(*given, u, method=method)
    x = np.zeros((2, H, M), complex)
    one = jax.jit(lambda u, x: s4.step(*given, u, x, method=method))
    for k in range(6):
        y, x = one(u[:, k], x)
        assert_equal((y,), (want[:, k],))


def test_no_damping_starts_where_it_can_be_trained():
    for measure in "lagt", "fout":
        parameters = s4.initialize(jax.random.key(0), 2, 8, measure)
        Λ = s4.system(parameters)[0]
        assert Λ.real.max() < 0 and Λ.real.max() >= -1e-3 * (1 + 1e-6)
        assert np.abs(Λ.real).max() < 1
