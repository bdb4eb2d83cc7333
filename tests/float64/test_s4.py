"""S4 in every way of running against dense matrices, double precision."""

import itertools
from functools import cache

import jax
import numpy as np
import pytest
from scipy.linalg import expm

from annotated_ssm import s4
from annotated_ssm.cauchy import METHODS, from_C_tilde, to_C_tilde
from annotated_ssm.nplr import dplr

H, N, M = 2, 4, 2


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


LENGTHS = (1, 2, 3, 5, 8, 13, 64)
PIECES = ((1, 1), (1, 2), (2, 3), (3, 5), (5, 8), (13, 51))
SYSTEMS = [(method, both) for method in s4.METHODS for both in (False, True)]


@cache
def compiled(method, bidirectional, mode):
    """A bank, and a function of one compilation for each shape."""
    given = bank(np.random.default_rng(9), bidirectional=bidirectional)
    options = dict(method=method, bidirectional=bidirectional)
    return given, options, jax.jit(lambda u, x0=None, mask=None: s4.apply_ssm(
        *given, u, x0=x0, mask=mask, mode=mode, **options))


def rows(L, lengths, bidirectional):
    """A batch: each length from rest and from a state; what pads is no zero."""
    rng, n = np.random.default_rng(L), 2 * len(lengths)
    x0 = rng.normal(size=(*(2,) * bidirectional, n, H, M, 2)) @ [1, 1j]
    x0[..., ::2, :, :] = 0
    mask = np.arange(L) < np.repeat(lengths, 2)[:, None]
    return rng.normal(size=(n, L, H)), x0, mask


def assert_rows(run, given, options, u, x0, mask):
    y, x = run(u, x0, mask)
    for b, row in enumerate(mask):
        want = dense(*given, u[b], x0=x0[..., b, :, :], mask=row, **options)
        assert_equal((y[b], x[..., b, :, :]), want)


@pytest.mark.parametrize("method, bidirectional", SYSTEMS)
def test_convolution(method, bidirectional):
    """Every length, from rest and from a state, all valid and padded."""
    given, options, run = compiled(method, bidirectional, "convolution")
    for L in (1, 8, 64):                    # as so many valid samples of L
        lengths = [n for n in LENGTHS if n <= L]
        assert_rows(run, given, options, *rows(L, lengths, bidirectional))
    for L in (2, 13) if bidirectional else (2, 3, 5, 13):   # without a mask
        u = np.random.default_rng(L).normal(size=(L, H))
        assert_equal(run(u), dense(*given, u, **options))


@pytest.mark.parametrize("method, bidirectional", SYSTEMS)
def test_recurrence(method, bidirectional):
    """Every length as so many valid samples of 64; and without a mask."""
    given, options, run = compiled(method, bidirectional, "recurrence")
    assert_rows(run, given, options, *rows(64, LENGTHS, bidirectional))
    for L in (1, 8):
        u = np.random.default_rng(L).normal(size=(L, H))
        assert_equal(run(u), dense(*given, u, **options))


@pytest.mark.parametrize("method", s4.METHODS)
def test_pieces(method):
    """A convolution, then either, from its state: the sequence in one."""
    given, options, convolve = compiled(method, False, "convolution")
    recur = compiled(method, False, "recurrence")[2]
    for k, (first, second) in enumerate(PIECES):
        u, x0, _ = rows(64, (64, 64), False)
        def run(one, start, n, x):          # through the programs compiled above
            piece = np.zeros_like(u)
            piece[:, :n] = u[:, start:start + n]
            y, x = one(piece, x, np.arange(64) < np.full((4, 1), n))
            return y[:, :n], x
        y, x = run(convolve, 0, first, x0)
        z, x = run((recur, convolve)[k % 2], first, second, x)
        for b in range(4):
            want = dense(*given, u[b, :first + second], x0=x0[b], **options)
            assert_equal((np.concatenate([y[b], z[b]]), x[b]), want)


@cache
def plain(**options):
    return jax.jit(lambda *given, **more: s4.apply_ssm(*given, **options, **more))


@pytest.mark.parametrize("measure", s4.MEASURES)
@pytest.mark.parametrize("tied", [True, False])
def test_measures_tied_and_not(measure, tied):
    rng = np.random.default_rng(1)
    given, u = bank(rng, measure, tied=tied), rng.normal(size=(20, H))
    want = dense(*given, u)
    for mode in "convolution", "recurrence":
        assert_equal(plain(mode=mode)(*given, u), want)


@pytest.mark.parametrize("mode", ["convolution", "recurrence"])
def test_untied_low_rank(mode):
    rng = np.random.default_rng(2)
    given, u = bank(rng, "legt"), rng.normal(size=(20, H))
    Q = given[1] * (1 + 0.1 * rng.normal(size=given[1].shape))
    assert_equal(plain(mode=mode)(*given, u, Q=Q), dense(*given, u, Q=Q))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_masks_rates_and_states_of_a_batch(bidirectional):
    """Each row of a padded batch equals its sequence alone."""
    rng = np.random.default_rng(3)
    given = bank(rng, bidirectional=bidirectional)
    u, steps = rng.normal(size=(2, 9, H)), rng.uniform(0, 2, size=(2, 9))
    mask = np.arange(9) < np.array([[9], [6]])
    x0 = rng.normal(size=(*(2,) * bidirectional, 2, H, M)) + 0j
    y, x = plain(bidirectional=bidirectional)(
        *given, u, steps=steps, mask=mask, x0=x0, rate=1.5)
    for b in range(2):
        want = dense(*given, u[b], steps=steps[b], mask=mask[b],
                     x0=x0[..., b, :, :], rate=1.5, bidirectional=bidirectional)
        assert_equal((y[b], x[..., b, :, :]), want)


def test_steps_of_one_are_no_steps():
    rng = np.random.default_rng(4)
    given, u = bank(rng), rng.normal(size=(2, 11, H))
    assert_equal(plain()(*given, u, steps=np.ones(11)), plain()(*given, u))


def test_C_tilde():
    """One C̃ of 16 samples serves all lengths up to 16."""
    rng = np.random.default_rng(5)
    Λ, P, B, C, D, dt = bank(rng)
    convert = jax.jit(lambda C, dt: to_C_tilde(Λ, P, C, dt, 16)[0])
    tilde = np.stack([convert(C[h], dt[h]) for h in range(H)])
    for L in 1, 7, 16:
        u = rng.normal(size=(L, H))
        assert_equal(plain(C_tilde=16)(Λ, P, B, tilde, D, dt, u),
                     dense(Λ, P, B, C, D, dt, u))


def test_C_is_never_conjugated():
    """One convention in the formula, the sum over powers and the circle."""
    rng = np.random.default_rng(8)
    Λ, P, B, C, D, dt = bank(rng)
    impulse = np.zeros((16, H))
    impulse[0] = 1
    want = dense(Λ, P, B, C, D, dt, impulse)
    tilde = np.stack([to_C_tilde(Λ, P, C[h], dt[h], 16)[0] for h in range(H)])
    assert_equal(plain()(Λ, P, B, C, D, dt, impulse), want)
    assert_equal(plain(C_tilde=16)(Λ, P, B, tilde, D, dt, impulse), want)
    other = dense(Λ, P, B, C.conj(), D, dt, impulse)
    assert np.abs(other[0] - want[0]).max() > 0.1


def test_learned_as_C_tilde_and_run_as_a_recurrence():
    rng = np.random.default_rng(10)
    Λ, P, B, tilde, D, dt = bank(rng)
    u = rng.normal(size=(16, H))
    want = plain(C_tilde=16)(Λ, P, B, tilde, D, dt, u)
    C, cond = zip(*(from_C_tilde(Λ, P, tilde[h], dt[h], 16) for h in range(H)))
    assert max(cond) < 1e3                  # far from 1e-10/eps
    given = Λ, P, B, np.stack(C), D, dt
    assert_equal(plain(mode="recurrence")(*given, u), want)
    assert_equal(dense(*given, u), want)


@pytest.mark.parametrize("kernel_method", METHODS)
def test_kernels(kernel_method):
    rng = np.random.default_rng(6)
    given, u = bank(rng), rng.normal(size=(33, H))
    assert_equal(plain(kernel_method=kernel_method)(*given, u),
                 dense(*given, u))


@pytest.mark.parametrize("method", s4.METHODS)
def test_step(method):
    rng = np.random.default_rng(7)
    given, u = bank(rng), rng.normal(size=(2, 6, H))
    want, _ = plain(method=method)(*given, u)
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
