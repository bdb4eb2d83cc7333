"""A bank of diagonal systems in single precision: modes agree, dtypes, memory."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import bank, s4d
from annotated_ssm.sequences import MODES

EPS = float(np.finfo(np.float32).eps)
H, M = 3, 4


def draw(seed, *shape):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(*shape, 2)) @ [1, 1j]).astype(np.complex64)


def arguments(model, L, bidirectional=False):
    """S4D or DSS as a bank: (Λ, B, C, D, dt)."""
    dt = np.float32([0.02, 0.05, 0.2])
    D = np.float32([1.0, -1.0, 0.5])
    columns = 2 * M if bidirectional else M
    if model == "s4d":
        Λ = s4d.initial_eigenvalues("legs", 2 * M).astype(np.complex64)
        return Λ, np.ones(M, np.complex64), draw(1, H, columns), D, dt
    Λ = draw(2, H, M) - 1
    if model == "exp":
        Λ = -np.abs(Λ.real) + 1j * Λ.imag
    B, _ = s4d.dss_to_diagonal(Λ, draw(3, H, M), dt, L, model)
    return Λ, B, draw(3, H, columns), D, dt


@partial(jax.jit, static_argnames=("method", "bidirectional", "mode"))
def run(system, u, mask, x0, **options):
    return bank.apply_ssm(*system, u, mask=mask, x0=x0, **options)


@pytest.mark.parametrize("L", [1, 3, 13, 64])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("method", s4d.METHODS)
@pytest.mark.parametrize("model", ["s4d", "exp", "softmax"])
def test_convolution_equals_recurrence(model, method, bidirectional, L):
    system = arguments(model, L, bidirectional)
    # arrays of the same shapes for all models: compiled once
    system = [np.broadcast_to(z, (H, M)) for z in system[:2]] + [*system[2:]]
    u = np.random.default_rng(L).normal(size=(2, L, H)).astype(np.float32)
    x0 = draw(4, *((2,) if bidirectional else ()), 2, H, M)
    mask = np.arange(L) < np.array([[max(1, L // 2)], [L]])
    y, x, exact, last = *run(system, u, mask, x0, method=method, mode="convolution",
                             bidirectional=bidirectional), *run(
        system, u, mask, x0, method=method, mode="recurrence",
        bidirectional=bidirectional)
    # one rounding a sample of a state that may grow to its largest size
    size = max(np.abs(exact).max(), np.abs(last).max(), np.abs(x0).max())
    weight = max(1, np.abs(system[2]).max()) * M
    np.testing.assert_allclose(y, exact, rtol=0, atol=4 * EPS * L**0.5 * size * weight)
    np.testing.assert_allclose(x, last, rtol=0, atol=4 * EPS * L**0.5 * size * weight)


@pytest.mark.parametrize("mode", MODES)
def test_dtypes(mode):
    system = arguments("s4d", 6)
    u = np.zeros((6, H), np.float32)
    y, x = bank.apply_ssm(*system, u, mode=mode)
    assert y.dtype == jnp.float32 and x.dtype == jnp.complex64
    y, x = bank.apply_ssm(*system, u.astype(jnp.bfloat16), mode=mode)
    assert y.dtype == jnp.float32
    real = [np.real(z).astype(jnp.bfloat16) for z in system]
    y, x = bank.apply_ssm(*real, u.astype(jnp.bfloat16), mode=mode, conj_sym=False)
    assert y.dtype == jnp.bfloat16 and x.dtype == jnp.complex64
    y_k, x = bank.step(*real, u[0].astype(jnp.bfloat16), x, conj_sym=False)
    assert y_k.dtype == jnp.bfloat16 and x.dtype == jnp.complex64


def test_an_empty_sequence_keeps_the_state():
    system, x0 = arguments("s4d", 6), draw(0, 2, H, M)
    for mode in MODES:
        y, x = bank.apply_ssm(*system, np.zeros((2, 0, H), np.float32), x0=x0,
                              mode=mode)
        assert y.shape == (2, 0, H)
        np.testing.assert_array_equal(x, x0)


@pytest.mark.parametrize("mode", ["convolution", "recurrence"])
def test_no_mode_stores_all_states(mode):
    """Temporaries stay far below (L, H, M) complex numbers."""
    L, features, modes = 4096, 16, 32
    Λ = s4d.initial_eigenvalues("legs", 2 * modes).astype(np.complex64)
    system = (Λ, np.ones(modes, np.complex64), draw(1, features, modes),
              np.ones(features, np.float32), np.full(features, 0.01, np.float32))
    u = np.zeros((L, features), np.float32)
    compiled = jax.jit(lambda u: bank.apply_ssm(*system, u, mode=mode)).lower(
        u).compile()
    states = 8 * L * features * modes
    assert compiled.memory_analysis().temp_size_in_bytes < 0.25 * states


def test_what_pads_hold_is_not_read():
    system = arguments("s4d", 6, True)
    u = np.random.default_rng(0).normal(size=(6, H)).astype(np.float32)
    mask = np.arange(6) < 4
    dirty = np.where(mask[:, None], u, np.nan)
    for mode in MODES:
        options = dict(mask=mask, bidirectional=True, mode=mode)
        for clean, got in zip(bank.apply_ssm(*system, u, **options),
                              bank.apply_ssm(*system, dirty, **options)):
            np.testing.assert_array_equal(clean, got)
