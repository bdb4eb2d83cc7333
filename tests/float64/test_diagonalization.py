"""LegS's eigenvectors: exact integers, true condition numbers, what floats do."""

import math

import numpy as np
import pytest
from scipy.linalg import expm

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


def wrong_signs(X):
    """Copies of X, each with the sign of one nonzero entry turned."""
    for i, row in enumerate(X):
        for j, value in enumerate(row):
            if value:
                wrong = [list(r) for r in X]
                wrong[i][j] = -value
                yield wrong


def test_one_flipped_sign_breaks_lemma_3_2():
    N = 6
    M, V, W = d.integer_form(N), d.eigenvectors_exact(N), d.inverse_exact(N)
    scaled = [[v * (j + 1) for j, v in enumerate(row)] for row in V]
    identity = [[int(i == j) for j in range(N)] for i in range(N)]
    assert product(M, V) == scaled and product(V, W) == identity
    for wrong in wrong_signs(V):
        right = [[v * (j + 1) for j, v in enumerate(row)] for row in wrong]
        # The last column has one entry: turned whole, it stays an eigenvector.
        assert product(M, wrong) != right or wrong[-1][-1] != V[-1][-1]
        assert product(wrong, W) != identity
    assert all(product(wrong, V) != scaled for wrong in wrong_signs(M))
    assert all(product(V, wrong) != identity for wrong in wrong_signs(W))


def test_row_sums_are_every_other_fibonacci_number():
    F = [0, 1]
    for _ in range(80):
        F.append(F[-1] + F[-2])
    V = d.eigenvectors_exact(40)
    assert [sum(row) for row in V] == F[1:80:2]
    others = [sum(math.comb(i + j, 2 * j + 1) for j in range(40)) for i in range(40)]
    assert others == F[0:80:2]


def test_growth_is_above_the_papers_bound_and_below_the_golden_one():
    golden = 2 * math.log2((1 + 5**0.5) / 2)
    for N in (32, 128, 512):
        j = (N - 1) // 3
        top = math.log2(max(d.eigenvectors_exact(N)[-1]))
        estimate = 4 * j - math.log2(2 * math.pi * j) / 2       # Stirling
        assert abs(math.log2(math.comb(4 * j, 2 * j)) - estimate) < 0.2 / j
        assert estimate < top < golden * N
    assert top > 4 / 3 * N             # and in the end above 2^{4N/3} itself


def test_computed_condition_numbers_saturate():
    np.testing.assert_allclose(math.log10(d.condition_number(24)), 17, atol=0.7)
    assert d.condition_exact(64) > 1e45 and d.condition_number(64) > 1e16


def test_reconstruction_of_the_sizes_in_between():
    """3e-11 at N = 8, 1e-5 at 16, broken at 24; float32 is broken at 16."""
    assert 1e-13 < d.reconstruction_error(8) < 1e-9
    assert 1e-7 < d.reconstruction_error(16) < 1e-3
    assert d.reconstruction_error(24) > 1
    assert d.reconstruction_error(16, "float32") > 1
    assert d.reconstruction_error(8, "float16") > 1


def test_each_eigenvector_is_computed_well_and_their_basis_is_useless():
    N = 20
    A, _ = transition("legs", N)
    Λ, V = np.linalg.eig(A)
    n = np.arange(N)
    exact = np.array(d.eigenvectors_exact(N), float) * np.sqrt(2 * n + 1)[:, None]
    exact *= (-1.0) ** n[:, None] / np.linalg.norm(exact, axis=0)
    cosine = np.abs((V[:, np.argsort(-Λ)] * exact).sum(0))
    np.testing.assert_allclose(cosine, 1, atol=1e-13)
    assert np.linalg.cond(exact) > 1e13


def test_lemma_B_1():
    for N in (16, 64):
        largest = max(math.comb(N, k) for k in range(N + 1))
        np.testing.assert_allclose(float(largest), 2.0**N * math.sqrt(2 / (math.pi * N)),
                                   rtol=0.5 / N)
        L = N - 1
        inverse = [math.comb(N + k - 1, k) for k in range(L)]
        assert max(inverse) == math.comb(N + L - 2, L - 1)
        np.testing.assert_allclose(
            float(max(inverse)), 2.0 ** (2 * N - 3) / math.sqrt(math.pi * N), rtol=1 / N)
        p = [(-1) ** k * math.comb(N, k) for k in range(L)]
        unit = [sum(p[j] * inverse[k - j] for j in range(k + 1)) for k in range(L)]
        assert unit == [1] + [0] * (L - 1)
        p[1] *= -1
        assert sum(p[j] * inverse[1 - j] for j in range(2)) != 0


def test_legs_is_far_from_normal_and_never_grows():
    A, B = transition("legs", 16)
    normal = A + np.outer(B, B) / 2
    size = np.linalg.norm(A) ** 2
    assert np.linalg.norm(A @ A.T - A.T @ A) > 0.5 * size
    assert np.linalg.norm(normal @ normal.T - normal.T @ normal) < 1e-13 * size
    for t in (0.01, 0.1, 1.0):
        assert np.linalg.norm(expm(t * A), 2) <= math.exp(-t / 2) + 1e-12
