"""Every ValueError of the scan, by its message."""

import jax
import jax.numpy as jnp
import pytest

from annotated_ssm.scan import (
    linear_scan, linear_scan_packed, scan_in_chunks, scan_sequential, tally)

b = jnp.ones((5, 2, 3))
CASES = [
    (dict(a=jnp.ones(3), b=b, method="parallel"), r"method is 'parallel': need 'auto' or one of"),
    (dict(a=jnp.ones(3), b=jnp.ones(3)), r"b has shape \(3,\): need \(L, ..., P\)"),
    (dict(a=jnp.ones(2), b=b), r"a has shape \(2,\): need \(P,\), \(L, P\) or the shape of b"),
    (dict(a=jnp.ones((2, 3)), b=b), r"a has shape \(2, 3\).*\(5, 3\)"),
    (dict(a=jnp.ones((5, 1, 3)), b=b), r"a has shape \(5, 1, 3\)"),
    (dict(a=jnp.ones((5, 3)), b=b, method="time_invariant"), r"a has shape \(5, 3\): method 'time_invariant' needs \(P,\)"),
    (dict(a=jnp.ones(3), b=b, x0=jnp.ones(2)), r"x0 has shape \(2,\).*broadcasts to \(2, 3\)"),
    (dict(a=jnp.ones(3), b=b, x0=jnp.ones((1, 2, 3))), r"x0 has shape \(1, 2, 3\)"),
    (dict(a=jnp.ones(3, int), b=b), r"a has dtype int32: need real or complex floats"),
    (dict(a=jnp.ones(3), b=b.astype(int)), r"b has dtype int32"),
    (dict(a=jnp.ones(3), b=b, x0=jnp.ones(3, bool)), r"x0 has dtype bool"),
    (dict(a=jnp.ones(3), b=b, chunk=0), r"chunk is 0; need a whole number ≥ 1"),
    (dict(a=jnp.ones(3), b=b, chunk=2.0), r"chunk is 2.0"),
]


@pytest.mark.parametrize("arguments, message", CASES)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        linear_scan(**arguments)
    shape = {k: v for k, v in arguments.items() if hasattr(v, "shape")}
    rest = {k: v for k, v in arguments.items() if k not in shape}
    with pytest.raises(ValueError, match=message):
        jax.jit(lambda shape: linear_scan(**shape, **rest))(shape)


def test_tally_refuses_operands_in_the_wrong_order():
    flipped = lambda operator, x: scan_sequential(lambda e, l: operator(l, e), x)
    with pytest.raises(ValueError, match=r"combined 1..1 with 0..0: need neighbours"):
        tally(flipped, lambda x, y: x + y, [1, 2, 3])


B, A = jnp.ones((21, 4)), jnp.ones(4)
keep = lambda p, x, part: (x, part)


@pytest.mark.parametrize("function, inputs, options, words", [
    (keep, B, dict(chunk=0), "chunk is 0; need a whole number"),
    (keep, B, dict(chunk=True), "chunk is True; need a whole number"),
    (keep, B, dict(chunk=0.5), "chunk is 0.5; need a whole number"),
    (keep, (B, B[:10]), {},
     r"inputs have shapes \[\(21, 4\), \(10, 4\)\]: need at least one, and all as long"),
    (lambda p, x, q: (x, q[:1]), B, {},
     r"outputs have shapes \[\(1, 4\)\] for 4 steps: need all as long along axis 0"),
    (lambda p, x, q: (x, q.sum()), B, {}, r"outputs have shapes \[\(\)\] for 4 steps"),
    (keep, None, {}, r"inputs have shapes \[\]: need at least one"),
    (keep, B, dict(axis=5), "as long along axis 5"),
    (keep, B[:0], {}, "need at least one step"),
    (lambda p, x, q: q, B, {}, "function returns no pair"),
    *[(function, B, dict(chunk=chunk), words) for chunk in (4, 21) for function, words in (
        (lambda p, x, q: (x.astype(jnp.bfloat16), q),
         r"returns the state as \(\(4,\), 'bfloat16'\): need \(\(4,\), 'float32'\)"),
        (lambda p, x, q: (q, q), r"returns the state as \(\(\d+, 4\), 'float32'\): need"),
        (lambda p, x, q: ((x, x), q), r"returns the state as \(\(\(4,\), .*: need"))],
    (keep, B.astype(int), {}, "inputs has an array of int32"),
    (keep, B > 0, {}, "inputs has an array of bool"),
])
def test_what_cannot_run_in_chunks_is_refused(function, inputs, options, words):
    with pytest.raises(ValueError, match=words):
        scan_in_chunks(function, A, A, inputs, **({"chunk": 4} | options))


def test_integer_parameters_are_refused():
    with pytest.raises(ValueError, match="parameters has an array of int32"):
        scan_in_chunks(keep, jnp.arange(3), A, B, 4)


@pytest.mark.parametrize("a, b, x0, words", [
    ((3,), (5, 2, 3), (2, 3), r"shapes \(\(3,\), \(5, 2, 3\), \(2, 3\)\): need \(P,\), \(L"),
    ((3,), (5, 2, 6), (6,), r"\(6,\)\): need"),
    ((3,), (5, 2, 6), (1, 6), r"\(1, 6\)\): need"),
    ((5, 2), (5, 6), (6,), r"shapes \(\(5, 2\)"),
    ((4, 3), (5, 6), (6,), r"shapes \(\(4, 3\)"),
    ((5, 1, 3), (5, 2, 6), (2, 6), r"shapes \(\(5, 1, 3\)"),
    ((), (5, 6), (6,), r"shapes \(\(\)"),
    ((3,), (6,), (), r"\(6,\), \(\)\)"),
])
def test_packed_rows_of_another_shape_are_refused(a, b, x0, words):
    with pytest.raises(ValueError, match=words):
        linear_scan_packed(jnp.ones(a) + 0j, jnp.ones(b), jnp.ones(x0))


@pytest.mark.parametrize("dtype", [int, complex])
def test_packed_rows_are_real(dtype):
    a, b, x0 = jnp.ones(3) + 0j, jnp.ones((5, 6)), jnp.ones(6)
    with pytest.raises(ValueError, match="b has dtype .*: need real floats"):
        linear_scan_packed(a, b.astype(dtype), x0)
    with pytest.raises(ValueError, match="x0 has dtype .*: need real floats"):
        linear_scan_packed(a, b, x0.astype(dtype))


def test_packed_rows_need_a_coefficient_that_is_no_whole_number():
    with pytest.raises(ValueError, match="a has dtype int32: need real or complex"):
        linear_scan_packed(jnp.ones(3, int), jnp.ones((5, 6)), jnp.ones(6))
