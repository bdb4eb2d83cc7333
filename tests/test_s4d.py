"""S4D and DSS in single precision: spectra, accuracy, memory, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import s4d
from annotated_ssm.nplr import dplr

EPS = float(np.finfo(np.float32).eps)
LENGTHS = (1, 2, 3, 5, 8, 13, 64)


def draw(seed, *shape):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(*shape, 2)) @ [1, 1j]).astype(np.complex64)


def parts(Λ, B, C, dt, method):
    """In double precision: z, B̄/B, log Ā, and the derivatives of the last two."""
    Λ, B, C = (np.asarray(a, np.complex128) for a in (Λ, B, C))
    dt = float(dt)
    z = Λ * dt
    if method == "zoh":
        gain, d_gain = np.expm1(z) / Λ, (dt * np.exp(z) - np.expm1(z) / Λ) / Λ
        return Λ, B, C, dt, gain, d_gain, np.exp(z), z, np.full_like(z, dt)
    gain = dt / (1 - z / 2)
    A_bar = (1 + z / 2) / (1 - z / 2)
    return (Λ, B, C, dt, gain, gain**2 / 2, np.exp(0j) / (1 - z / 2)**2,
            np.log(A_bar), dt / ((1 - z / 2) * (1 + z / 2)))


def exact(Λ, B, C, dt, L, method):
    _, B, C, _, gain, _, _, log_A, _ = parts(Λ, B, C, dt, method)
    return 2 * ((C * B * gain) @ np.exp(np.outer(log_A, np.arange(L)))).real


def system(init, N=64, weights="hippo", seed=0):
    Λ = s4d.initial_eigenvalues(init, N).astype(np.complex64)
    B = dplr("legs", N)[2] if weights == "hippo" else np.ones(N // 2)
    return Λ, B.astype(np.complex64), draw(seed, N // 2)


def test_the_spectra_are_those_of_the_paper():
    legs, lin, inv = (s4d.initial_eigenvalues(i, 64) for i in ("legs", "lin", "inv"))
    for Λ in (legs, lin, inv):
        assert Λ.shape == (32,) and Λ.dtype == np.complex128
        assert (Λ.real == -0.5).all() and (np.diff(Λ.imag) > 0).all()
        assert Λ.imag[0] >= 0
    assert round(legs.imag[-1]) == 1303 and round(inv.imag[-1]) == 1283
    assert abs(inv.imag[-1] / legs.imag[-1] - 1) < 0.03
    n = np.arange(32)
    np.testing.assert_allclose(lin.imag, np.pi * n, rtol=1e-15)
    np.testing.assert_allclose(
        inv.imag[::-1], 64 / np.pi * (64 / (2 * n + 1) - 1), rtol=1e-15)
    np.testing.assert_array_equal(s4d.initial_eigenvalues("real", 5),
                                  -np.arange(1, 6) + 0j)


@pytest.mark.parametrize("N", [2, 6, 256])
def test_no_frequency_is_negative(N):
    for init in ("legs", "lin", "inv"):
        assert s4d.initial_eigenvalues(init, N).imag.min() >= 0


@pytest.mark.parametrize("tied, bidirectional, init", [
    (True, False, "legs"), (False, True, "inv"), (True, True, "lin"),
    (False, False, "real")])
def test_parameters_are_real_and_stable(tied, bidirectional, init):
    p = s4d.initialize(jax.random.key(0), 3, 8, init, tied=tied,
                       bidirectional=bidirectional)
    M = 8 if init == "real" else 4
    shape = (M,) if tied else (3, M)
    assert {k: v.shape for k, v in p.items()} == {
        "Lambda_log_decay": shape, "Lambda_im": shape, "B": (*shape, 2),
        "C": (3, 2 * M if bidirectional else M, 2), "D": (3,), "log_dt": (3,)}
    assert all(v.dtype == jnp.float32 and not v.weak_type for v in p.values())
    Λ, B, C, D, dt = s4d.system(p)
    np.testing.assert_allclose(
        np.broadcast_to(s4d.initial_eigenvalues(init, 8), shape), Λ, rtol=1e-6)
    assert (B == 1).all() and (1e-3 <= dt).all() and (dt <= 1e-1).all()
    slope = jax.grad(lambda θ: s4d.system(p | {"Lambda_log_decay": θ})[0].real.sum())
    for θ in (-15.0, 0.0, 15.0):
        θ = jnp.full(shape, θ)
        assert (s4d.system(p | {"Lambda_log_decay": θ})[0].real < 0).all()
        assert (slope(θ) < 0).all()


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("weights", ["ones", "hippo"])
@pytest.mark.parametrize("init", ["legs", "lin", "inv"])
def test_kernels_are_right_for_all_steps(init, weights, method):
    Λ, B, C = system(init, weights=weights)
    dt = np.geomspace(1e-4, 1e-1, 7).astype(np.float32)
    kernels = s4d.diagonal_kernel(Λ, B, C, dt, 4096, method)
    for K, Δ in zip(kernels, dt):
        K64 = exact(Λ, B, C, Δ, 4096, method)
        assert np.abs(K - K64).max() <= 7e-6 * np.abs(K64).max()


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("L", [*LENGTHS, 65, 5000])
@pytest.mark.parametrize("kernel", [s4d.diagonal_kernel, s4d.diagonal_kernel_naive])
def test_kernels_of_all_lengths(kernel, L, method):
    Λ, B, C = system("lin", 16, seed=L)
    K, K64 = kernel(Λ, B, C, 0.05, L, method), exact(Λ, B, C, np.float32(0.05), L, method)
    assert K.shape == (L,) and K.dtype == jnp.float32
    # the naive one loses one rounding of the phase for each tap
    tolerance = 8 * EPS * (1 if kernel is s4d.diagonal_kernel else 80)
    assert np.abs(K - K64).max() <= tolerance * np.abs(K64).max()


def test_powers_do_not_lose_digits_with_the_exponent():
    Λ = (-1e-7 + 1j * np.geomspace(1, 1303, 32)).astype(np.complex64)
    dt = np.float32([0.0020001])
    k = 2.0 ** np.arange(0, 23)
    for method in s4d.METHODS:
        powers = s4d.mode_powers(jnp.asarray(Λ), jnp.asarray(dt),
                                 jnp.asarray(k, jnp.float32), method)
        h = Λ.astype(complex) * float(dt[0]) / 2
        log_A = 2 * h if method == "zoh" else np.log((1 + h) / (1 - h))
        error = np.abs(powers - np.exp(np.outer(k, log_A))).max(1)
        assert error[:19].max() <= 8 * EPS      # 262144 steps
        assert error.max() <= 200 * EPS         # four million


def test_axes_of_features_broadcast():
    Λ, B, C = draw(1, 3, 4) - 2, draw(2, 4), draw(3, 3, 4)
    dt = np.float32([0.1, 0.2, 0.3])
    rows = lambda z, h: z if z.ndim == 1 else z[h]
    for a, b, c in ((Λ, B, C), (Λ[0], B, C), (Λ, B, C[0]), (Λ[0], B, C[0])):
        for Δ in (dt, np.float32(0.1)):
            K = s4d.diagonal_kernel(a, b, c, Δ, 7)
            if max(z.ndim for z in (a, b, c)) == 1 and Δ.ndim == 0:
                assert K.shape == (7,)
                continue
            assert K.shape == (3, 7)
            for h in range(3):
                one = s4d.diagonal_kernel(rows(a, h), b, rows(c, h),
                                          Δ if Δ.ndim == 0 else Δ[h], 7)
                np.testing.assert_allclose(K[h], one, atol=8 * EPS * np.abs(one).max())


@pytest.mark.parametrize("L", [4096, 16384])
def test_memory_is_a_small_part_of_the_vandermonde_matrix(L):
    H, N = 64, 64
    Λ, B, _ = system("legs", N)
    arguments = (Λ, B, draw(1, H, N // 2), np.full(H, 0.01, np.float32))

    def temporaries(kernel):
        compiled = jax.jit(kernel, static_argnums=4).lower(*arguments, L).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    def slope(kernel):
        loss = lambda Λ, B, C, dt, L: jnp.sum(kernel(Λ, B, C, dt, L)**2)
        return jax.grad(loss, (0, 1, 2, 3))

    fast, naive = s4d.diagonal_kernel, s4d.diagonal_kernel_naive
    assert temporaries(fast) <= 0.07 * temporaries(naive)
    assert temporaries(slope(fast)) <= 0.07 * temporaries(slope(naive))


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("dt", [1e-4, 2e-3, 1e-1])
def test_gradients_are_those_of_double_precision(dt, method):
    L, dt = 2048, np.float32(dt)
    Λ, B, C = system("legs")
    W = np.random.default_rng(5).normal(size=L).astype(np.float32)
    loss = lambda Λ, B, C, dt: W @ s4d.diagonal_kernel(Λ, B, C, dt, L, method)
    got = jax.jit(jax.grad(loss, (0, 1, 2, 3)))(Λ, B, C, dt)
    λ, b, c, Δ, gain, d_gain, d_gain_dt, log_A, d_log_A = parts(Λ, B, C, dt, method)
    k, W = np.arange(L), W.astype(float)
    waves = np.exp(np.outer(log_A, k))
    sums, moments = waves @ W, waves @ (W * k)
    # twice the holomorphic derivative, as jax.grad returns it
    want = (2 * c * b * (d_gain * sums + gain * d_log_A * moments),
            2 * c * gain * sums, 2 * b * gain * sums,
            2 * (c * b * (d_gain_dt * sums + gain * λ / Δ * d_log_A * moments)
                 ).sum().real)
    for g, w in zip(got, want):
        # dt's is a sum of terms that cancel: relative to the largest of them
        scale = np.abs(w).max() if np.ndim(w) else np.abs(
            2 * c * b * gain * λ / Δ * d_log_A * moments).max()
        assert np.abs(g - w).max() <= 1e-5 * scale


def test_a_mode_that_the_bilinear_rule_ends_at_once():
    """λΔ = −2: Ā = 0 exactly, and its derivative is there."""
    Λ, one = jnp.asarray([-4 + 0j]), jnp.ones(1, jnp.complex64)
    K = lambda Λ: s4d.diagonal_kernel(Λ, one, one, 0.5, 5, "bilinear", False)
    np.testing.assert_allclose(K(Λ), [0.25, 0, 0, 0, 0], atol=EPS)
    slope = jax.jacrev(lambda x: K(x + 0j))(jnp.asarray([-4.0]))[:, 0]
    # B̄ = Δ/(1 − λΔ/2) and Ā change at the rates 1/32·… : by hand
    np.testing.assert_allclose(slope, [0.5**2 / 2 / 4, 0.25 * 0.5 / 4, 0, 0, 0],
                               atol=EPS)


@pytest.mark.parametrize("form", s4d.FORMS)
@pytest.mark.parametrize("L", LENGTHS)
def test_dss_is_its_definition(L, form):
    Λ, w, dt = 2 * draw(L, 6) - 0.5, draw(L + 1, 6), np.float32(0.1)
    z, λ, v = (np.asarray(a, complex) for a in (Λ * float(dt), Λ, w))
    z = λ * float(dt)
    waves = np.exp(np.outer(z, np.arange(L)))
    if form == "softmax":
        terms = (v / λ)[:, None] * waves / waves.sum(1, keepdims=True)
    else:
        terms = (v * np.expm1(z) / λ)[:, None] * waves
    K = s4d.dss_kernel(Λ, w, dt, L, form)
    np.testing.assert_allclose(K, 2 * terms.sum(0).real, rtol=0,
                               atol=32 * EPS * np.abs(terms).max())
    same = s4d.diagonal_kernel(Λ, *s4d.dss_to_diagonal(Λ, w, dt, L, form), dt, L)
    np.testing.assert_allclose(same, K, rtol=0, atol=64 * EPS * np.abs(terms).max())


@pytest.mark.parametrize("form", s4d.FORMS)
@pytest.mark.parametrize("L", [1, 2, 1000, 65536])
def test_dss_is_finite_with_its_gradients(L, form):
    grow = 1 if form == "softmax" else -1     # exp has no cure for growth
    real = np.array([0, 1e-30, 1e-8, 1e-3, 1, 30, 1e3, 1e6])
    imag = np.array([0, 1e-30, 1e-6, 2 * np.pi / (0.1 * L), np.pi / 0.1, 20 * np.pi, 1e4])
    Λ = np.add.outer(np.concatenate([-real, grow * real]), 1j * imag)
    Λ = jnp.asarray(Λ.ravel(), jnp.complex64)

    def loss(Λ, w, dt):
        return jnp.sum(s4d.dss_kernel(Λ, w, dt, L, form)**2)

    value, slopes = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(
        Λ, jnp.full(Λ.shape, 1e-6 + 0j), jnp.float32(0.1))
    assert np.isfinite(value)
    assert all(np.isfinite(np.asarray(s)).all() for s in slopes)


def test_softmax_fixes_the_sum_of_each_mode():
    for λ in (-3 + 2j, -0.1 + 9j, 0.2 - 1j, 4 + 1j):
        K = s4d.dss_kernel(np.complex64([λ]), np.complex64([λ]), np.float32(0.05),
                           300, "softmax", conj_sym=False)
        assert abs(K.sum() - 1) <= 300 * EPS


def test_softmax_is_steep_where_it_should_be():
    """Gradients through the sum, in both directions of time."""
    w, L, dt = np.complex64([1 + 1j]), 12, np.float32(0.3)

    def by_hand(x, y):
        z = (x + 1j * y) * dt * jnp.arange(L)
        waves = jnp.exp(z)
        return ((w / (x + 1j * y)) * waves / waves.sum()).real

    def ours(x, y):
        return s4d.dss_kernel((x + 1j * y)[None], w, dt, L, "softmax", False)

    for x, y in ((-0.7, 2.0), (0.7, 2.0), (-1e-4, 0.5)):
        at = jnp.float32(x), jnp.float32(y)
        for argument in (0, 1):
            want = jax.jacfwd(by_hand, argument)(*at)
            got = jax.jacfwd(ours, argument)(*at)
            np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())
