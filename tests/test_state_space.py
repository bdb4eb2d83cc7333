"""State space models in float32: accuracy, shapes, transformations, gradients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm.hippo import transition
from annotated_ssm.state_space import (
    DISCRETIZATIONS, causal_convolution, discretize, discretize_diagonal,
    kernel_naive, phi1, recurrence)

EPS = np.finfo(np.float32).eps
MAGNITUDES = [0, 1e-30, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.99, 1.01,
              2, 5, 10]
DIRECTIONS = [1, -1, 1j, -1j, np.exp(0.5j), np.exp(2.2j)]


def moment(z, m):
    """∫ s^m e^{sz} ds over [0, 1] in float64: its series, or 60-point Gauss."""
    s, w = np.polynomial.legendre.leggauss(60)
    s, w = (s + 1) / 2, w / 2
    return np.exp(np.multiply.outer(np.asarray(z, complex), s)) @ (w * s**m)


def line(direction, dtype=np.float32):
    z = np.asarray(MAGNITUDES) * direction
    wide = np.iscomplexobj(z)
    return z.astype(np.result_type(dtype, np.complex64) if wide else dtype)


def system(key=0, N=4, H=None, M=None):
    """A random stable real system A, B, C."""
    rng = np.random.default_rng(key)
    A = rng.standard_normal((N, N)) - 2 * np.sqrt(N) * np.eye(N)
    B = rng.standard_normal((N,) if H is None else (N, H))
    C = rng.standard_normal((N,) if M is None else (M, N))
    return A, B, C


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_phi1_and_its_derivatives(direction):
    z = line(direction)
    derivative = lambda f: lambda z: jax.jvp(f, (z,), (jnp.ones_like(z),))[1]
    f, multiples = phi1, (4, 4, 12)
    for m, multiple in enumerate(multiples):
        value, true = f(jnp.asarray(z)), moment(z, m)
        assert value.dtype == z.dtype
        assert np.max(np.abs(value - true) / np.abs(true)) <= multiple * EPS
        f = derivative(f)


def test_phi1_gradient_is_one_half_at_zero():
    assert jax.grad(phi1)(0.0) == 0.5
    assert jax.grad(phi1, holomorphic=True)(0j) == 0.5
    assert abs(jax.grad(jax.grad(phi1))(0.0) - 1 / 3) <= EPS
    assert abs(jax.hessian(phi1)(-1e-6) - 1 / 3) <= 2e-6
    batch = jnp.zeros((2, 3))
    assert jnp.all(jax.jit(jax.vmap(jax.vmap(jax.grad(phi1))))(batch) == 0.5)


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 1e-2, 1e-1])
def test_phi1_where_it_is_used(dt):
    λ = np.concatenate([-np.logspace(-8, 2, 41), [-0.5, 0.0]])
    Λ = (λ + 1j * np.linspace(0, 1303, len(λ))).astype(np.complex64)
    z = Λ * np.float32(dt)
    true = np.expm1(z.astype(complex)) / np.where(z == 0, 1, z)
    true = np.where(z == 0, 1, true)
    assert np.max(np.abs(phi1(z) - true) / np.abs(true)) <= 3e-6


@pytest.mark.parametrize("z", [0.5, np.float32(0.5), np.zeros(()), np.ones((2, 1, 3)),
                               jnp.ones(2, jnp.complex64)])
def test_phi1_takes_any_shape(z):
    assert phi1(z).shape == np.shape(z)


def test_zoh_of_a_slow_mode_in_float32():
    Λ, B = np.array([-1e-6, 0], np.float32), np.ones(2, np.float32)
    _, B_bar = discretize_diagonal(Λ, B, 0.1)
    assert np.max(np.abs(B_bar - 0.1)) <= EPS


@pytest.mark.parametrize("compiled", [False, True])
def test_zoh_of_fast_modes_in_float32(compiled):
    """Steps of 1e-4 to 1e-1 of all modes of HiPPO, P = 64: the product of two
    rounded numbers turns by up to 130 radians and still loses nothing."""
    ω = np.geomspace(0.26, 1303.27, 32)
    Λ = (-0.5 + 1j * ω).astype(np.complex64)
    run = jax.vmap(lambda dt: discretize_diagonal(Λ, jnp.ones(32), dt))
    dt = np.geomspace(1e-4, 1e-1, 2001, dtype=np.float32)
    Λ_bar, gain = (jax.jit(run) if compiled else run)(dt)
    wide = Λ.astype(complex)
    z = wide * dt[:, None]
    assert np.max(np.abs(Λ_bar / np.exp(z) - 1)) <= 5e-7
    assert np.max(np.abs(gain / (np.expm1(z) / wide) - 1)) <= 5e-7


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 1e-2, 0.1, 1])
@pytest.mark.parametrize("modes", [
    1j * np.geomspace(1e-6, 1, 500), -0.5 + 1j * np.geomspace(1, 1303, 500),
    -np.geomspace(1e-3, 60, 500) + 0j], ids=["slow", "fast", "decaying"])
def test_zoh_derivatives_in_float32(dt, modes):
    """By Λ and by Δ, of modes that hardly move, turn by up to 1303 radians, or
    are almost gone: relative, mode by mode."""
    Λ = (modes if modes[-1].imag else modes / dt).astype(np.complex64)
    Δ, wide = np.full(len(Λ), dt, np.float32), Λ.astype(np.clongdouble)
    system = lambda Λ, Δ: discretize_diagonal(Λ, jnp.ones(len(Λ)), Δ)
    (e, g), by_Λ = jax.jvp(lambda Λ: system(Λ, Δ), (Λ,), (np.ones_like(Λ),))
    by_Δ = jax.jvp(lambda Δ: system(Λ, Δ), (Δ,), (np.ones_like(Δ),))[1]
    step = Δ.astype(np.longdouble)
    z = wide * step
    exact_e, exact_g = np.exp(z), np.expm1(z) / wide
    series = step**2 * (1 / 2 + z / 3 + z**2 / 8)          # |z|³/30 < 1e-10
    slope = np.where(abs(z) < 1e-3, series, (step * exact_e - exact_g) / wide)
    for found, exact in ((e, exact_e), (g, exact_g), (by_Λ[0], step * exact_e),
                         (by_Λ[1], slope), (by_Δ[0], wide * exact_e),
                         (by_Δ[1], exact_e)):
        assert np.max(np.abs(np.asarray(found) - exact) / np.abs(exact)) <= 6 * EPS


@pytest.mark.parametrize("method", DISCRETIZATIONS)
@pytest.mark.parametrize("H", [None, 3])
def test_diagonal_equals_dense(method, H):
    _, B, _ = system(1, N=4, H=H)
    Λ = np.array([-0.5 + 1j, -0.5 - 1j, -2, 0], np.complex64)
    B = B.astype(np.complex64)
    alpha = 0.3 if method == "gbt" else 0.5
    dense = discretize(np.diag(Λ), B, 0.2, method, alpha)
    diagonal = discretize_diagonal(Λ, B, 0.2, method, alpha)
    assert dense[1].shape == diagonal[1].shape == B.shape
    np.testing.assert_allclose(dense[0], np.diag(diagonal[0]), atol=8 * EPS)
    np.testing.assert_allclose(dense[1], diagonal[1], atol=8 * EPS)


@pytest.mark.parametrize("method", DISCRETIZATIONS)
def test_a_step_per_state(method):
    Λ = np.array([-1, -2 + 3j], np.complex64)
    B = np.ones((2, 3), np.complex64)
    dt = np.array([0.1, 0.02], np.float32)
    together = discretize_diagonal(Λ, B, dt, method)
    for p in range(2):
        alone = discretize_diagonal(Λ[p:p + 1], B[p:p + 1], dt[p], method)
        np.testing.assert_allclose(together[0][p], alone[0][0], rtol=4 * EPS)
        np.testing.assert_allclose(together[1][p], alone[1][0], rtol=4 * EPS)


@pytest.mark.parametrize("method", ["zoh", "bilinear", "backward_euler"])
@settings(derandomize=True, deadline=None, max_examples=30)
@given(re=st.floats(-50, -0.01), im=st.floats(-50, 50), dt=st.floats(1e-3, 1))
def test_stable_stays_stable(method, re, im, dt):
    Λ_bar, _ = discretize_diagonal(
        np.array([complex(re, im)], np.complex64), np.ones(1, np.complex64), dt,
        method)
    assert abs(Λ_bar[0]) < 1


@pytest.mark.parametrize("method", DISCRETIZATIONS)
def test_gradients_are_finite_and_right(method):
    A, B, C = system(2)
    u = np.sin(np.arange(12.0)).astype(np.float32)

    def loss(A, B, dt):
        A_bar, B_bar = discretize(A, B, dt, method)
        return jnp.sum(recurrence(A_bar, B_bar, jnp.asarray(C), 0.3, u)[0]**2)

    arguments = [jnp.asarray(A), jnp.asarray(B), jnp.asarray(0.05)]
    gradients = jax.grad(loss, argnums=(0, 1, 2))(*arguments)
    rng = np.random.default_rng(3)
    for i, gradient in enumerate(gradients):
        d = rng.standard_normal(arguments[i].shape).astype(np.float32)
        d *= 1e-2 * np.linalg.norm(arguments[i]) / np.linalg.norm(d)
        up, down = [[a + s * d if j == i else a for j, a in enumerate(arguments)]
                    for s in (1, -1)]
        slope = (loss(*up) - loss(*down)) / 2
        # The step of 1% leaves a relative error of 1e-4 · (third derivative).
        np.testing.assert_allclose(jnp.sum(gradient * d), slope, rtol=1e-2,
                                   atol=1e-4)


@pytest.mark.parametrize("H, M", [(None, None), (3, 2), (None, 2), (3, None)])
@pytest.mark.parametrize("diagonal", [False, True])
def test_recurrence_equals_a_loop(H, M, diagonal):
    A, B, C = system(4, N=4, H=H, M=M)
    A_bar = np.exp([-0.1 + 1j, -0.1 - 1j, -0.5, -2]) if diagonal else 0.1 * A
    rng = np.random.default_rng(5)
    u = rng.standard_normal((9,) if H is None else (9, H)).astype(np.float32)
    D = rng.standard_normal(C.shape[:-1] + B.shape[1:])
    x0 = rng.standard_normal(4) + 1j * rng.standard_normal(4)
    y, x_last = recurrence(A_bar, B, C, D, u, x0)
    x, dense = x0, np.diag(A_bar) if diagonal else A_bar
    for k in range(9):
        x = dense @ x + B.dot(u[k])
        expected = (C @ x).real + np.dot(D, u[k])
        np.testing.assert_allclose(y[k], expected, atol=2e-5)
    np.testing.assert_allclose(x_last, x, atol=2e-5)
    assert y.dtype == np.float32 and y.shape == (9,) + C.shape[:-1]


def test_recurrence_can_stop_and_go_on():
    A, B, C = system(6)
    A_bar, B_bar = discretize(A, B, 0.1)
    u = np.sin(np.arange(20.0)).astype(np.float32)
    y, x_last = recurrence(A_bar, B_bar, C, 0.5, u)
    first, x = recurrence(A_bar, B_bar, C, 0.5, u[:7])
    second, x = recurrence(A_bar, B_bar, C, 0.5, u[7:], x)
    np.testing.assert_array_equal(jnp.concatenate([first, second]), y)
    np.testing.assert_array_equal(x, x_last)


def test_direct_term_per_feature():
    A, B, C = system(7, H=3, M=3)
    u = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    run = partial(recurrence, 0.1 * A, B, C, u=u)
    D = np.array([1.0, -2, 3], np.float32)
    np.testing.assert_allclose(run(D=D)[0], run(D=np.diag(D))[0], atol=1e-6)
    np.testing.assert_allclose(run(D=2.0)[0], run(D=2 * np.eye(3))[0], atol=1e-6)


def test_an_empty_sequence_leaves_the_state():
    A, B, C = system(8)
    y, x = recurrence(A, B, C, 0.0, np.zeros(0, np.float32), np.ones(4))
    assert y.shape == (0,) and np.all(x == 1)


@pytest.mark.parametrize("L", [1, 2, 7, 8])
@pytest.mark.parametrize("H, M", [(None, None), (3, 2)])
def test_convolution_equals_recurrence(L, H, M):
    A, B, C = system(9, H=H, M=M)
    A_bar, B_bar = discretize(A, B, 0.1)
    u = np.random.default_rng(1).standard_normal((L,) if H is None else (L, H))
    u = u.astype(np.float32)
    D = np.zeros(C.shape[:-1] + B.shape[1:], np.float32)
    y, _ = recurrence(A_bar, B_bar, C, D, u)
    K = kernel_naive(A_bar, B_bar, C, L)
    assert K.shape == (L,) + C.shape[:-1] + B.shape[1:]
    np.testing.assert_allclose(causal_convolution(u, K), y,
                               atol=16 * EPS * np.abs(y).max())


@pytest.mark.parametrize("L, taps", [(1, 1), (2, 2), (7, 7), (8, 8), (8, 3), (5, 9)])
def test_convolution_equals_the_sum(L, taps):
    rng = np.random.default_rng(2)
    u, K = rng.standard_normal((L, 2)), rng.standard_normal((taps, 2))
    y = causal_convolution(u, K)
    for h in range(2):
        expected = np.convolve(u[:, h], K[:, h])[:L]
        np.testing.assert_allclose(y[:, h], expected, atol=2e-6)
        alone = causal_convolution(u[:, h], K[:, h])
        np.testing.assert_allclose(alone, expected, atol=2e-6)


def test_convolution_is_causal():
    rng = np.random.default_rng(3)
    u, K = rng.standard_normal((2, 16)).astype(np.float32)
    late = u.copy()
    late[9:] += 10
    before, after = causal_convolution(u, K), causal_convolution(late, K)
    np.testing.assert_allclose(before[:9], after[:9], atol=32 * EPS * 40)
    assert np.all(np.abs(before - after)[9:] > 1e-3)


def test_kernel_of_conjugate_pairs_is_twice_the_real_part():
    Λ = np.array([-0.5 + 2j, -0.1 + 5j], np.complex64)
    B, C = np.array([[1 + 1j, 2 - 1j], [0.5j, 1]], np.complex64)
    half = discretize_diagonal(Λ, B, 0.1)
    both = discretize_diagonal(*(np.concatenate([a, a.conj()]) for a in (Λ, B)), 0.1)
    K_half = kernel_naive(*half, 2 * C, 30)
    K_both = kernel_naive(*both, np.concatenate([C, C.conj()]), 30)
    np.testing.assert_allclose(K_half, K_both, atol=8 * EPS)


def test_compiled_once_for_all_steps():
    traces = []

    @jax.jit
    def kernel(Λ, B, C, dt):
        traces.append(1)
        return kernel_naive(*discretize_diagonal(Λ, B, dt), C, 8)

    Λ, B, C = np.full(3, -1 + 1j), np.ones(3), np.ones(3)
    one, two = kernel(Λ, B, C, 0.1), kernel(Λ, B, C, 0.2)
    assert len(traces) == 1 and not np.allclose(one, two)
    batched = jax.vmap(kernel, in_axes=(None, None, None, 0))(
        Λ, B, C, np.array([0.1, 0.2], np.float32))
    np.testing.assert_allclose(batched, [one, two], atol=4 * EPS)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_dtypes_are_kept(dtype):
    Λ, B, C = -np.ones(2, dtype), np.ones(2, dtype), np.ones(2, dtype)
    for f, A in [(discretize_diagonal, Λ), (discretize, np.diag(Λ))]:
        A_bar, B_bar = f(A, B, 0.1)
        assert A_bar.dtype == B_bar.dtype == dtype
        y, x = recurrence(A_bar, B_bar, C, 0.0, np.ones(4, np.float32))
        assert y.dtype == np.float32 and x.dtype == dtype
        assert kernel_naive(A_bar, B_bar, C, 3).dtype == np.float32


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("method", ["zoh", "bilinear", "gbt", "euler",
                                    "backward_euler"])
def test_half_precision_is_rounded_once(method, dtype):
    A = np.array([[-1.0, 0.5], [0.25, -2.0]], np.float32)
    B = np.array([1.0, 0.5], np.float32)
    half = discretize(jnp.asarray(A, dtype), jnp.asarray(B, dtype), 0.125, method)
    for short, long in zip(half, discretize(A, B, 0.125, method)):
        assert short.dtype == dtype
        np.testing.assert_array_equal(short, long.astype(dtype))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_a_convolution_in_half_precision(dtype):
    u, K = jnp.arange(5.0).astype(dtype), jnp.ones(3, dtype)
    y = causal_convolution(u, K)
    assert y.dtype == dtype
    # three transforms of 8 in single precision, each log2(8) roundings deep
    error = 9 * np.finfo(np.float32).eps * np.sqrt(30) * np.sqrt(3)
    np.testing.assert_allclose(y.astype(float), [0, 1, 3, 6, 9], rtol=0, atol=error)


@pytest.mark.parametrize("N", [1, 4, 64])
@pytest.mark.parametrize("dt", [1e2, 1e4, 1e6, 1e9, 1e30])
def test_zoh_of_a_very_long_step_is_the_resting_state(N, dt):
    """No nan where the exponential needs more than 16 squarings."""
    A, B = (z.astype(np.float32) for z in transition("legs", N))
    A_bar, B_bar = discretize(A, B, dt)
    rest = np.eye(N)[0]             # -A⁻¹B: a constant input is a constant
    assert np.abs(A_bar).max() < 1e-5
    # The slowest mode is known to eps times the fastest: eps ‖A‖₁.
    bound = 2 * np.finfo(np.float32).eps * np.abs(A).sum(0).max()
    np.testing.assert_allclose(B_bar, rest, rtol=0, atol=bound)


def test_zoh_of_a_traced_step_has_a_limit_that_shows():
    A, B = (z.astype(np.float32) for z in transition("legs", 4))
    step = jax.jit(lambda dt: discretize(A, B, dt)[1])
    np.testing.assert_allclose(step(1e4), np.eye(4)[0], atol=1e-5)
    assert np.isnan(step(1e6)).all()


def test_zoh_of_a_free_mass_in_a_very_long_step():
    A_bar, B_bar = discretize(np.array([[0.0, 1], [0, 0]]), np.array([0.0, 1]), 2.0**40)
    np.testing.assert_array_equal(A_bar, [[1, 2.0**40], [0, 1]])
    np.testing.assert_allclose(B_bar, [2.0**79, 2.0**40], rtol=1e-6)


def test_what_is_carried_along_makes_no_stable_mode_grow():
    """A turn of 1e8 radians a step is beyond float32, its decay is not."""
    Λ_bar, _ = discretize_diagonal(np.array([-0.5 + 1e9j]), np.ones(1), np.array([0.1]))
    np.testing.assert_allclose(np.abs(Λ_bar), np.exp(-0.05), rtol=1e-6)
    for Λ in np.array([200.0]), np.array([200.0 + 0j]):
        Λ_bar, _ = discretize_diagonal(Λ, np.ones(1), np.ones(1))
        assert np.isinf(Λ_bar.real).all()      # overflow, not nan
