"""One of two processes of test_sequence_parallel.py that share one sequence.

Arguments: the coordinator's address, and which process this is. Each has four
devices and its own half of the inputs; both print what they found.
"""

import sys

import jax

# Set before there are devices: the messages between processes on CPUs.
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

from annotated_ssm.scan import linear_scan, linear_scan_naive  # noqa: E402
from annotated_ssm.sequence_parallel import sequence_parallel_scan  # noqa: E402

L, BATCH, P = 32, 2, 3
process = jax.process_index()
assert len(jax.devices()) == 8 and len(jax.local_devices()) == 4
mesh = Mesh(np.array(jax.devices()), ("sequence",))
split = NamedSharding(mesh, PartitionSpec("sequence"))
mine = slice(process * L // 2, (process + 1) * L // 2)

rng = np.random.default_rng(0)  # the same in both; each hands in its half
draw = lambda *shape: (rng.standard_normal(shape)
                       + 1j * rng.standard_normal(shape)).astype(np.complex64)
a, b, x0 = draw(L, P), draw(L, BATCH, P), draw(P)
a = (0.9 * a / np.abs(a)).astype(np.complex64)
a_parts, b_parts = (jax.make_array_from_process_local_data(split, z[mine])
                    for z in (a, b))


def energy(scan):
    def f(a, b, x0):
        xs = scan(a, b, x0)
        return jnp.sum(jnp.abs(xs) ** 2), xs
    return jax.jit(jax.value_and_grad(f, (0, 1, 2), has_aux=True))


across = lambda a, b, x0: sequence_parallel_scan(a, b, x0, mesh=mesh)
alone = lambda a, b, x0: linear_scan(a, b, x0, method="sequential")
(value, xs), slopes = energy(across)(a_parts, b_parts, x0)
(value_1, xs_1), slopes_1 = energy(alone)(a, b, x0)


def same(found, right, tol):
    """This process's shards, each against its place in the whole."""
    for shard in found.addressable_shards:
        error = np.abs(np.asarray(shard.data) - np.asarray(right)[shard.index])
        assert error.max() <= tol, (error.max(), tol)


# Loops and short trees, both sides: 2 * 4u sum (k - j + 4)|a|^(k-j)|b_j|.
u = np.finfo(np.float32).eps / 2
once = linear_scan_naive(np.abs(a), np.abs(b), np.abs(x0))
tol = 8 * u * (linear_scan_naive(np.abs(a), once) + 3 * once).max()
top = once.max()
same(xs, xs_1, tol)
# 2 conj(x) scanned back (at most 1 / (1 - 0.9) = 10 of them) times x; sums over
# the batch and, for the value, over time.
same(value, value_1, L * BATCH * P * (2 * top * tol + L * BATCH * P * u * top**2))
back = 2 * (10 * tol + 8 * u * 10 * 12 * top)
for slope, right in zip(slopes, slopes_1):
    same(slope, right, BATCH * (back * (1 + top) + 20 * top * tol))
assert b_parts.addressable_shards[0].data.shape == (L // 8, BATCH, P)
eager = across(a_parts, b_parts, None)
same(eager, alone(a, b, None), tol)
print("process", process, "ok")
