"""`linear_scan` in float32: methods, transformations, memory; the tree scans."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm.scan import (
    METHODS,
    a_priori,
    choose_method,
    combine,
    linear_scan,
    linear_scan_adjoint,
    linear_scan_naive,
    scan_blelloch,
    scan_hillis_steele,
    scan_sequential,
    tally,
)

P = 3
U = np.finfo(np.float32).eps / 2


def problem(L, dtype=np.complex64, seed=0, batch=(2,)):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        z = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return (z if np.issubdtype(dtype, np.complexfloating) else z.real).astype(dtype)

    a = draw(L, P)
    a = (a / np.abs(a) * rng.uniform(0.5, 1, a.shape)).astype(dtype)
    return a, draw(L, *batch, P), draw(*batch, P)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("method", ("auto", *METHODS))
def test_each_method_is_the_loop_within_rounding(method, dtype, reverse):
    for L in (1, 2, 3, 5, 8, 13):
        a, b, x0 = problem(L, dtype)
        a = a[0] if method == "time_invariant" else a
        xs = linear_scan(a, b, x0, reverse, method, chunk=4)
        assert xs.dtype == dtype
        error = np.abs(xs - linear_scan_naive(a, b, x0, reverse)).max()
        assert error <= a_priori(a, b, x0, reverse)


@pytest.mark.parametrize("method", METHODS)
def test_reverse_pairs_each_coefficient_with_its_own_input(method):
    """a_k differs at each k, so pairing a_k with b_{L-1-k} would show."""
    a, b, x0 = problem(7)
    a = a[0] if method == "time_invariant" else a
    xs = linear_scan(a, b, x0, True, method, chunk=3)
    flip = lambda z: z[::-1] if z.ndim > 1 else z
    again = linear_scan(flip(a), b[::-1], x0, False, method, chunk=3)[::-1]
    np.testing.assert_allclose(xs, again, atol=8 * U * 7)
    a_last = a if a.ndim == 1 else a[-1]
    np.testing.assert_allclose(xs[-1], a_last * x0 + b[-1], atol=16 * U)


@pytest.mark.parametrize("method", ("auto", *METHODS))
def test_no_steps_give_no_states(method):
    b = jnp.zeros((0, 2, P), jnp.complex64)
    xs = linear_scan(jnp.ones(P), b, None, True, method)
    assert xs.shape == (0, 2, P) and xs.dtype == jnp.complex64


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("L", [1, 2, 7])
@pytest.mark.parametrize("method", ("auto", *METHODS))
def test_an_empty_batch_gives_no_states(method, L, reverse):
    a, b = np.full(3, 0.5, np.float32), np.ones((L, 0, 3), np.float32)
    xs, slopes = jax.value_and_grad(
        lambda a: linear_scan(a, b, None, reverse, method).sum())(a)
    assert linear_scan(a, b, None, reverse, method).shape == (L, 0, 3)
    assert xs == 0 and not slopes.any()


@pytest.mark.parametrize("method", METHODS)
def test_the_dtype_is_the_common_one(method):
    kinds = np.float32, np.complex64
    for a, b, x0 in itertools.product(kinds, repeat=3):
        xs = linear_scan(
            np.ones(P, a), np.ones((3, P), b), np.ones(P, x0), method=method
        )
        assert xs.dtype == np.result_type(a, b, x0)


@pytest.mark.parametrize("method", METHODS)
def test_vmap_and_jit_change_nothing(method):
    a, b, x0 = problem(6, batch=(4,))
    a = a[0]
    scan = lambda a, b, x0: linear_scan(a, b, x0, method=method, chunk=4)
    together = scan(a, b, x0)
    apart = jax.jit(jax.vmap(scan, (None, 1, 0), 1))(a, b, x0)
    np.testing.assert_allclose(together, apart, atol=16 * U * 6)


@pytest.mark.parametrize("method", METHODS)
def test_vmap_of_the_gradient(method):
    a, b, x0 = problem(6, batch=(4,))
    a = a[0]

    def loss(a, b, x0):
        return jnp.sum(jnp.abs(linear_scan(a, b, x0, method=method, chunk=4)) ** 2)

    together = jax.grad(loss)(a, b, x0)
    each = jax.vmap(jax.grad(loss), (None, 1, 0))(a, b, x0)
    scale = float(np.abs(together).max())
    np.testing.assert_allclose(together, each.sum(0), atol=1e-5 * scale)


def memory_of_gradient(method, L, varying):
    def loss(a, b, x0, w):
        return jnp.sum(jnp.real(w * linear_scan(a, b, x0, method=method)))

    c64 = jnp.complex64
    a = jax.ShapeDtypeStruct((L, 16) if varying else (16,), c64)
    b = jax.ShapeDtypeStruct((L, 16), c64)
    x0 = jax.ShapeDtypeStruct((16,), c64)
    compiled = jax.jit(jax.grad(loss, (0, 1, 2))).lower(a, b, x0, b).compile()
    return compiled.memory_analysis().temp_size_in_bytes / (L * 16 * 8)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("L", [4096, 5000])
def test_the_chunked_gradient_needs_less_memory(L, varying):
    """In units of the states; the loop stores them all, the chunks don't."""
    chunked = memory_of_gradient("chunked", L, varying)
    assert chunked < memory_of_gradient("sequential", L, varying)


@pytest.mark.parametrize("method", METHODS)
def test_one_trace_serves_all_values(method):
    traces = []

    @jax.jit
    def f(a, b):
        traces.append(1)
        return linear_scan(a, b, method=method)

    f(np.ones(P, np.float32), np.ones((4, P), np.float32))
    f(np.zeros(P, np.float32), np.ones((4, P), np.float32))
    assert len(traces) == 1


def test_the_adjoint_is_the_transpose():
    """<w, scan(b)> = <adjoint(w), b> for x0 = 0: both are linear in b."""
    a, b, x0 = problem(9, batch=())
    xs = linear_scan(a, b)
    w = np.roll(b, 1)
    _, b_bar, _ = linear_scan_adjoint(jnp.asarray(a), xs, 0 * x0, jnp.asarray(w))
    left, right = np.sum(w * np.asarray(xs)), np.sum(np.asarray(b_bar) * b)
    assert abs(left - right) <= 64 * U * np.sum(np.abs(w) * np.abs(xs))


@pytest.mark.parametrize("reverse", [False, True])
def test_the_a_priori_bound_is_the_sum_that_it_stands_for(reverse):
    """4u sum (k - j + 4) |a_k ... a_(j+1)| |b_j|, with a_0 x0 as a part of b_0."""
    a, b, x0 = problem(6, batch=())
    flip = slice(None, None, -1 if reverse else 1)
    size_a, size_b = np.abs(a.astype(complex))[flip], np.abs(b.astype(complex))[flip]
    size_b[0] += size_a[0] * np.abs(x0)
    sums = [sum((k - j + 4) * size_a[j + 1:k + 1].prod(0) * size_b[j]
                for j in range(k + 1)) for k in range(6)]
    assert a_priori(a, b, x0, reverse) == pytest.approx(4 * U * np.max(sums))
    assert a_priori(a, b, 0 * x0, reverse, jnp.bfloat16) == pytest.approx(
        2**16 * a_priori(a, b, 0 * x0, reverse))


@pytest.mark.parametrize("platform, constant, chosen", [
    ("cpu", True, "sequential"), ("cpu", False, "sequential"),
    ("gpu", True, "time_invariant"), ("tpu", False, "associative"),
    (None, False, "sequential")])
def test_auto_is_a_loop_on_a_cpu_and_a_tree_elsewhere(platform, constant, chosen):
    assert choose_method("auto", constant, platform=platform) == chosen
    assert choose_method("chunked", constant, platform=platform) == "chunked"


@pytest.mark.parametrize("shape", ["constant", "steps"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("method", METHODS)
def test_the_derivative_of_a_shared_coefficient_adds_up_in_half_precision(
        method, dtype, shape):
    """With a = 0 the state is the input, and a's cotangent a sum of products.

    Inputs and cotangents are 1 or 1.5, all products have few digits: what is
    left is the rounding of the result, u, and of each chunk's part, once more.
    A sum in half precision would be off by a quarter and more.
    """
    if method == "time_invariant" and shape != "constant":
        return
    rng = np.random.default_rng(0)
    L, batch = (1000, 2) if shape == "constant" else (3, 1000)
    b, w = (jnp.asarray(rng.choice([1, 1.5], (L, batch, P)), dtype) for _ in "bw")
    a = jnp.zeros(P if shape == "constant" else (L, P), dtype)
    bar = jax.jit(jax.grad(lambda a: jnp.sum((w * linear_scan(
        a, b, method=method)).astype(np.float32))))(a)
    assert bar.dtype == dtype
    b, w = (np.asarray(z, float) for z in (b, w))
    each = np.concatenate([0 * b[:1], w[1:] * b[:-1]])
    exact = each.sum((0, 1) if shape == "constant" else 1)
    assert exact[-1].max() > 1000
    error = np.abs(np.asarray(bar, float) - exact)
    assert (error <= float(jnp.finfo(dtype).eps) / 2 * (1 + 1e-3) * exact).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_in_half_precision_is_within_its_bound(method, dtype):
    """1000 steps with a constant a, against the two scans of (8.5) and (8.6).

    A product of a state and a later derivative has the errors of both and one
    rounding; what is added up in single precision is rounded once at the end.
    """
    rng = np.random.default_rng(1)
    draw = lambda *shape: jnp.asarray(rng.uniform(0.5, 1.0, shape), dtype)
    a, b, w = draw(P) / 2, draw(1000, P), draw(1000, P)
    bar = jax.jit(jax.grad(lambda a: jnp.sum((w * linear_scan(
        a, b, method=method)).astype(np.float32))))(a)
    a, b, w = (np.asarray(z, float) for z in (a, b, w))
    xs, λ = linear_scan_naive(a, b), linear_scan_naive(a, w, reverse=True)
    exact = (λ[1:] * xs[:-1]).sum(0)
    u = float(jnp.finfo(dtype).eps) / 2
    each = (λ.max() * a_priori(a, b, dtype=dtype)
            + xs.max() * a_priori(a, w, reverse=True, dtype=dtype)
            + u * xs.max() * λ.max())
    assert np.abs(np.asarray(bar, float) - exact).max() <= 999 * each + u * exact.max()


SCANS = scan_sequential, scan_hillis_steele, scan_blelloch


@pytest.mark.parametrize("scan", SCANS)
def test_prefixes_of_an_operator_that_does_not_commute(scan):
    for L in range(20):
        letters = [chr(97 + k) for k in range(L)]
        result = tally(scan, lambda x, y: x + y, letters)
        assert result.prefixes == ["".join(letters[: k + 1]) for k in range(L)]


def test_work_and_depth_as_counted():
    for j in range(1, 10):
        L = 2**j
        count = {s: tally(s, lambda x, y: x + y, [1] * L) for s in SCANS}
        assert count[scan_sequential].work == L - 1
        assert count[scan_sequential].depth == L - 1
        assert count[scan_hillis_steele].work == L * j - L + 1
        assert count[scan_hillis_steele].depth == j
        assert count[scan_blelloch].work == 2 * L - 2 - j
        assert count[scan_blelloch].depth == max(2 * j - 2, 1)


fractions = st.fractions(-3, 3, max_denominator=7)
pairs = st.tuples(fractions, fractions)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(pairs, pairs, pairs)
def test_combine_is_associative_exactly(f, g, h):
    assert combine(combine(f, g), h) == combine(f, combine(g, h))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(pairs, pairs, fractions)
def test_combine_composes(f, g, x):
    step = lambda pair, x: pair[0] * x + pair[1]
    assert step(combine(f, g), x) == step(g, step(f, x))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(pairs, min_size=1, max_size=20))
def test_every_tree_gives_the_states(elements):
    x, states = 0, []
    for a, b in elements:
        x = a * x + b
        states.append(x)
    for scan in SCANS:
        assert [b for _, b in scan(combine, elements)] == states
