"""The split into normal plus low rank, and its unitary diagonalization."""

from pathlib import Path

import numpy as np
import pytest

from annotated_ssm.hippo import MEASURES
from annotated_ssm.nplr import dplr, nplr

REFERENCE = np.load(Path(__file__).parent / "reference.npz")
EPS = np.finfo(float).eps


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("N", [2, 4, 8, 64, 512])
def test_the_normal_part_is_a_multiple_of_one_plus_skew(measure, N):
    A_normal, P, B = nplr(measure, N)
    shift = -0.5 if measure == "legs" else 0.0
    S = A_normal - shift * np.eye(N)
    size = np.abs(P.T @ P).max()     # what was added, and has to cancel
    assert np.abs(S + S.T).max() <= min(8 * EPS * size, 1e-12)
    assert P.shape == (2 if measure == "legt" else 1, N)


@pytest.mark.parametrize("measure, factor", [("legs", 1.0), ("legt", 2.0)])
def test_A_and_B_are_those_of_the_reference(measure, factor):
    # The stored LegT has a window of length 2: A and B are halved.
    A_normal, P, B = nplr(measure, 8)
    np.testing.assert_allclose(
        A_normal - P.T @ P, factor * REFERENCE[f"hippo_{measure}_A"],
        rtol=0, atol=64 * EPS * 15)
    np.testing.assert_allclose(
        B, factor * REFERENCE[f"hippo_{measure}_B"][:, 0], rtol=4 * EPS)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("N", [2, 6, 32, 64])
def test_half_of_the_states_carry_the_whole_matrix(measure, N):
    Λ, P, B, V = dplr(measure, N)
    A_normal, P_real, B_real = nplr(measure, N)
    half = V.conj().T
    size = N * EPS * np.abs(P_real.T @ P_real).max()
    assert Λ.shape == (N // 2,) and (np.diff(Λ.imag) > 0).all()
    assert np.abs(2 * (V @ half).real - np.eye(N)).max() <= 4 * N * EPS
    assert np.abs(2 * ((V * Λ) @ half).real - A_normal).max() <= 4 * size
    assert np.abs(2 * (V @ B).real - B_real).max() <= 4 * size
    assert np.abs(2 * (V @ P.T).real - P_real.T).max() <= 4 * size
    assert np.abs(B.imag).max() <= 4 * size and (B.real >= 0).all()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("N", [2, 6, 7, 33, 64])
def test_all_states(measure, N):
    if measure == "fout":
        N += N % 2
    Λ, P, B, V = dplr(measure, N, conj_sym=False)
    A_normal, P_real, _ = nplr(measure, N)
    size = N * EPS * np.abs(P_real.T @ P_real).max()
    assert np.abs(V.conj().T @ V - np.eye(N)).max() <= 4 * N * EPS
    assert np.abs((V * Λ) @ V.conj().T - A_normal).max() <= 8 * size
    A = V @ (np.diag(Λ) - P.T @ P.conj()) @ V.conj().T
    assert np.abs(A - (A_normal - P_real.T @ P_real)).max() <= 8 * size


def test_real_parts_are_exact_and_the_top_frequency_is_known():
    Λ = dplr("legs", 64)[0]
    assert (Λ.real == -0.5).all()
    assert round(Λ.imag[-1], 2) == 1303.27
    for measure in ("legt", "lagt", "fout"):
        assert (dplr(measure, 64)[0].real == 0).all()


def test_a_pair_of_zero_eigenvalues_is_kept_once():
    Λ, _, _, V = dplr("fout", 16)
    assert Λ[0] == 0 and (Λ.imag[1:] > 1).all()
    real, imag = V[:, 0].real, V[:, 0].imag   # two null vectors, each /√2
    np.testing.assert_allclose(
        [real @ real, imag @ imag, real @ imag], [0.5, 0.5, 0],
        atol=16 * EPS)
    np.testing.assert_allclose(2 * np.pi * np.arange(8), Λ.imag, atol=1e-12)


@pytest.mark.parametrize("N", [8, 64])
def test_against_the_reference(N):
    """Columns of V are free up to a phase: compare what does not have one."""
    Λ, P, B, _ = dplr("legs", N, conj_sym=False)
    other = {k: REFERENCE[f"s5_dplr_hippo_{N}_{k}"] for k in "Lambda P B".split()}
    order = np.argsort(other["Lambda"].imag)
    np.testing.assert_allclose(Λ, other["Lambda"][order], atol=1e-10)
    np.testing.assert_allclose(np.abs(B), np.abs(other["B"][order]), atol=1e-10)
    np.testing.assert_allclose(np.abs(P[0]), np.abs(other["P"][order]),
                               atol=1e-10)
    np.testing.assert_allclose(
        B * P[0].conj(), (other["B"] * other["P"].conj())[order], atol=1e-9)


def test_five_hundred_states():
    """Unitary to rounding, exact real parts, the whole matrix: at any size."""
    N = 512
    Λ, P, B, V = dplr("legs", N)
    A_normal, P_real, _ = nplr("legs", N)
    assert (Λ.real == -0.5).all() and (np.diff(Λ.imag) > 0).all() and Λ.imag[0] > 0
    assert np.abs(2 * (V @ V.conj().T).real - np.eye(N)).max() < 20 * EPS
    assert np.abs(V.conj().T @ V - np.eye(N // 2)).max() < 20 * EPS
    top = np.abs(Λ).max()
    assert np.abs(2 * ((V * Λ) @ V.conj().T).real - A_normal).max() < 10 * EPS * top
    assert np.abs(2 * (V @ P.T).real - P_real.T).max() < N * EPS * np.abs(P_real).max()


@pytest.mark.parametrize("measure", MEASURES)
def test_one_flipped_sign_breaks_theorem_1(measure):
    """The low-rank term's, and that of each entry of its factors."""
    A_normal, P, _ = nplr(measure, 8)
    A = A_normal - P.T @ P
    skewness = lambda M: np.abs(
        M + M.T - (M + M.T).diagonal().mean() * np.eye(8)).max()
    assert skewness(A + P.T @ P) < 1e-13 < 1 < skewness(A - P.T @ P)
    for place in np.argwhere(P):
        wrong = P.copy()
        wrong[tuple(place)] *= -1
        assert skewness(A + wrong.T @ wrong) > 0.5
