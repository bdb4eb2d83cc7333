"""Every ValueError of the scan, by its message."""

import jax
import jax.numpy as jnp
import pytest

from annotated_ssm.scan import linear_scan, scan_sequential, tally

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
    (dict(a=jnp.ones(3), b=b, chunk=0), r"chunk is 0: need an integer of at least 1"),
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
