"""S5 in single precision: initialization, dtypes, and what is never built."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxprs import arrays

from annotated_ssm import s5
from annotated_ssm.nplr import dplr
from annotated_ssm.scan import METHODS, linear_scan, scan_in_chunks

REFERENCE = np.load(Path(__file__).parent / "reference.npz")
EPS = float(np.finfo(np.float32).eps)


def complex_of(p):
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    return (p["Lambda_re"] + 1j * p["Lambda_im"], B, C, p["D"],
            jnp.exp(p["log_dt"]))


@pytest.mark.parametrize("scan_method", METHODS)
@pytest.mark.parametrize("prefix, options", [
    ("s5_zoh_conj", dict(method="zoh", conj_sym=True)),
    ("s5_bilinear_full_bi",
     dict(method="bilinear", conj_sym=False, bidirectional=True)),
])
def test_reference_in_single_precision(prefix, options, scan_method):
    names = ("Lambda", "B", "C", "D", "log_step", "u", "y")
    Λ, B, C, D, log_step, u, y = (REFERENCE[f"{prefix}_{k}"] for k in names)
    single = {"f": np.float32, "c": np.complex64}
    small = [z.astype(single[z.dtype.kind])
             for z in (Λ, B, C, D, np.exp(log_step), u)]
    out, _ = s5.apply_ssm(*small, **options, scan_method=scan_method)
    assert out.dtype == jnp.float32
    # one rounding of each of the L steps, and of the sums over P and H
    np.testing.assert_allclose(out, y, rtol=0,
                               atol=2 * EPS * len(u) * np.abs(y).max())


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("conj_sym", [False, True])
@pytest.mark.parametrize("init", s5.INITS)
def test_shapes_and_dtypes(init, conj_sym, bidirectional):
    p = s5.initialize(jax.random.key(0), 3, 8, 2, init, conj_sym=conj_sym,
                      bidirectional=bidirectional)
    P = 4 if conj_sym else 8
    columns = 2 * P if bidirectional else P
    assert {k: v.shape for k, v in p.items()} == {
        "Lambda_re": (P,), "Lambda_im": (P,), "B": (P, 3, 2),
        "C": (3, columns, 2), "D": (3,), "log_dt": (P,)}
    assert all(v.dtype == jnp.float32 for v in p.values())
    assert not any(v.weak_type for v in p.values())
    assert (p["Lambda_re"] <= -0.49).all()
    assert (p["log_dt"] >= np.log(1e-3)).all()
    assert (p["log_dt"] <= np.log(1e-1)).all()


def test_blocks_repeat_hippo_n():
    p = s5.initialize(jax.random.key(0), 3, 32, 4)
    Λ = dplr("legs", 8)[0]
    np.testing.assert_array_equal(p["Lambda_re"], -0.5)
    np.testing.assert_array_equal(p["Lambda_im"],
                                  np.tile(Λ.imag, 4).astype(np.float32))


def test_the_names_of_the_initializations():
    """lin and inv are the published laws with the block's full size."""
    lin = s5.initial_modes("lin", 64)[0][0]
    inv = s5.initial_modes("inv", 64)[0][0]
    n = np.arange(32)
    np.testing.assert_allclose(lin, -0.5 + 1j * np.pi * n)
    np.testing.assert_allclose(
        inv[::-1], -0.5 + 1j * 64 / np.pi * (64 / (2 * n + 1) - 1))
    assert round(inv[-1].imag) == 1283
    assert s5.initial_modes("hippo", 64)[0][0, -1].imag == pytest.approx(
        1303.27, abs=0.01)
    skew = s5.initial_modes("skew", 200, key=jax.random.key(1))[0]
    assert (skew.real == -0.5).all()            # semicircle of radius 2
    assert 1.7 < skew.imag.max() < 2.2
    random = s5.initial_modes("random", 200, key=jax.random.key(1))[0]
    assert random.real.max() == pytest.approx(-0.5)   # disc of radius 1
    assert 1.6 < np.ptp(random.real) < 2.4
    two = s5.initial_modes("random", 16, 2, key=jax.random.key(1))[0]
    assert (two[0] != two[1]).all()             # every block has a draw


def test_B_and_C_are_rotated_lecun_normals():
    """The entries of V⁻¹B₀ have variance 1/H, those of C₀V 1/P."""
    p = s5.initialize(jax.random.key(2), 64, 128, 2, unit_variance=False)
    for name, expected in ("B", 1 / 64), ("C", 1 / 128):
        n = p[name][..., 0].size
        variance = float((p[name]**2).sum(-1).mean())
        # the mean of n complex normals: a relative spread of 1/√n
        assert abs(variance / expected - 1) <= 5 / np.sqrt(n)


@pytest.mark.parametrize("init", s5.INITS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("conj_sym", [False, True])
def test_unit_variance_by_simulation(init, bidirectional, conj_sym):
    p = s5.initialize(jax.random.key(3), 8, 16, 2, init, conj_sym=conj_sym,
                      bidirectional=bidirectional, unit_variance=True,
                      dt_min=0.02, dt_max=0.2)
    Λ, B, C, D, dt = complex_of(p)
    variance = s5.preactivation_variance(
        Λ, B, C, dt, conj_sym=conj_sym, bidirectional=bidirectional)
    np.testing.assert_allclose(variance, 1, rtol=1e-4)
    u = jax.random.normal(jax.random.key(4), (16, 3000, 8))
    y, _ = s5.apply_ssm(Λ, B, C, 0 * D, dt, u, conj_sym=conj_sym,
                        bidirectional=bidirectional)
    # memory of 2/(2·½·0.02) = 100 samples: some 16·2000/100 = 320 free ones
    # a feature, 2560 in all, and a variance spreads by √(2/2560) = 3 %
    assert abs(float(y[:, 500:-500].var()) - 1) <= 0.12


def test_initialize_is_reproducible_and_jittable():
    p = s5.initialize(jax.random.key(5), 4, 8, 2)
    q = jax.jit(lambda key: s5.initialize(key, 4, 8, 2))(jax.random.key(5))
    for k in p:
        np.testing.assert_allclose(p[k], q[k], rtol=4 * EPS, atol=EPS)


@pytest.mark.parametrize("options", [
    {}, dict(bidirectional=True), dict(steps=np.ones(40, np.float32)),
    dict(steps=np.ones((2, 40), np.float32), bidirectional=True,
         mask=np.ones((2, 40), bool))])
def test_no_product_of_three_sizes_and_no_complex_input(options):
    """Sizes are distinct primes, so that shapes tell who is who."""
    L, H, P = 40, 7, 22
    p = s5.initialize(jax.random.key(6), H, P, 1,
                      bidirectional=options.get("bidirectional", False))
    u = jnp.zeros((2, L, H))
    apply = lambda *a: s5.apply_ssm(*a, **options)[0].sum()
    for f in (apply, jax.grad(apply, argnums=(1, 2, 4, 5))):
        seen = list(arrays(f, *complex_of(p), u))
        assert any(L in s and P // 2 in s for s, _ in seen)
        for shape, dtype in seen:
            assert not (L in shape and H in shape and (
                P // 2 in shape or P in shape)), shape
            if jnp.issubdtype(dtype, jnp.complexfloating):
                assert not (L in shape and H in shape), (shape, dtype)
                # with constant steps the scan is real as well
                assert "steps" in options or L not in shape, (shape, dtype)


@pytest.mark.parametrize("options", [
    {}, dict(bidirectional=True), dict(steps=np.ones(40, np.float32)),
    dict(mask=np.ones((2, 40), bool), bidirectional=True)])
def test_chunks_store_no_states(options):
    """In chunks of 5 nothing has as many states as there are samples."""
    L, H, P = 40, 7, 22
    p = s5.initialize(jax.random.key(6), H, P, 1,
                      bidirectional=options.get("bidirectional", False))
    apply = lambda *a: s5.apply_ssm(
        *a, **options, scan_method="chunked", chunk=5)[0].sum()
    seen = list(arrays(jax.grad(apply, argnums=range(6)), *complex_of(p),
                       jnp.zeros((2, L, H))))
    assert any(5 in shape and P // 2 in shape for shape, _ in seen)
    for shape, _ in seen:
        assert not (L in shape and (P // 2 in shape or P in shape)), shape


@pytest.mark.parametrize("options", [{}, dict(steps=np.ones(4096, np.float32))])
def test_chunks_need_less_memory(options):
    """The compiler's count for the gradient by everything, 8 sequences."""
    p = s5.initialize(jax.random.key(0), 16, 32)
    u = jax.ShapeDtypeStruct((8, 4096, 16), jnp.float32)

    def memory(**how):
        loss = lambda *a: jnp.sum(jnp.sin(s5.apply_ssm(*a, **options, **how)[0]))
        compiled = jax.jit(jax.grad(loss, argnums=range(6))).lower(
            *complex_of(p), u).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    short = memory(scan_method="chunked", chunk=128)
    assert short < 0.55 * memory(scan_method="sequential")
    # the input's size counts the rest: u, y and their cotangents
    assert short < 4 * 4 * u.size
    # 8192 rows in all by default: 1024 of each of the 8 sequences
    chunked = memory(scan_method="chunked")
    assert memory(scan_method="chunked", chunk=1024) == chunked
    assert short < chunked < memory(scan_method="chunked", chunk=4096)


@pytest.mark.parametrize("L, batch, expected", [
    (1, 1, 1), (16384, 1, 16384), (16385, 1, 8192), (2048, 8, 2048), (4096, 8, 1024),
    (784, 50, 196), (33, 1000, 11), (8191 * 5, 1, 8191), (7, 0, 7)])
def test_the_length_of_a_chunk(L, batch, expected):
    assert s5._chunk_size(L, batch) == expected


@pytest.mark.parametrize("L", [0, 1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_short_sequences(L, bidirectional, batch):
    p = s5.initialize(jax.random.key(7), 3, 4, bidirectional=bidirectional)
    Λ, B, C, D, dt = complex_of(p)
    u = jnp.ones((*batch, L, 3))
    x0 = jnp.ones(((2,) if bidirectional else ()) + (*batch, 2), jnp.complex64)
    for steps in (None, np.ones(L, np.float32)):
        y, last = s5.apply_ssm(Λ, B, C, D, dt, u, steps=steps, x0=x0,
                               bidirectional=bidirectional)
        assert y.shape == u.shape and last.shape == x0.shape
        if L == 0:
            np.testing.assert_array_equal(last, x0)


def test_the_result_has_the_common_real_dtype():
    p = s5.initialize(jax.random.key(8), 3, 4)
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32):
        y, x = s5.apply_ssm(*complex_of(p), jnp.ones((5, 3), dtype))
        assert y.dtype == jnp.float32 and x.dtype == jnp.complex64


def test_tracing_does_not_look_at_values():
    """Under jit steps and masks are arguments; the result is the same."""
    p = s5.initialize(jax.random.key(9), 3, 4)
    u = jax.random.normal(jax.random.key(10), (2, 6, 3))
    steps = jnp.linspace(0.0, 1.0, 6)
    mask = jnp.arange(6) < jnp.array([[2], [6]])
    apply = lambda steps, mask, rate: s5.apply_ssm(
        *complex_of(p), u, steps=steps, mask=mask, rate=rate)[0]
    np.testing.assert_allclose(jax.jit(apply)(steps, mask, 2.0),
                               apply(steps, mask, 2.0), atol=8 * EPS)


def test_streaming_in_pieces_equals_the_whole():
    p = s5.initialize(jax.random.key(11), 3, 8)
    u = jax.random.normal(jax.random.key(12), (30, 3))
    whole, last = s5.apply_ssm(*complex_of(p), u)
    x, pieces = None, []
    for piece in (u[:7], u[7:8], u[8:]):
        y, x = s5.apply_ssm(*complex_of(p), piece, x0=x)
        pieces.append(y)
    np.testing.assert_allclose(jnp.concatenate(pieces), whole, atol=32 * EPS)
    np.testing.assert_allclose(x, last, atol=32 * EPS)


@pytest.mark.parametrize("shape", ["row", "batch"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("method", s5.METHODS)
def test_what_pads_hold_reaches_neither_values_nor_gradients(
        method, bidirectional, shape):
    filler = np.array([0, 0, 0, 0, np.nan, -1, np.inf], np.float32)
    L, length = 7, np.array([6, 4, 0]) if shape == "batch" else np.array([4] * 3)
    mask = np.arange(L) < length[:, None]
    system = complex_of(s5.initialize(jax.random.key(0), 2, 8,
                                      bidirectional=bidirectional))
    rng = np.random.default_rng(0)
    u = rng.normal(size=(3, L, 2)).astype(np.float32)
    steps = rng.uniform(0.1, 2, mask.shape).astype(np.float32)
    given = mask
    if shape == "row":
        steps, given = steps[0], mask[0]

    def value(u, steps, *system):
        y, last = s5.apply_ssm(*system, u, method=method, steps=steps, mask=given,
                               bidirectional=bidirectional)
        return (jnp.sin(y).sum() + jnp.abs(last + 1).sum()), (y, last)

    both = jax.jit(jax.value_and_grad(value, argnums=range(7), has_aux=True))
    clean = both(u, steps, *system)
    u = np.where(mask[..., None], u, filler[:, None])
    steps = np.where(given, steps, filler)
    dirty = both(u, steps, *system)
    for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)
    ((_, (y, last)), (du, dsteps, *_)) = dirty
    assert not np.any(y[~mask]) and not np.any(du[~mask])
    assert not np.any(dsteps[~given])
    _, (seen, _) = value(u, steps, *system)   # where values can be looked at
    np.testing.assert_allclose(seen, y, atol=32 * EPS)
    options = dict(method=method, bidirectional=bidirectional)
    own, state = s5.apply_ssm(    # and it is the sequence's own answer
        *system, u[1, :4], **options,
        steps=(steps if shape == "row" else steps[1])[:4])
    np.testing.assert_allclose(y[1, :4], own, atol=32 * EPS)
    np.testing.assert_allclose(last[..., 1, :], state, atol=32 * EPS)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_masks_count_in_whole_numbers(dtype):
    """700 valid samples are more than bfloat16 can count."""
    u, mask = jnp.ones((700, 1), dtype), np.arange(700) < 699
    system = (-jnp.ones(1, dtype), jnp.ones((1, 1), dtype), jnp.ones((1, 1), dtype),
              jnp.ones(1, dtype), jnp.full(1, 0.001, dtype))
    masked = s5.apply_ssm(*system, u, mask=mask, conj_sym=False)[1]
    alone = s5.apply_ssm(*system, u[:699], conj_sym=False)[1]
    np.testing.assert_allclose(masked, alone, rtol=1e-5)


def test_an_eager_call_is_traced_once():
    calls = []

    def counting(a, b, x0, reverse):
        calls.append(1)
        return linear_scan(a, b, x0, reverse, "sequential")

    p = s5.initialize(jax.random.key(0), 3, 8)
    direction = s5._Direction(False, True, "zoh", counting)
    system = [jnp.asarray(z) for z in complex_of(p)]
    part = jnp.ones((2, 77, 3)), None, None
    traced = []
    for _ in range(2):       # an equal direction is the same function
        equal = s5._Direction(*vars(direction).values())
        scan_in_chunks(equal, tuple(system[:3]), jnp.zeros((2, 8)),
                       part, 10, axis=-2)
        traced.append(len(calls))
    assert 0 < traced[0] == traced[1]


def test_no_features():
    y, x = s5.apply_ssm(-jnp.ones(2) + 0j, jnp.ones((2, 0)) + 0j,
                        jnp.ones((0, 2)) + 0j, jnp.ones(0), jnp.ones(2),
                        jnp.ones((5, 0)))
    assert y.shape == (5, 0) and not x.any()
