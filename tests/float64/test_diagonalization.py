"""LegS's eigenvectors: exact integers, true condition numbers, what floats do."""

import math

import numpy as np
import pytest

from annotated_ssm import diagonalization as d
from annotated_ssm.hippo import transition

RATE = 2 * math.log(1 + math.sqrt(2))


def product(X, Y):
    n = range(len(X))
    return [[sum(X[i][k] * Y[k][j] for k in n) for j in n] for i in n]


@pytest.mark.parametrize("N", [1, 2, 5, 16, 40])
def test_lemma_3_2_in_integers(N):
    V = d.eigenvectors_exact(N)
    left = product(d.integer_form(N), V)
    assert left == [[V[i][j] * (j + 1) for j in range(N)] for i in range(N)]


@pytest.mark.parametrize("N", [1, 2, 5, 16, 40])
def test_inverse_in_integers(N):
    identity = [[int(i == j) for j in range(N)] for i in range(N)]
    assert product(d.eigenvectors_exact(N), d.inverse_exact(N)) == identity
    assert product(d.inverse_exact(N), d.eigenvectors_exact(N)) == identity


@pytest.mark.parametrize("N", [1, 6, 20])
def test_integer_form_is_legs(N):
    n = np.arange(N)
    D = (-1.0) ** n * np.sqrt(2 * n + 1)
    A, _ = transition("legs", N)
    np.testing.assert_allclose(-A * D / D[:, None],
                               np.array(d.integer_form(N), float), rtol=1e-14)


@pytest.mark.parametrize("N, entry", [(8, 210), (16, 319770), (32, 1.1e12),
                                      (64, 1.8e25), (128, 7.3e51)])
def test_largest_entry(N, entry):
    largest = float(max(map(max, d.eigenvectors_exact(N))))
    np.testing.assert_allclose(largest, entry, rtol=0.03)


@pytest.mark.parametrize("N, condition", [(8, 7.7e4), (16, 8e10)])
def test_condition_number_in_floats(N, condition):
    """Where it can be computed, it is what others found; the Frobenius norm is
    between the 2-norm's value and N times it."""
    np.testing.assert_allclose(d.condition_number(N), condition, rtol=0.05)
    ratio = d.condition_exact(N) / d.condition_number(N)
    assert 1 <= ratio <= N


def test_condition_number_grows_at_the_derived_rate():
    sizes = (60, 120, 240)
    log = [math.log(d.condition_exact(n)) for n in sizes]
    slopes = np.diff(log) / np.diff(sizes)
    assert abs(slopes[1] - RATE) < abs(slopes[0] - RATE) < 0.02


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reconstruction_fails_where_predicted(dtype):
    """At the predicted size all digits are gone; well below it most are there."""
    eps = np.finfo(dtype).eps
    N = math.ceil(-math.log(eps) / RATE)
    assert d.reconstruction_error(N + 6, dtype) > 1
    small = N // 2
    assert d.reconstruction_error(small, dtype) < eps * math.exp(RATE * small)


def test_pseudospectrum_of_a_normal_matrix_is_a_distance():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(6, 6)) + 1j * rng.normal(size=(6, 6)))[0]
    Λ = rng.normal(size=6) + 1j * rng.normal(size=6)
    x, y = np.linspace(-2, 2, 7), np.linspace(-1, 1, 5)
    z = x + 1j * y[:, None]
    expected = np.abs(z - Λ[:, None, None]).min(0)
    level = d.resolvent_level(Q * Λ @ Q.conj().T, x, y)
    np.testing.assert_allclose(level, expected, atol=1e-13)
