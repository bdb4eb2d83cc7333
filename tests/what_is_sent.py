"""Run by test_sequence_parallel.py in a process of its own, with 8 CPU devices.

What the compiled programs exchange: pairs, rows, sums; nothing of length L.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from annotated_ssm.scan import linear_scan
from annotated_ssm.sequence_parallel import collectives, sequence_parallel_scan

P, BATCH, BYTES = 3, 4, 8
devices = np.array(jax.devices())
MESHES = (Mesh(devices, ("sequence",)), None), (
    Mesh(devices.reshape(2, 4), ("data", "sequence")), "data")


def arguments(mesh, batch, L, kind):
    """Split as the scan wants them: (a, b, x0), shapes only."""
    shapes = {"constant": (P,), "steps": (L, P), "full": (L, BATCH, P)}
    axes = "sequence", batch
    on = lambda shape, *axes: jax.ShapeDtypeStruct(
        shape, jnp.complex64, sharding=NamedSharding(mesh, PartitionSpec(*axes)))
    a = shapes[kind]
    return (on(a, *axes[:len(a) - 1]), on((L, BATCH, P), *axes),
            on((BATCH, P), batch))


for mesh, batch in MESHES:
    D, M = mesh.shape["sequence"], BATCH // mesh.shape.get("data", 1)
    f = partial(sequence_parallel_scan, mesh=mesh, batch=batch)
    back = lambda a, b, x0, w: jax.vjp(f, a, b, x0)[1](w)
    for kind in ("constant", "steps", "full"):
        rows = M + (M if kind == "full" else 1)  # of B and of A
        gathered = "all-gather", D * rows * P * BYTES
        for L in (64, 4096):
            a, b, x0 = arguments(mesh, batch, L, kind)
            forward = collectives(jax.jit(f).lower(a, b, x0).compile())
            assert forward == [gathered], (forward, gathered)
            found = collectives(jax.jit(back).lower(a, b, x0, b).compile())
            # twice the pairs; a row of states and one of coefficients that vary;
            # the cotangents of x0, and of what the devices share
            expected = [gathered] * 2 + [("collective-permute", M * P * BYTES)]
            if kind != "constant":
                row = (M if kind == "full" else 1) * P * BYTES
                expected.append(("collective-permute", row))
            summed = sum(size for name, size in found if name == "all-reduce")
            shared = {"constant": P, "full": 0,
                      "steps": L // D * P if batch else 0}[kind]
            assert summed == (M * P + shared) * BYTES, found
            rest = [c for c in found if c[0] != "all-reduce"]
            assert sorted(rest) == sorted(expected), (rest, expected)

# What is left to the compiler: the loop collects all of it.
mesh = MESHES[0][0]
a, b, _ = arguments(mesh, None, 4096, "constant")
loop = jax.jit(partial(linear_scan, method="sequential")).lower(a, b).compile()
assert collectives(loop) == [("all-gather", 4096 * BATCH * P * BYTES)]

# A layer's products are done where the samples are: y = Re(C x) + u, x from B u.
mesh = MESHES[1][0]
H, L = 5, 64
scan = partial(sequence_parallel_scan, mesh=mesh, batch="data")
rng = np.random.default_rng(0)
draw = lambda *shape: (rng.standard_normal(shape)
                       + 1j * rng.standard_normal(shape)).astype(np.complex64)
B, C, u = draw(P, H), draw(H, P), draw(BATCH, L, H).real
a = np.exp(np.array([-0.1 + 0.2j, -0.2, -0.05 + 1j])).astype(np.complex64)


def layer(scan, a, B, C, u):
    xs = scan(a, jnp.einsum("mlh,ph->lmp", u, B))
    return jnp.einsum("lmp,hp->mlh", xs, C).real + u


loss = lambda scan, *z: jnp.sum(layer(scan, *z) ** 2)
parts = jax.device_put(u, NamedSharding(mesh, PartitionSpec("data", "sequence")))
program = jax.jit(partial(layer, scan)).lower(a, B, C, parts).compile()
assert collectives(program) == [("all-gather", 4 * (1 + 2) * P * BYTES)]
assert program(a, B, C, parts).sharding.spec[:2] == ("data", "sequence")

# In float64 by NumPy: the layer, and its gradient by C and a bound from sizes.
xs = np.zeros((L, BATCH, P), complex)
x = np.zeros((BATCH, P))
for k in range(L):
    x = xs[k] = a.astype(complex) * x + u[:, k].astype(float) @ B.T
y = np.einsum("lmp,hp->mlh", xs, C).real + u
C_bar = 2 * np.einsum("mlh,lmp->hp", y, xs)
eps = np.finfo(np.float32).eps
size = (np.abs(u) @ np.abs(B).T).max() / (1 - np.abs(a).max())
big = P * size * np.abs(C).max() + np.abs(u).max()
tol = 4 * (L + H + P) * eps * big
assert np.abs(program(a, B, C, parts) - y).max() <= tol
slopes = jax.jit(jax.grad(partial(loss, scan), (0, 1, 2, 3)))(a, B, C, parts)
one = jax.grad(partial(loss, partial(linear_scan, method="sequential")), (0, 1, 2, 3))
assert np.abs(slopes[2] - C_bar).max() <= 2 * L * BATCH * (tol * size + big * tol)
for found, right in zip(slopes, one(a, B, C, u)):
    scale = np.abs(right).max()
    assert np.abs(found - right).max() <= 4 * L * BATCH * eps * scale
print("ok")
