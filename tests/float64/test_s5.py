"""S5 in double precision: reference values, the oracle, gradients."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import s5
from annotated_ssm.scan import METHODS, linear_scan

REFERENCE = np.load(Path(__file__).parents[1] / "reference.npz")
REGULAR = [*METHODS, "auto"]
IRREGULAR = [m for m in REGULAR if m != "time_invariant"]


def reference(prefix):
    names = ("Lambda", "B", "C", "D", "log_step", "u", "y")
    Λ, B, C, D, log_step, u, y = (REFERENCE[f"{prefix}_{k}"] for k in names)
    return (Λ, B, C, D, np.exp(log_step), u), y


def system(seed, H=3, P=8, bidirectional=False, conj_sym=True, L=12, batch=()):
    p = s5.initialize(jax.random.key(seed), H, P, 2, conj_sym=conj_sym,
                      bidirectional=bidirectional, dt_min=0.05, dt_max=0.5)
    Λ = p["Lambda_re"] + 1j * p["Lambda_im"]
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(*batch, L, H))
    x0 = rng.normal(size=(2, 2, *batch, len(Λ)))
    x0 = x0[0] + 1j * x0[1]
    return (Λ, B, C, p["D"], jnp.exp(p["log_dt"]), u), (
        x0 if bidirectional else x0[0])


def test_runs_in_double_precision():
    assert jnp.zeros(()).dtype == jnp.float64


@pytest.mark.parametrize("scan_method", REGULAR)
@pytest.mark.parametrize("prefix, options", [
    ("s5_zoh_conj", dict(method="zoh", conj_sym=True)),
    ("s5_bilinear_full_bi",
     dict(method="bilinear", conj_sym=False, bidirectional=True)),
])
def test_reference(prefix, options, scan_method):
    arguments, y = reference(prefix)
    out, _ = s5.apply_ssm(*arguments, **options, scan_method=scan_method)
    np.testing.assert_allclose(out, y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scan_method", IRREGULAR)
@pytest.mark.parametrize("prefix, options", [
    ("s5_zoh_conj", dict(method="zoh", conj_sym=True)),
    ("s5_bilinear_full_bi",
     dict(method="bilinear", conj_sym=False, bidirectional=True)),
])
def test_reference_with_steps_of_one(prefix, options, scan_method):
    arguments, y = reference(prefix)
    out, _ = s5.apply_ssm(*arguments, **options, scan_method=scan_method,
                          steps=np.ones(len(y)))
    np.testing.assert_allclose(out, y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scan_method", REGULAR)
@pytest.mark.parametrize("method", s5.METHODS)
@pytest.mark.parametrize("conj_sym", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_oracle(scan_method, method, bidirectional, conj_sym, masked):
    arguments, x0 = system(1, bidirectional=bidirectional, conj_sym=conj_sym)
    mask = np.arange(12) < 7 if masked else None
    options = dict(method=method, conj_sym=conj_sym, rate=1.7, mask=mask,
                   bidirectional=bidirectional, x0=x0)
    irregular = np.random.default_rng(2).uniform(0, 2, 12)
    irregular[3] = 0.0
    for steps in (None, irregular):
        if steps is not None and scan_method == "time_invariant":
            continue
        apply = jax.jit(lambda u: s5.apply_ssm(
            *arguments[:-1], u, **options, steps=steps,
            scan_method=scan_method, chunk=5))
        y, last = apply(arguments[-1])
        y_, last_ = s5.apply_ssm_naive(*arguments, **options, steps=steps)
        np.testing.assert_allclose(y, y_, rtol=0, atol=1e-12)
        np.testing.assert_allclose(last, last_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("with_x0", [False, True])
@pytest.mark.parametrize("irregular", [False, True])
def test_a_padded_batch_equals_each_sequence_alone(
        bidirectional, with_x0, irregular):
    lengths = [0, 1, 5, 12]
    arguments, x0 = system(3, bidirectional=bidirectional, batch=(4,))
    *system_, u = arguments
    mask = np.arange(12) < np.array(lengths)[:, None]
    u = np.where(mask[..., None], u, np.nan)     # what pads hold is not read
    steps = (np.random.default_rng(0).uniform(0, 2, (4, 12))
             if irregular else None)
    y, last = s5.apply_ssm(
        *system_, u, bidirectional=bidirectional, mask=mask, steps=steps,
        x0=x0 if with_x0 else None, chunk=5)
    assert y.shape == u.shape and last.shape == x0.shape
    for i, n in enumerate(lengths):
        start = (x0[:, i] if bidirectional else x0[i]) if with_x0 else None
        y_, last_ = s5.apply_ssm(
            *system_, u[i, :n], bidirectional=bidirectional, x0=start,
            steps=None if steps is None else steps[i, :n])
        np.testing.assert_allclose(y[i, :n], y_, rtol=0, atol=1e-13)
        assert (y[i, n:] == 0).all()
        np.testing.assert_allclose(
            last[:, i] if bidirectional else last[i], last_, atol=1e-13)


@pytest.mark.parametrize("method", s5.METHODS)
@pytest.mark.parametrize("conj_sym", [False, True])
def test_step_by_step_equals_the_scan(method, conj_sym):
    (*system_, u), x0 = system(4, conj_sym=conj_sym, batch=(2,))
    steps = np.random.default_rng(4).uniform(0, 3, (2, 12))
    options = dict(method=method, conj_sym=conj_sym, rate=0.5)
    y, last = s5.apply_ssm(*system_, u, steps=steps, x0=x0, **options)
    x = x0
    for k in range(12):
        y_k, x = s5.step(*system_, u[:, k], x, step=steps[:, k], **options)
        np.testing.assert_allclose(y_k, y[:, k], rtol=0, atol=1e-13)
    np.testing.assert_allclose(x, last, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scan_method, irregular", [
    *((m, False) for m in METHODS if m != "sequential"),
    *((m, True) for m in IRREGULAR if m not in ("sequential", "auto"))])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_are_finite_and_the_same_by_every_method(
        scan_method, bidirectional, irregular):
    arguments, x0 = system(5, bidirectional=bidirectional, batch=(2,))
    steps = np.linspace(0, 2, 12) if irregular else None
    mask = np.arange(12) < np.array([[9], [12]])
    weights = np.random.default_rng(5).normal(size=arguments[-1].shape)

    def loss(arguments, x0, scan_method):
        y, last = s5.apply_ssm(
            *arguments, bidirectional=bidirectional, steps=steps, mask=mask,
            x0=x0, scan_method=scan_method, chunk=5)
        return jnp.sum(weights * y) + jnp.sum(jnp.abs(last)**2)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)), static_argnums=2)
    actual = gradient(arguments, x0, scan_method)
    expected = gradient(arguments, x0, "sequential")
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected)):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_scan_of_ones_own(bidirectional):
    """Called as linear_scan is, and its result is the one that is used."""
    arguments, x0 = system(7, bidirectional=bidirectional, batch=(2,))
    calls = []

    def own(a, b, x0, reverse):
        calls.append(reverse)
        return linear_scan(a, b, x0, reverse, "associative")

    options = dict(bidirectional=bidirectional, x0=x0,
                   steps=np.linspace(0, 2, 12))
    expected = s5.apply_ssm(*arguments, **options, scan_method="sequential")
    actual = s5.apply_ssm(*arguments, **options, scan_method=own)
    assert calls == [False, True][:1 + bidirectional]
    for a, e in zip(actual, expected):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


def test_gradient_against_central_differences():
    arguments, _ = system(6)
    steps = np.linspace(0.1, 2, 12)

    @jax.jit
    def loss(dt, Λ_im):
        Λ, B, C, D, _, u = arguments
        y, _ = s5.apply_ssm(Λ.real + 1j * Λ_im, B, C, D, dt, u, steps=steps)
        return jnp.sum(y**2)

    point = arguments[4], arguments[0].imag
    for i in (0, 1):
        g = jax.grad(loss, i)(*point)
        for p in range(len(g)):
            h = 1e-5
            ends = []
            for sign in (1, -1):
                moved = list(point)
                moved[i] = moved[i].at[p].add(sign * h)
                ends.append(loss(*moved))
            slope = (ends[0] - ends[1]) / (2 * h)
            np.testing.assert_allclose(g[p], slope, rtol=1e-6, atol=1e-8)


def test_halving_the_steps_and_holding_the_input():
    """ZOH is exact for a held input: twice the samples, the same states."""
    (*system_, u), x0 = system(7)
    steps = np.random.default_rng(7).uniform(0.1, 2, 12)
    y, last = s5.apply_ssm(*system_, u, steps=steps, x0=x0)
    y2, last2 = s5.apply_ssm(*system_, np.repeat(u, 2, 0), x0=x0,
                             steps=np.repeat(steps / 2, 2))
    np.testing.assert_allclose(y2[1::2], y, rtol=0, atol=1e-13)
    np.testing.assert_allclose(last2, last, rtol=0, atol=1e-13)


def test_time_reversal_swaps_the_two_directions():
    """Steps included: intervals belong to gaps, not to samples."""
    (Λ, B, C, D, dt, u), x0 = system(8, bidirectional=True)
    steps = np.random.default_rng(8).uniform(0.1, 2, 12)
    y, last = s5.apply_ssm(Λ, B, C, D, dt, u, bidirectional=True, x0=x0,
                           steps=steps)
    swapped = jnp.concatenate([C[:, 4:], C[:, :4]], 1)
    back = np.roll(steps, -1)[::-1]      # the same gaps, read from the end
    y_, last_ = s5.apply_ssm(Λ, B, swapped, D, dt, u[::-1], steps=back,
                             bidirectional=True, x0=x0[::-1])
    np.testing.assert_allclose(y_[::-1], y, rtol=0, atol=1e-13)
    np.testing.assert_allclose(last_[::-1], last, rtol=0, atol=1e-13)


@pytest.mark.parametrize("conj_sym", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_preactivation_variance_is_the_energy_of_the_impulse_response(
        conj_sym, bidirectional):
    (Λ, B, C, D, dt, _), _ = system(9, H=2, conj_sym=conj_sym,
                                    bidirectional=bidirectional)
    options = dict(conj_sym=conj_sym, bidirectional=bidirectional)
    energy = 0
    for h in range(2):   # e^{−½·0.05·1000} = 1e−11 of an impulse is left
        u = np.zeros((2001, 2))
        u[1000, h] = 1
        energy += (s5.apply_ssm(Λ, B, C, 0 * D, dt, u, **options)[0]**2).sum(0)
    variance = s5.preactivation_variance(Λ, B, C, dt, **options)
    np.testing.assert_allclose(variance, energy, rtol=1e-10)


@pytest.mark.parametrize("conj_sym", [False, True])
@pytest.mark.parametrize("init", s5.INITS)
def test_modes_are_those_of_a_real_matrix(init, conj_sym):
    Λ, V, V_inv = s5.initial_modes(init, 12, 2, conj_sym, jax.random.key(0))
    A = V * Λ[:, None] @ V_inv
    eye = V @ V_inv
    if conj_sym:
        assert (Λ.imag >= 0).all() and (np.diff(Λ.imag, axis=1) > 0).all()
        A, eye = 2 * A.real, 2 * eye.real
    assert Λ.shape == (2, 3 if conj_sym else 6)
    np.testing.assert_allclose(eye, np.broadcast_to(np.eye(6), (2, 6, 6)),
                               atol=1e-12)
    assert np.abs(A.imag).max() <= 1e-12
    everything = Λ if not conj_sym else np.concatenate([Λ, Λ.conj()], 1)
    for A_j, Λ_j in zip(A, everything):
        found = np.linalg.eigvals(A_j)
        for λ in Λ_j:
            assert np.abs(found - λ).min() <= 1e-6
