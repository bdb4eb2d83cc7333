"""State space models against closed forms and other people's code, in float64."""

from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from annotated_ssm.state_space import (
    DISCRETIZATIONS, causal_convolution, discretize, discretize_diagonal,
    kernel_naive, phi1, recurrence)

EPS = np.finfo(float).eps
REFERENCE = np.load(Path(__file__).parents[1] / "reference.npz")


def spring(m=1.0, c=0.3, k=4.0):
    return np.array([[0, 1], [-k / m, -c / m]]), np.array([0, 1 / m])


def test_double_precision_is_on():
    assert phi1(0.5).dtype == np.float64


def moment(z, m, bits=400):
    """∫ s^m e^{sz} ds over [0, 1]: its series in integers of 400 bits."""
    one = 1 << bits
    re, im = (int(Fraction(part) * one) for part in (z.real, z.imag))
    power, total = (one, 0), [0, 0]
    for k in range(60 + int(4 * abs(z))):
        if k:
            power = ((power[0] * re - power[1] * im) // (k * one),
                     (power[0] * im + power[1] * re) // (k * one))
        total = [t + p // (k + m + 1) for t, p in zip(total, power)]
    return complex(*(float(Fraction(t, one)) for t in total))


@pytest.mark.parametrize("direction", [1, -1, 1j, np.exp(0.5j), np.exp(2.2j)])
def test_phi1_and_its_derivatives(direction):
    r = np.array([0, 1e-30, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 0.99, 1.01, 2, 5, 10])
    z, f = r * direction, phi1
    for m, multiple in enumerate([4, 4, 12]):
        true = np.array([moment(complex(z_k), m) for z_k in z])
        error = np.abs(f(jnp.asarray(z)) - true) / np.abs(true)
        assert np.max(error) <= multiple * EPS
        f = (lambda g: lambda z: jax.jvp(g, (z,), (jnp.ones_like(z),))[1])(f)


def test_phi1_second_derivative_of_a_complex_loss():
    def loss(p):
        return jnp.abs(phi1(jax.lax.complex(p[0], p[1])))**2

    p, h = jnp.array([-0.3, 0.7]), 1e-4
    H = jax.hessian(loss)(p)
    for i in range(2):
        d = h * jnp.eye(2)[i]
        difference = (jax.grad(loss)(p + d) - jax.grad(loss)(p - d)) / (2 * h)
        np.testing.assert_allclose(H[i], difference, atol=1e-8)


def test_zoh_is_scipy_s():
    A, B = spring()
    A_bar, B_bar = discretize(A, B, 0.1)
    np.testing.assert_allclose(A_bar, scipy.linalg.expm(0.1 * A), atol=1e-14)
    integral = np.linalg.solve(A, (scipy.linalg.expm(0.1 * A) - np.eye(2)) @ B)
    np.testing.assert_allclose(B_bar, integral, atol=1e-14)


def test_zoh_of_a_singular_matrix():
    A = np.array([[0.0, 1.0], [0.0, 0.0]])
    A_bar, B_bar = discretize(A, np.array([0.0, 1.0]), 0.5)
    np.testing.assert_allclose(A_bar, [[1, 0.5], [0, 1]], atol=EPS)
    np.testing.assert_allclose(B_bar, [0.125, 0.5], atol=EPS)


def orders(method, input_at):
    """Slopes of the largest error of x' = −x + sin 3t as the step is halved."""
    exact = lambda t: (np.sin(3 * t) - 3 * np.cos(3 * t) + 3 * np.exp(-t)) / 10
    errors = []
    for n in (100, 200, 400):
        dt = 2 / n
        t = dt * np.arange(n)
        Λ_bar, B_bar = discretize_diagonal(-np.ones(1), np.ones(1), dt, method)
        u = {"start": np.sin(3 * t), "end": np.sin(3 * (t + dt)),
             "average": (np.sin(3 * t) + np.sin(3 * (t + dt))) / 2}[input_at]
        y, _ = recurrence(Λ_bar, B_bar, np.ones(1), 0.0, u)
        errors.append(np.max(np.abs(y - exact(t + dt))))
    return np.log2(errors[0] / errors[1]), np.log2(errors[1] / errors[2])


@pytest.mark.parametrize("method, input_at, order", [
    ("euler", "start", 1), ("backward_euler", "end", 1), ("bilinear", "start", 1),
    ("bilinear", "end", 1), ("bilinear", "average", 2), ("zoh", "start", 1),
    ("zoh", "average", 2)])
def test_order_of_accuracy(method, input_at, order):
    assert np.allclose(orders(method, input_at), order, atol=0.1)


@pytest.mark.parametrize("method", DISCRETIZATIONS)
def test_similarity_changes_nothing(method):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5)) - 5 * np.eye(5)
    B, C, u = rng.standard_normal((5, 2)), rng.standard_normal((3, 5)), \
        rng.standard_normal((20, 2))
    V = rng.standard_normal((5, 5)) + 1j * rng.standard_normal((5, 5))
    solve = lambda X: np.linalg.solve(V, X)
    alpha = 0.7 if method == "gbt" else 0.5
    one = discretize(A, B, 0.1, method, alpha)
    two = discretize(solve(A @ V), solve(B), 0.1, method, alpha)
    tol = 100 * EPS * np.linalg.cond(V)
    np.testing.assert_allclose(two[0], solve(one[0] @ V), atol=tol)
    np.testing.assert_allclose(two[1], solve(one[1]), atol=tol)
    D = rng.standard_normal((3, 2))
    np.testing.assert_allclose(recurrence(*two, C @ V, D, u)[0],
                               recurrence(*one, C, D, u)[0], atol=tol)
    np.testing.assert_allclose(kernel_naive(*two, C @ V, 20),
                               kernel_naive(*one, C, 20), atol=tol)


def test_the_spring_follows_its_closed_form():
    m, c, k, dt, n = 1.0, 0.3, 4.0, 0.05, 400
    A, B = spring(m, c, k)
    y, _ = recurrence(*discretize(A, B, dt), np.array([1.0, 0.0]), 0.0, np.ones(n))
    t = dt * np.arange(1, n + 1)
    γ, ω = c / (2 * m), np.sqrt(k / m - (c / (2 * m))**2)
    exact = (1 - np.exp(-γ * t) * (np.cos(ω * t) + γ / ω * np.sin(ω * t))) / k
    np.testing.assert_allclose(y, exact, atol=1e-13)


def test_dense_bilinear_kernel_of_annotated_s4():
    Ab, Bb, Cb = (REFERENCE[f"as4_16_100_{x}"] for x in ("Ab", "Bb", "Cb"))
    K = kernel_naive(Ab, Bb, Cb, 100)[:, 0, 0]
    np.testing.assert_allclose(K, REFERENCE["as4_16_100_K"], atol=1e-10)
    Λ, P, B = (REFERENCE[f"as4_16_100_{x}"] for x in ("Lambda", "P", "B"))
    step = float(REFERENCE["as4_16_100_step"])
    A_bar, B_bar = discretize(np.diag(Λ) - np.outer(P, P.conj()), B, step, "bilinear")
    np.testing.assert_allclose(A_bar, Ab, atol=1e-12)
    np.testing.assert_allclose(B_bar, Bb[:, 0], atol=1e-12)


@pytest.mark.parametrize("name, method", [
    ("s4d_diag-lin_zoh", "zoh"), ("s4d_diag-inv_bilinear", "bilinear")])
def test_diagonal_kernels_of_s4(name, method):
    Λ, B, C, dt, K = (REFERENCE[f"{name}_{x}"] for x in ("Lambda", "B", "C", "dt", "K"))
    for h in range(2):
        A_bar, B_bar = discretize_diagonal(Λ[h], B[0, h], float(dt[h, 0]), method)
        ours = kernel_naive(A_bar, B_bar, 2 * C[0, h], K.shape[-1])
        np.testing.assert_allclose(ours, K[0, h], atol=1e-10)


def test_s5_layer_of_lindermanlab():
    Λ, B, C, D, log_step, u, y = (REFERENCE[f"s5_zoh_conj_{x}"] for x in (
        "Lambda", "B", "C", "D", "log_step", "u", "y"))
    A_bar, B_bar = discretize_diagonal(Λ, B, np.exp(log_step))
    ours, _ = recurrence(A_bar, B_bar, 2 * C, D, u)
    np.testing.assert_allclose(ours, y, atol=1e-10)
    K = kernel_naive(A_bar, B_bar, 2 * C, len(u))
    np.testing.assert_allclose(causal_convolution(u, K) + D * u, y, atol=1e-10)
