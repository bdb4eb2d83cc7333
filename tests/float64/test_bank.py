"""A bank of diagonal systems in double precision: every mode is the definition."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import bank, s4d
from annotated_ssm.scan import METHODS, linear_scan
from annotated_ssm.state_space import discretize_diagonal, recurrence

H, M = 3, 4
LENGTHS = (1, 2, 3, 5, 8, 13, 64)


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=(*shape, 2)) @ [1, 1j]


def arguments(model, L, bidirectional=False):
    """S4D or DSS as a bank: (Λ, B, C, D, dt)."""
    dt, D = np.array([0.02, 0.05, 0.2]), np.array([1.0, -1.0, 0.5])
    C = draw(1, H, 2 * M if bidirectional else M)
    if model == "s4d":
        return s4d.initial_eigenvalues("legs", 2 * M), draw(5, M), C, D, dt
    Λ = draw(2, H, M) - 1
    if model == "exp":
        Λ = -np.abs(Λ.real) + 1j * Λ.imag
    return Λ, s4d.dss_to_diagonal(Λ, draw(3, H, M), dt, L, model)[0], C, D, dt


@partial(jax.jit, static_argnames=("method", "bidirectional", "mode"))
def run(system, u, mask=None, x0=None, **options):
    return bank.apply_ssm(*system, u, mask=mask, x0=x0, **options)


def states(bidirectional, *batch):
    return draw(4, *((2,) if bidirectional else ()), *batch, H, M)


@pytest.mark.parametrize("L", LENGTHS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("model", ["s4d", "exp", "softmax"])
def test_every_mode_is_the_definition(model, method, bidirectional, L):
    system = arguments(model, L, bidirectional)
    # arrays of the same shapes for all models: compiled once
    system = [np.broadcast_to(z, (H, M)) for z in system[:2]] + [*system[2:]]
    u = np.random.default_rng(L).normal(size=(L, H))
    options = dict(method=method, bidirectional=bidirectional, rate=1.5)
    full = dict(mask=np.arange(L) < (L + 1) // 2, x0=states(bidirectional))
    for given in [full, {}] if L in (1, 5) else [full]:
        exact, last = bank.apply_ssm_naive(*system, u, **given, **options)
        for mode in ("convolution", "recurrence"):
            y, x = run(system, u, **given, mode=mode, **options)
            np.testing.assert_allclose(y, exact, rtol=0, atol=1e-10)
            np.testing.assert_allclose(x, last, rtol=0, atol=1e-10)


@pytest.mark.parametrize("L", LENGTHS)
def test_a_dss_bank_has_the_kernel_of_dss(L):
    for form in s4d.FORMS:
        Λ, _, _, _, dt = arguments(form, L)
        w, u = draw(3, H, M), np.zeros((L, H))
        u[0] = 1
        B, C = s4d.dss_to_diagonal(Λ, w, dt, L, form)
        K = s4d.dss_kernel(Λ, w, dt, L, form)
        for mode in ("convolution", "recurrence"):
            y, _ = bank.apply_ssm(Λ, B, C, np.zeros(H), dt, u, mode=mode)
            np.testing.assert_allclose(y.T, K, rtol=0, atol=1e-10)


def test_the_oracle_is_the_recurrence_of_chapter_1():
    Λ, B, C, D, dt = arguments("exp", 20)
    u, x0 = np.random.default_rng(0).normal(size=(20, H)), states(False)
    for method in s4d.METHODS:
        y, last = bank.apply_ssm_naive(Λ, B, C, D, dt, u, method=method, x0=x0)
        for h in range(H):
            A_bar, B_bar = discretize_diagonal(Λ[h], B, dt[h], method)
            y_h, x_h = recurrence(A_bar, B_bar, 2 * C[h], D[h], u[:, h], x0[h])
            np.testing.assert_allclose(y[:, h], y_h, rtol=0, atol=1e-12)
            np.testing.assert_allclose(last[h], x_h, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("conj_sym", [False, True])
def test_uneven_steps(method, bidirectional, conj_sym):
    system, L = arguments("s4d", 12, bidirectional), 12
    rng = np.random.default_rng(6)
    u, steps = rng.normal(size=(L, H)), rng.uniform(0, 2, L)
    steps[3] = 0
    for mask in (None, np.arange(L) < 7):
        options = dict(method=method, bidirectional=bidirectional, rate=0.7, mask=mask,
                       conj_sym=conj_sym, steps=steps, x0=states(bidirectional))
        exact, last = bank.apply_ssm_naive(*system, u, **options)
        for mode in ("auto", "recurrence"):
            y, x = bank.apply_ssm(*system, u, mode=mode, **options)
            np.testing.assert_allclose(y, exact, rtol=0, atol=1e-12)
            np.testing.assert_allclose(x, last, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", ["convolution", "recurrence", "steps"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_padded_batch_equals_each_sequence_alone(mode, bidirectional):
    lengths = [0, 1, 5, 12]
    system, rng = arguments("exp", 12, bidirectional), np.random.default_rng(7)
    u, x0 = rng.normal(size=(4, 12, H)), states(bidirectional, 4)
    steps = rng.uniform(0, 2, (4, 12)) if mode == "steps" else None
    mode = "auto" if mode == "steps" else mode
    mask = np.arange(12) < np.array(lengths)[:, None]
    run = jax.jit(lambda u, mask: bank.apply_ssm(
        *system, u, mask=mask, x0=x0, steps=steps, bidirectional=bidirectional,
        mode=mode))
    y, last = run(np.where(mask[..., None], u, np.nan), mask)
    for i, n in enumerate(lengths):
        start = x0[:, i] if bidirectional else x0[i]
        alone, state = bank.apply_ssm(
            *system, u[i, :n], x0=start, bidirectional=bidirectional, mode=mode,
            steps=None if steps is None else steps[i, :n])
        np.testing.assert_allclose(y[i, :n], alone, rtol=0, atol=1e-12)
        assert (y[i, n:] == 0).all()
        np.testing.assert_allclose(last[:, i] if bidirectional else last[i], state,
                                   rtol=0, atol=1e-12)


def test_long_sequences_and_their_last_state():
    """Exponents with many digits: 5000 is not a multiple of a power of two."""
    system, L = arguments("s4d", 5000), 5000
    u, x0 = np.random.default_rng(8).normal(size=(2, L, H)), states(False, 2)
    system = (system[0] / 40, *system[1:])
    mask = np.arange(L) < np.array([[4999], [4097]])
    for method in s4d.METHODS:
        y, x = bank.apply_ssm(*system, u, mask=mask, x0=x0, method=method)
        exact, last = bank.apply_ssm(*system, u, mask=mask, x0=x0, method=method,
                                     mode="recurrence")
        np.testing.assert_allclose(y, exact, rtol=0, atol=1e-10)
        np.testing.assert_allclose(x, last, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("conj_sym", [False, True])
def test_step_by_step(method, conj_sym):
    system, L = arguments("exp", 10), 10
    rng = np.random.default_rng(9)
    u, steps, x = rng.normal(size=(2, L, H)), rng.uniform(0, 2, (2, L)), states(False, 2)
    options = dict(method=method, conj_sym=conj_sym, rate=2.0)
    y, last = bank.apply_ssm(*system, u, steps=steps, x0=x, **options)
    for k in range(L):
        y_k, x = bank.step(*system, u[:, k], x, step=steps[:, k], **options)
        np.testing.assert_allclose(y_k, y[:, k], rtol=0, atol=1e-13)
    np.testing.assert_allclose(x, last, rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_agree_between_modes(method, bidirectional):
    system = jax.tree.map(jnp.asarray, arguments("exp", 12, bidirectional))
    u, x0 = np.random.default_rng(3).normal(size=(2, 12, H)), states(bidirectional, 2)
    mask = np.arange(12) < np.array([[9], [12]])
    weights = np.random.default_rng(4).normal(size=u.shape)

    def slopes(mode):
        def loss(system, u, x0):
            y, last = bank.apply_ssm(*system, u, mask=mask, x0=x0, mode=mode,
                                     method=method, bidirectional=bidirectional)
            return jnp.sum(weights * y) + jnp.sum(jnp.abs(last)**2)
        return jax.jit(jax.grad(loss, (0, 1, 2)))(system, u, x0)

    for got, want in zip(*(jax.tree.leaves(slopes(mode))
                           for mode in ("convolution", "recurrence"))):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 * np.abs(want).max())


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_every_scan_of_chapter_8_runs_a_bank(method):
    """Diagonal systems of all features are one long diagonal system."""
    Λ, B, C, D, dt = arguments("s4d", 21)
    u, x0 = draw(6, 21, H).real, draw(7, H, M)
    y, last = bank.apply_ssm(Λ, B, C, D, dt, u, method=method, x0=x0)
    pairs = [discretize_diagonal(Λ, B, h, method) for h in dt]
    a, B_bar = (jnp.stack(parts).reshape(-1) for parts in zip(*pairs))
    b = B_bar * jnp.repeat(u, M, axis=1)
    for scan_method in METHODS:
        xs = linear_scan(a, b, x0.reshape(-1), method=scan_method)
        read = 2 * jnp.einsum("lhm,hm->lh", xs.reshape(21, H, M), C).real + D * u
        np.testing.assert_allclose(read, y, rtol=0, atol=1e-10)
        np.testing.assert_allclose(xs[-1].reshape(H, M), last, rtol=0, atol=1e-10)
