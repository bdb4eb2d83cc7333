"""S4D and DSS in double precision: reference values, and gradients by autodiff."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import s4d
from annotated_ssm.nplr import dplr, nplr
from annotated_ssm.state_space import discretize_diagonal, kernel_naive

REFERENCE = np.load(Path(__file__).parents[1] / "reference.npz")
KERNELS = [s4d.diagonal_kernel, s4d.diagonal_kernel_naive]


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=(*shape, 2)) @ [1, 1j]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("prefix, method", [
    ("s4d_diag-lin_zoh", "zoh"), ("s4d_diag-inv_bilinear", "bilinear")])
def test_reference(prefix, method, kernel):
    Λ, B, C, dt, K = (REFERENCE[f"{prefix}_{k}"]
                      for k in ("Lambda", "B", "C", "dt", "K"))
    out = kernel(Λ, B[0], C[0], dt[:, 0], K.shape[-1], method)
    np.testing.assert_allclose(out, K[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("init, law", [("lin", "lin"), ("inv", "inv")])
def test_the_laws_are_the_reference_ones(init, law):
    """Stored in single precision, in the other half-plane, and 0 as 1e-4."""
    method = {"lin": "zoh", "inv": "bilinear"}[law]
    Λ = REFERENCE[f"s4d_diag-{law}_{method}_Lambda"][0]
    ours = s4d.initial_eigenvalues(init, 2 * len(Λ))
    np.testing.assert_allclose(np.sort(np.abs(Λ.imag)),
                               np.maximum(ours.imag, 1e-4), rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("conj_sym", [True, False])
@pytest.mark.parametrize("L", [1, 2, 3, 5, 8, 13, 64])
def test_kernels_are_the_recurrence(L, conj_sym, method, kernel):
    Λ, B, C = s4d.initial_eigenvalues("legs", 32), draw(L, 16), draw(L + 1, 16)
    K = kernel(Λ, B, C, 0.03, L, method, conj_sym)
    A_bar, B_bar = discretize_diagonal(Λ, B, 0.03, method)
    want = kernel_naive(A_bar, B_bar, 2 * C if conj_sym else C, L)
    np.testing.assert_allclose(K, want, rtol=0, atol=1e-10)


def test_real_modes_have_no_partners():
    Λ, C, k = s4d.initial_eigenvalues("real", 5), draw(0, 5), np.arange(40)
    K = s4d.diagonal_kernel(Λ, np.ones(5), C, 0.01, 40, conj_sym=False)
    want = (C * np.expm1(Λ * 0.01) / Λ) @ np.exp(np.outer(Λ * 0.01, k))
    np.testing.assert_allclose(K, want.real, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("argument", range(4))
def test_gradients_are_those_of_the_naive_kernel(argument, method):
    arguments = (jnp.asarray(s4d.initial_eigenvalues("inv", 16)),
                 jnp.asarray(draw(1, 8)), jnp.asarray(draw(2, 3, 8)),
                 jnp.asarray([0.01, 0.1, 1.0]))
    W = np.random.default_rng(3).normal(size=(3, 50))

    def slope(kernel):
        return jax.grad(lambda *a: jnp.sum(W * kernel(*a, 50, method)),
                        argument)(*arguments)

    want = slope(s4d.diagonal_kernel_naive)
    np.testing.assert_allclose(slope(s4d.diagonal_kernel), want, rtol=0,
                               atol=1e-11 * np.abs(want).max())


@pytest.mark.parametrize("method", s4d.METHODS)
def test_second_derivatives_exist(method):
    loss = lambda x: jnp.sum(s4d.diagonal_kernel(
        x + 3j, jnp.ones(2), jnp.ones(2), 0.2, 20, method)**2)
    x = jnp.asarray([-0.5, -1.5])
    h = 1e-5
    got = jax.hessian(loss)(x)
    want = np.stack([(jax.grad(loss)(x + h * e) - jax.grad(loss)(x - h * e)) / (2 * h)
                     for e in np.eye(2)])
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("form", s4d.FORMS)
@pytest.mark.parametrize("L", [1, 2, 3, 5, 8, 13, 64, 5000])
def test_dss_is_its_definition(L, form):
    Λ, w, dt = 3 * draw(L, 5) / max(1, L / 100) - 0.1, draw(L + 1, 5), 0.1
    waves = np.exp(np.outer(Λ * dt, np.arange(L)))
    if form == "softmax":
        K = 2 * ((w / Λ) @ (waves / waves.sum(1, keepdims=True))).real
    else:
        Λ = -np.abs(Λ.real) + 1j * Λ.imag
        waves = np.exp(np.outer(Λ * dt, np.arange(L)))
        K = 2 * ((w * np.expm1(Λ * dt) / Λ) @ waves).real
    np.testing.assert_allclose(s4d.dss_kernel(Λ, w, dt, L, form), K, rtol=0,
                               atol=1e-10)
    B, C = s4d.dss_to_diagonal(Λ, w, dt, L, form)
    np.testing.assert_allclose(s4d.diagonal_kernel(Λ, B, C, dt, L), K, rtol=0,
                               atol=1e-10)


def test_softmax_in_closed_form():
    Λ, w, dt, L = draw(1, 6) - 1, draw(2, 6), 0.07, 40
    B, C = s4d.dss_to_diagonal(Λ, w, dt, L, "softmax")
    np.testing.assert_allclose(B, 1 / np.expm1(Λ * dt * L), rtol=1e-12)
    np.testing.assert_array_equal(C, w)


@pytest.mark.parametrize("N", [8, 64])
@pytest.mark.parametrize("ω", [0.3, 5.0, 300.0])
def test_proposition_7_1(N, ω):
    """LegS answers a wave as HiPPO-N with B/2 does, times 1 + ε."""
    normal, P, B = nplr("legs", N)
    legs = np.linalg.solve(1j * ω * np.eye(N) - normal + P.T @ P, B)
    Λ, _, half, V = dplr("legs", N)
    states = V @ (half / 2 / (1j * ω - Λ)) + (V.conj() @ (
        half.conj() / 2 / (1j * ω - Λ.conj())))
    n = np.arange(N)
    ε = np.prod((1j * ω - n) / (1j * ω + n + 1))
    np.testing.assert_allclose(legs, (1 + ε) * states, rtol=0,
                               atol=1e-12 * N * np.abs(legs).max())
    assert np.isclose(abs(ε), ω / np.hypot(N, ω), rtol=1e-12)
