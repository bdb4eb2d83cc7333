"""Every ValueError of the scan over many devices, by its message."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from annotated_ssm.sequence_parallel import sequence_parallel_scan, summarize

a, b = jnp.ones(3), jnp.ones((8, 5, 3))
device = jax.devices()[0]
mesh = Mesh(np.array([[device]]), ("data", "sequence"))
# Only counted, never run on: a batch of 5 can't be split in two.
twice = Mesh(np.array([[device], [device]]), ("data", "sequence"))

CASES = [
    (dict(mesh=None), r"mesh is None; need a jax.sharding.Mesh"),
    (dict(mesh=("sequence",)), r"mesh is \('sequence',\); need a jax.sharding.Mesh"),
    (dict(sequence="time"), r"sequence is 'time'; need an axis of the mesh or a tuple "
     r"of them, from \('data', 'sequence'\)"),
    (dict(sequence=()), r"sequence is \(\); need an axis of the mesh"),
    (dict(sequence=("sequence", "near")), r"sequence is \('sequence', 'near'\); need"),
    (dict(sequence=None), r"sequence is None; need an axis"),
    (dict(batch="model"), r"batch is 'model'; need an axis of the mesh"),
    (dict(batch="sequence"), r"sequence is 'sequence' and batch is "
     r"'sequence'; need each axis once"),
    (dict(sequence=("data", "data")), r"need each axis once"),
    (dict(b=b[:, 0], batch="data"), r"batch is 'data' and b has shape \(8, 3\); need "
     r"\(L, batch, ..., P\)"),
    (dict(mesh=twice, batch="data"), r"b has shape \(8, 5, 3\); need a multiple of 2 "
     r"in axis 1, which batch='data' splits"),
    # and what linear_scan refuses
    (dict(method="parallel"), r"method is 'parallel': need 'auto' or one of"),
    (dict(a=jnp.ones((8, 3)), method="time_invariant"), r"'time_invariant' needs \(P,\)"),
    (dict(a=jnp.ones((1, 3))), r"a has shape \(1, 3\): need"),
    (dict(b=jnp.ones(3)), r"b has shape \(3,\): need \(L, ..., P\)"),
    (dict(x0=jnp.ones((8, 5, 3))), r"x0 has shape \(8, 5, 3\)"),
    (dict(b=b.astype(int)), r"b has dtype int32"),
]


@pytest.mark.parametrize("arguments, message", CASES)
def test_a_wrong_argument_is_named(arguments, message):
    given = dict(a=a, b=b, mesh=mesh) | arguments
    with pytest.raises(ValueError, match=message):
        sequence_parallel_scan(**given)
    arrays = {k: given.pop(k) for k in ("a", "b", "x0") if k in given}
    with pytest.raises(ValueError, match=message):
        jax.jit(lambda z: partial(sequence_parallel_scan, **given)(**z))(arrays)


@pytest.mark.parametrize("arguments, message", [
    (dict(b=b[:0]), r"b has shape \(0, 5, 3\); need at least one step"),
    (dict(method="up"), r"method is 'up': need"),
    (dict(a=jnp.ones(2)), r"a has shape \(2,\): need"),
])
def test_a_wrong_stretch_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        summarize(**dict(a=a, b=b) | arguments)
