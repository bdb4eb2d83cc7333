"""`linear_scan` in float64: every method against the loop, gradients too."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.scan import (
    METHODS,
    linear_scan,
    linear_scan_naive,
    linear_scan_packed,
    scan_in_chunks,
)

LENGTHS = (0, 1, 2, 3, 5, 8, 13, 64, 100)
P, BATCH = 3, 2
CASES = [
    (method, shape)
    for method in METHODS
    for shape in ("constant", "steps", "full")
    if method != "time_invariant" or shape == "constant"
]
TOLERANCE = 1e-12


def draw(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@cache
def problem(L, shape, with_x0):
    """Arguments of size about one, and a cotangent for the result."""
    rng = np.random.default_rng(L)
    a_shape = {"constant": (P,), "steps": (L, P), "full": (L, BATCH, P)}[shape]
    a = draw(rng, *a_shape)
    a = a / np.abs(a) * rng.uniform(0.5, 1.0, a_shape)
    x0 = draw(rng, BATCH, P) if with_x0 else None
    return a, draw(rng, L, BATCH, P), x0, draw(rng, L, BATCH, P)


step = jax.jit(lambda a, x, b: a * x + b)


def loop(a, b, x0, reverse):
    """`linear_scan_naive` on JAX arrays, for automatic differentiation."""
    x = jnp.zeros(b.shape[1:], b.dtype) if x0 is None else x0
    L = len(b)
    if L == 0:
        return b
    a = [a] * L if a.ndim == 1 else jnp.unstack(a)
    b, xs = jnp.unstack(b), [None] * L
    for k in reversed(range(L)) if reverse else range(L):
        x = xs[k] = step(a[k], x, b[k])
    return jnp.stack(xs)


def pull_back(f, a, b, x0, w):
    arguments = [jnp.asarray(z) for z in (a, b, x0) if z is not None]
    xs, vjp = jax.vjp(lambda *z: f(*z) if len(z) == 3 else f(*z, None), *arguments)
    return xs, vjp(jnp.asarray(w))


@cache
def expected(L, shape, with_x0, reverse):
    a, b, x0, w = problem(L, shape, with_x0)
    return pull_back(lambda a, b, x0: loop(a, b, x0, reverse), a, b, x0, w)


@pytest.mark.parametrize("with_x0", [False, True], ids=["zero", "x0"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("method, shape", CASES)
def test_values_and_gradients_are_those_of_the_loop(
    method, shape, reverse, with_x0
):
    # x0=None is x0=0: the short lengths are enough for it.
    for L in LENGTHS if with_x0 else LENGTHS[:5]:
        a, b, x0, w = problem(L, shape, with_x0)

        @jax.jit
        def run(w, *arguments):
            def f(a, b, x0=None):
                return linear_scan(a, b, x0, reverse, method, chunk=5)

            xs, vjp = jax.vjp(f, *arguments)
            return xs, vjp(w)

        xs, bars = run(w, *(z for z in (a, b, x0) if z is not None))
        xs_loop, bars_loop = expected(L, shape, with_x0, reverse)
        assert xs.dtype == jnp.complex128 and xs.shape == b.shape
        naive = linear_scan_naive(a, b, x0, reverse)
        np.testing.assert_allclose(xs, naive, atol=TOLERANCE)
        np.testing.assert_allclose(xs, xs_loop, atol=TOLERANCE)
        assert len(bars) == len(bars_loop) == 2 + with_x0
        for bar, bar_loop in zip(bars, bars_loop):
            scale = 1 + np.abs(bar_loop).max(initial=0)
            np.testing.assert_allclose(bar, bar_loop, atol=scale * TOLERANCE)


@pytest.mark.parametrize("method", METHODS)
def test_a_real_gradient_for_a_real_coefficient(method):
    """a real, b complex: the cotangent of a is the real part of the sum."""
    _, b, x0, w = problem(13, "constant", True)
    a = np.linspace(-0.9, 0.9, P)
    xs, bars = pull_back(
        lambda a, b, x0: linear_scan(a, b, x0, method=method, chunk=4), a, b, x0, w
    )
    _, bars_loop = pull_back(lambda a, b, x0: loop(a, b, x0, False), a, b, x0, w)
    assert bars[0].dtype == jnp.float64
    for bar, bar_loop in zip(bars, bars_loop):
        np.testing.assert_allclose(bar, bar_loop, atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_a_broadcast_x0_gets_the_sum_of_its_cotangents(method):
    a, b, x0, w = problem(8, "constant", True)
    f = lambda a, b, x0: linear_scan(a, b, x0, method=method, chunk=3)
    full = pull_back(f, a, b, np.broadcast_to(x0[:1], x0.shape), w)
    short = pull_back(f, a, b, x0[0], w)
    np.testing.assert_allclose(short[0], full[0], atol=TOLERANCE)
    np.testing.assert_allclose(short[1][2], full[1][2].sum(0), atol=1e-11)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "chunked"])
def test_forward_mode_agrees_with_a_difference_quotient(method):
    a, b, x0, _ = problem(13, "constant", True)
    f = lambda a: linear_scan(a, b, x0, method=method)
    _, tangent = jax.jvp(f, (jnp.asarray(a),), (jnp.ones_like(a),))
    h = 1e-6
    quotient = (linear_scan_naive(a + h, b, x0) - linear_scan_naive(a - h, b, x0)) / (2 * h)
    np.testing.assert_allclose(tangent, quotient, rtol=1e-7, atol=1e-7)


def pendulum(parameters, x, part):
    """No linear recurrence: trees of states, inputs and outputs of two kinds."""
    w, v = parameters["w"], parameters["v"]

    def one(x, u):
        x = {"p": jnp.sin(w * x["p"] + x["q"]), "q": v @ x["q"] + u["b"] * u["a"]}
        return x, (x["p"] * x["q"], x["q"].sum())

    return jax.lax.scan(one, x, part)


def backwards(parameters, x, part):
    flip = lambda tree: jax.tree.map(lambda z: z[::-1], tree)
    x, out = pendulum(parameters, x, flip(part))
    return x, flip(out)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("L, chunk", [
    (1, 1), (7, 1), (7, 3), (8, 4), (9, 4), (7, 7), (3, 5)])
def test_chunks_of_any_recurrence_are_the_whole(L, chunk, reverse):
    rng = np.random.default_rng(0)
    parameters = {"w": rng.normal(size=3), "v": 0.5 * rng.normal(size=(3, 3))}
    x0 = {"p": rng.normal(size=3), "q": rng.normal(size=3)}
    inputs = {"a": rng.normal(size=L), "b": rng.normal(size=(L, 3))}
    function = backwards if reverse else pendulum

    def in_chunks(*arguments):
        return scan_in_chunks(function, *arguments, chunk, reverse)

    def pulled_back(f):
        out, vjp = jax.vjp(f, parameters, x0, inputs)
        return out, vjp(jax.tree.map(lambda z: jnp.cos(z + 1), out))

    expected = pulled_back(lambda *arguments: function(*arguments))
    for a, e in zip(jax.tree.leaves(pulled_back(in_chunks)),
                    jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)
    out = in_chunks(parameters, x0, inputs)
    for a, e in zip(jax.tree.leaves(out), jax.tree.leaves(expected[0]), strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


def test_chunks_along_another_axis():
    """Time is the last but one of u and the last but one of the result."""
    u = np.random.default_rng(0).normal(size=(2, 11, 3))

    def sums(_, x, u):
        xs = x[:, None] + jnp.cumsum(u, 1)
        return xs[:, -1], xs

    x, xs = scan_in_chunks(sums, None, jnp.zeros((2, 3)), jnp.asarray(u), 4, axis=-2)
    np.testing.assert_allclose(xs, np.cumsum(u, 1), rtol=0, atol=1e-13)
    np.testing.assert_allclose(x, u.sum(1), rtol=0, atol=1e-13)


def pack(z):
    return jnp.concatenate([z.real, z.imag], -1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", ["constant", "steps", "full"])
@pytest.mark.parametrize("batch", [(), (2, 3), (0,)])
@pytest.mark.parametrize("L", [0, 1, 2, 7])
def test_packed_rows_are_the_complex_ones(L, batch, shape, reverse):
    rng = np.random.default_rng(L)
    a_shape = {"constant": (P,), "steps": (L, P), "full": (L, *batch, P)}[shape]
    a = draw(rng, *a_shape)
    a = a / np.abs(a) * rng.uniform(0.5, 1.0, a_shape)
    b, x0 = draw(rng, L, *batch, P), draw(rng, *batch, P)
    plain = lambda a, b, x0: pack(linear_scan(a, b, x0, reverse, "sequential"))
    packed = lambda a, b, x0: linear_scan_packed(a, pack(b), pack(x0), reverse)
    (xs, back), (mine, mine_back) = (
        jax.vjp(f, *map(jnp.asarray, (a, b, x0))) for f in (plain, packed))
    np.testing.assert_allclose(
        mine, pack(linear_scan_naive(a, b, x0, reverse)), rtol=0, atol=TOLERANCE)
    w = rng.standard_normal(xs.shape)
    for own, theirs in zip(mine_back(w), back(w), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("shape", [(P,), (5, P)])
def test_packed_rows_have_second_derivatives(shape):
    rng = np.random.default_rng(0)
    a, b, x0 = 0.5 * draw(rng, *shape), *(rng.normal(size=s) for s in ((5, 2 * P), 2 * P))
    plain = lambda a, b, x0: pack(linear_scan(
        a, *(jax.lax.complex(*jnp.split(z, 2, -1)) for z in (b, x0)),
        method="sequential"))

    def second(f):
        loss = lambda a, b: jnp.sin(f(a, b, x0)).sum()
        size = lambda a, b: sum((jnp.abs(z) ** 2).sum()
                                for z in jax.grad(loss, (0, 1))(a, b))
        return jax.grad(size, (0, 1))(jnp.asarray(a), jnp.asarray(b))

    for mine, theirs in zip(second(linear_scan_packed), second(plain), strict=True):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=TOLERANCE * scale)


def test_packed_rows_take_any_floats():
    """A coefficient of few digits, or a real one, beside rows of many."""
    rng = np.random.default_rng(0)
    a = np.float32([0.5, 0.25, -0.5])
    b, x0 = rng.normal(size=(4, 2 * P)), rng.normal(size=2 * P)
    expected = linear_scan_packed(a + 0j, b, x0)
    assert expected.dtype == np.float64
    np.testing.assert_array_equal(linear_scan_packed(a, b, x0), expected)
    half = [z.astype(np.float16) for z in (a, b, x0)]
    for coefficient in a, half[0]:
        xs = linear_scan_packed(coefficient, *half[1:])
        assert xs.dtype == np.float32
        np.testing.assert_allclose(xs, expected, atol=0.02)   # halves have 3 digits
