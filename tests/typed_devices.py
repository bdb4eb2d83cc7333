"""Run by test_sequence_parallel.py in a process of its own, with 8 CPU devices.

A batch is spread over the devices in one of two ways: "manual", by `shard_map`,
which checks over which devices values vary; or "explicit", on a mesh whose
shardings are types. Values and gradients must be those of one device.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from annotated_ssm import bank, s4, s4d, s5
from annotated_ssm.scan import METHODS, linear_scan
from annotated_ssm.state_space import recurrence

KIND = sys.argv[1]
BATCH, L, H, N, P = 8, 5, 2, 4, 3
U = np.finfo(np.float32).eps / 2
assert len(jax.devices()) == BATCH
mesh = jax.make_mesh((BATCH,), ("data",), axis_types=(
    AxisType.Auto if KIND == "manual" else AxisType.Explicit,))
rng = np.random.default_rng(0)


def real(*shape):
    return rng.uniform(0.2, 1, shape).astype(np.float32)


def compare(name, run, shared, data, axes, here=None):
    """run(shared, data) -> a tree; data has its batch along axes, results too.

    What one device gives is returned, to be compared with another method.
    """
    is_axis = lambda n: isinstance(n, int)
    spec = lambda n: PartitionSpec(*(None,) * n, "data")
    given, out = (jax.tree.map(spec, tree, is_leaf=is_axis) for tree in axes)

    def loss(run, shared, data):
        return sum(jnp.sum(jnp.abs(jnp.sin(z))) for z in jax.tree.leaves(
            run(shared, data)))

    both = jax.jit(jax.value_and_grad(loss, (1, 2), allow_int=True),
                   static_argnums=0)
    here = both(run, shared, data) if here is None else here
    if KIND == "manual":
        run = jax.shard_map(run, mesh=mesh, in_specs=(PartitionSpec(), given),
                            out_specs=out)
        there = both(run, shared, data)
    else:
        put = lambda z, spec: jax.device_put(z, NamedSharding(mesh, spec))
        with jax.set_mesh(mesh):
            there = both(run, shared, jax.tree.map(put, data, given))
    for one, other in zip(*map(jax.tree.leaves, (here, there)), strict=True):
        if one.dtype != jax.dtypes.float0:
            # sums over the batch and the samples, each of a few roundings
            size = 16 * BATCH * L * max(1.0, float(jnp.abs(one).max()))
            assert np.abs(np.asarray(one) - np.asarray(other)).max() <= U * size, name
    return here


def scans(kind, reverse):
    a = {"a": real(*((P,) if kind == "constant" else (L, BATCH, P)))}
    data = {"b": real(L, BATCH, P)} | ({"x0": real(BATCH, P)} if reverse else {})
    shared, data = (a, data) if kind == "constant" else ({}, a | data)
    axes, here = {name: 0 if name == "x0" else 1 for name in data}, None
    for method in METHODS:
        if kind == "constant" or method != "time_invariant":
            run = lambda shared, data: linear_scan(
                **shared, **data, reverse=reverse, method=method, chunk=2)
            here = compare((method, reverse, kind), run, shared, data, (axes, 1), here)


def layers(name, systems, apply, *options):
    """A layer in both directions, run in one way or several."""
    lengths = np.array([5, 0, 3, 1, 5, 2, 4, 5])
    everything = {"steps": real(BATCH, L), "mask": np.arange(L) < lengths[:, None]}
    data = {"u": real(BATCH, L, H)} | {
        key: everything.get(key, z) for key, z in options[0].items()}
    axes, here = {key: 1 if key == "x0" else 0 for key in data}, None
    for how in options[1:]:
        run = lambda system, data: apply(*system, **data, bidirectional=True, **how)
        here = compare((name, *data, how), run, systems, data, (axes, (0, 1)), here)


def s5_system():
    p = s5.initialize(jax.random.key(0), H, 2 * P, bidirectional=True)
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    return p["Lambda_re"] + 1j * p["Lambda_im"], B, C, p["D"], jnp.exp(p["log_dt"])


def dense(shared, data):
    return jax.vmap(lambda u: recurrence(*shared, u))(data)


for kind in "constant", "full":
    for reverse in False, True:
        scans(kind, reverse)
ways = [{"scan_method": method} for method in METHODS if method != "chunked"]
ways.append({"scan_method": "chunked", "chunk": 2})
layers("s5", s5_system(), s5.apply_ssm, {"mask": 0, "x0": real(2, BATCH, P) + 0j}, *ways)
ways = [way for way in ways if way["scan_method"] != "time_invariant"]
layers("s5", s5_system(), s5.apply_ssm, {"steps": 0}, *ways)
for module, initial in (bank, s4d), (s4, s4):
    system = initial.system(initial.initialize(jax.random.key(0), H, N,
                                               bidirectional=True))
    x0 = real(2, BATCH, H, N // 2) + 0j
    layers(module.__name__, system, module.apply_ssm, {"mask": 0, "x0": x0},
           {"mode": "convolution"})
    layers(module.__name__, system, module.apply_ssm, {"steps": 0},
           {"mode": "recurrence"})
compare("dense", dense, (real(N, N) / N, real(N), real(N), real()), real(BATCH, L),
        (0, (0, 0)))
print("ok")
