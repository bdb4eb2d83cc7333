"""HiPPO against reference values, closed forms and quadrature."""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

from annotated_ssm import hippo

REFERENCE = np.load(Path(__file__).parents[1] / "reference.npz")
EPS = np.finfo(float).eps


@pytest.mark.parametrize("measure, scale", [("legs", 1.0), ("legt", 0.5)])
def test_matrices_are_the_reference_implementations(measure, scale):
    """Its LegT has a window of 2: half of ours."""
    A, B = hippo.transition(measure, 8)
    np.testing.assert_allclose(scale * A, REFERENCE[f"hippo_{measure}_A"], atol=1e-13)
    np.testing.assert_allclose(scale * B, REFERENCE[f"hippo_{measure}_B"][:, 0],
                               atol=1e-13)


@pytest.mark.parametrize("measure", hippo.MEASURES)
@pytest.mark.parametrize("N", [2, 8, 30])
def test_bases_are_orthonormal(measure, N):
    x, w = hippo.quadrature(measure, N)
    g = hippo.basis(measure, N, x)
    expected = np.eye(N)
    if measure == "fout":
        expected[1, 1] = 0
    np.testing.assert_allclose((g * w) @ g.T, expected, atol=1e-12 * N)


@pytest.mark.parametrize("measure", ["legs", "lagt"])
@pytest.mark.parametrize("N", [1, 4, 16])
@pytest.mark.parametrize("t", [0.4, 1.0, 3.0])
def test_exact_measures_obey_their_equation(measure, N, t):
    """The derivative by a complex step: no differences, no truncation."""
    u = lambda s: np.sin(3 * s) + np.cos(0.7 * s)
    A, B = hippo.transition(measure, N)
    rate = hippo.project(measure, N, u, t + 1e-30j).imag / 1e-30
    right = A @ hippo.project(measure, N, u, t) + B * u(t)
    norm = np.abs(A).sum(1).max()
    np.testing.assert_allclose(rate, right / (t if measure == "legs" else 1.0),
                               atol=400 * EPS * norm / min(t, 1))


@pytest.mark.parametrize("N", [2, 5, 12])
def test_legt_is_exact_below_degree_N(N):
    u = np.polynomial.Polynomial(np.random.default_rng(N).normal(size=N))
    A, B = hippo.transition("legt", N)
    rate = hippo.project("legt", N, u, 1.5 + 1e-30j).imag / 1e-30
    c = hippo.project("legt", N, u, 1.5)
    scale = np.abs(A).sum(1).max() * max(1, np.abs(c).max())
    np.testing.assert_allclose(rate, A @ c + B * u(1.5), atol=400 * EPS * scale)


def test_fourier_converges_with_the_number_of_harmonics():
    u = lambda s: np.sin(3 * s)
    errors = []
    for K in (5, 20, 80):
        N = 2 * (K + 1)
        A, B = hippo.transition("fout", N)
        rate = hippo.project("fout", N, u, 1.3 + 1e-30j).imag / 1e-30
        errors.append(np.abs(rate - A @ hippo.project("fout", N, u, 1.3)
                             - B * u(1.3)).max())
    slopes = np.log(np.divide(errors[1:], errors[:-1])) / np.log(4)
    np.testing.assert_allclose(slopes, -1, atol=0.15)


@pytest.mark.parametrize("N", [1, 8, 16])
def test_kernels_are_warped_legendre_polynomials(N):
    A, B = hippo.transition("legs", N)
    for x in (0.0, 0.1, 1.0, 4.0):
        closed = np.exp(-x) * hippo.basis("legs", N, [1 - np.exp(-x)])[:, 0]
        np.testing.assert_allclose(expm(x * A) @ B, closed, atol=1e-9)


@pytest.mark.parametrize("N", [1, 2, 7, 64])
@pytest.mark.parametrize("h", [0.0, 0.01, 0.5])
def test_linear_time_products_and_solves(N, h):
    A, _ = hippo.transition("legs", N)
    x = np.random.default_rng(N).normal(size=N)
    scale = np.abs(A).sum(1).max()
    np.testing.assert_allclose(hippo.legs_multiply(x), A @ x, atol=10 * N * EPS * scale)
    np.testing.assert_allclose(hippo.legs_solve(x, h),
                               np.linalg.solve(np.eye(N) - h * A, x),
                               atol=100 * EPS * N * (1 + h * scale))


@pytest.mark.parametrize("N", [1, 5, 40])
def test_fast_step_is_the_dense_step(N):
    samples = np.random.default_rng(0).normal(size=60)
    c = np.zeros(N)
    for k, value in enumerate(samples, 1):
        c = hippo.legs_step(c, value, k)
    np.testing.assert_allclose(c, hippo.online_naive("legs", samples, N)[-1], atol=1e-11)


@pytest.mark.parametrize("measure", hippo.MEASURES)
def test_online_tends_to_the_projection(measure):
    """First order in the step, whatever the measure."""
    u = lambda s: np.sin(4 * s) * np.exp(-((s - 1.2) ** 2) / 0.02)
    gaps = []
    for L in (400, 800):
        s = np.arange(1, L + 1) * 1.5 / L
        c = hippo.online_naive(measure, u(s), 6, 1.5 / L)[-1]
        target = hippo.project(measure, 6, u, 1.5)
        gaps.append(np.abs(c - target).max())
    if measure in ("legs", "lagt"):
        assert 1.6 < gaps[0] / gaps[1] < 2.5
    else:
        assert gaps[1] < 0.15           # what closing the equation costs


def test_reconstruction_error_of_the_standard_signal():
    k = np.arange(1, 1001) / 1000
    u = np.sin(6 * np.pi * k) + 0.5 * np.cos(14 * np.pi * k)
    for N, expected in {16: 0.366, 32: 0.0109, 64: 0.0088}.items():
        r = hippo.reconstruct("legs", hippo.online_naive("legs", u, N)[-1], k)
        error = np.linalg.norm(r - u) / np.linalg.norm(u)
        np.testing.assert_allclose(error, expected, rtol=0.01)


def sensed(measure, A, B):
    """How far c' = Ac + Bu is off, for a signal for which it is exact."""
    N, t = len(B), 1.3
    signals = {"legt": lambda s: 1 - 2 * s + s**2 - 0.7 * s**5,
               "fout": lambda s: 1 + sum(np.cos(2 * np.pi * k * s) / (k + 1)
                                         - np.sin(2 * np.pi * k * s) for k in (1, 2))}
    u = signals.get(measure, lambda s: np.sin(3 * s) + np.cos(0.7 * s))
    rate = hippo.project(measure, N, u, t + 1e-30j).imag / 1e-30
    right = A @ hippo.project(measure, N, u, t) + B * u(t)
    return np.abs(rate - right / (t if measure == "legs" else 1.0)).max()


@pytest.mark.parametrize("measure", hippo.MEASURES)
def test_one_flipped_sign_breaks_the_equation(measure):
    """Each entry of A and of B, one after the other."""
    N = 6
    A, B = hippo.transition(measure, N)
    right = sensed(measure, A, B)
    assert right < 400 * EPS * np.abs(A).sum(1).max()
    flipped = 0
    for place in np.argwhere(A):
        wrong = A.copy()
        wrong[tuple(place)] *= -1
        assert sensed(measure, wrong, B) > 1e6 * right, place
        flipped += 1
    for n in np.flatnonzero(B):
        wrong = B.copy()
        wrong[n] *= -1
        assert sensed(measure, A, wrong) > 1e6 * right, n
    assert flipped == {"legs": 21, "legt": 36, "lagt": 21, "fout": 13}[measure]


def test_the_three_moving_parts_of_legs():
    """Moving end, moving basis, moving weight, by quadrature, one by one."""
    u, t, N = lambda s: np.sin(3 * s) + np.cos(0.7 * s), 1.3, 7
    A, B = hippo.transition("legs", N)
    x, w = hippo.quadrature("legs", N)
    c = hippo.project("legs", N, u, t)
    # ∂g/∂t at a fixed time s, by a complex step through the polynomials
    z = 2 * (t - t * x) / (t + 1e-30j) - 1
    g = [np.sqrt(2 * n + 1) * np.polynomial.legendre.Legendre.basis(n)(z)
         for n in range(N)]
    basis_moves = (np.imag(g) / 1e-30 * w) @ u(t - t * x)
    np.testing.assert_allclose(basis_moves, (A + np.eye(N)) @ c / t, atol=1e-12)
    whole = B * u(t) / t + basis_moves - c / t
    rate = hippo.project("legs", N, u, t + 1e-30j).imag / 1e-30
    np.testing.assert_allclose(whole, rate, atol=1e-12)


def test_legs_does_not_know_the_unit_of_time():
    u = lambda s: np.sin(5 * s) + 0.3 * np.cos(11 * s)
    one, slower = (hippo.project("legs", 9, lambda s: u(s / k), 1.3 * k) for k in (1, 60))
    np.testing.assert_allclose(slower, one, atol=1e-13)
    one, slower = (hippo.project("legt", 9, lambda s: u(s / k), 1.3 * k) for k in (1, 60))
    assert np.abs(slower - one).max() > 0.1


def test_a_finer_memory_does_not_help_other_rules():
    """The standard signal with N = 64: Euler's rule, and held input exactly."""
    A, B = hippo.transition("legs", 64)
    k = np.arange(1, 1001) / 1000
    u = np.sin(6 * np.pi * k) + 0.5 * np.cos(14 * np.pi * k)
    euler, held = np.zeros((2, 64))
    for j, value in enumerate(u, 1):
        euler = euler + (A @ euler + B * value) / j
        E = expm(np.log(j / (j - 1)) * A) if j > 1 else np.zeros((64, 64))
        held = E @ held + np.linalg.solve(A, E @ B - B) * value
    for c, expected in (euler, 0.0942), (held, 0.0129):
        error = np.linalg.norm(hippo.reconstruct("legs", c, k) - u) / np.linalg.norm(u)
        np.testing.assert_allclose(error, expected, rtol=0.01)


def test_closing_errors():
    u = lambda s: np.sin(3 * s)
    for measure, N, expected in (("legt", 5, 0.0140), ("fout", 10, 0.129),
                                 ("fout", 40, 0.0297), ("fout", 80, 0.0147)):
        A, B = hippo.transition(measure, N)
        rate = hippo.project(measure, N, u, 1.3 + 1e-30j).imag / 1e-30
        error = np.abs(rate - A @ hippo.project(measure, N, u, 1.3) - B * u(1.3)).max()
        np.testing.assert_allclose(error, expected, rtol=0.01)


def test_kernels_of_the_other_measures():
    """Laguerre functions exactly; a window only in the limit of large N."""
    x = np.linspace(0, 2, 101)
    A, B = hippo.transition("lagt", 8)
    for shift in (0.0, 0.5):             # tilted and untilted
        k = np.array([expm(a * (A - shift * np.eye(8))) @ B for a in x]).T
        np.testing.assert_allclose(
            k, np.exp(-shift * x) * hippo.basis("lagt", 8, x), atol=1e-12)
    for measure, n in ("legt", 0), ("fout", 3):
        misses = []
        for N in (8, 32):
            A, B = hippo.transition(measure, N)
            k = np.array([expm(a * A) @ B for a in x])[:, n]
            misses.append(np.linalg.norm(k - hippo.basis(measure, N, x)[n]))
        assert misses[1] < 0.65 * misses[0]             # about 1/√N


def test_misreadings():
    """LegT isn't triangular; an old sample leaves most in the last coefficients."""
    A, _ = hippo.transition("legt", 6)
    assert abs(np.triu(A, 1)).max() > 9.9 and np.linalg.eigvals(A).imag.any()
    A, B = hippo.transition("legs", 16)
    late = np.abs(expm(15 * A) @ B)
    np.testing.assert_allclose(late / late[0], np.sqrt(2 * np.arange(16) + 1), rtol=1e-3)
