"""Run by test_sequence_parallel.py in a process of its own, with 8 CPU devices.

The arguments name meshes; JAX_ENABLE_X64 says in which precision.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from annotated_ssm import s5
from annotated_ssm.scan import a_priori, linear_scan_naive
from annotated_ssm.sequence_parallel import sequence_parallel_scan

P, BATCH = 3, 4
DOUBLE = jax.config.jax_enable_x64
COMPLEX, REAL = (complex, float) if DOUBLE else (np.complex64, np.float32)
U = np.finfo(REAL).eps / 2
devices = np.array(jax.devices())
assert len(devices) == 8, devices


def mesh_of(shape, names, kind=AxisType.Auto):
    count = int(np.prod(shape))
    return Mesh(devices[:count].reshape(shape), names, axis_types=(kind,) * len(names))


MESHES = {
    "8": (mesh_of((8,), ("sequence",)), {}),
    "2x4": (mesh_of((2, 4), ("data", "sequence")), {"batch": "data"}),
    "4x2": (mesh_of((4, 2), ("data", "sequence")), {"batch": "data"}),
    "unused": (mesh_of((2, 4), ("model", "sequence")), {}),
    "two-axes": (mesh_of((2, 2, 2), ("data", "far", "near")),
                 {"batch": "data", "sequence": ("far", "near")}),
    "turned": (mesh_of((2, 4), ("far", "near")), {"sequence": ("near", "far")}),
    "1": (mesh_of((1,), ("sequence",)), {}),
    "explicit": (mesh_of((2, 4), ("data", "sequence"), AxisType.Explicit),
                 {"batch": "data"}),
}
KINDS = "constant", "steps", "full"


def problem(L, kind, dtype, seed):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        z = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return (z if np.issubdtype(dtype, np.complexfloating) else z.real).astype(dtype)

    a = draw(*{"constant": (P,), "steps": (L, P), "full": (L, BATCH, P)}[kind])
    a = (a / np.abs(a) * rng.uniform(0.5, 1, a.shape)).astype(dtype)
    return a, draw(L, BATCH, P), draw(BATCH, P), draw(L, BATCH, P)


def exact(a, b, x0, reverse, w):
    """States and cotangents in float64, by (8.5) and (8.6) of chapter 8."""
    flip = slice(None, None, -1 if reverse else 1)
    every = np.broadcast_to(a if a.ndim != 2 else a[:, None], b.shape).astype(complex)
    every, w = every[flip], w[flip]
    xs = linear_scan_naive(every, b[flip], x0)
    λ = linear_scan_naive(np.roll(every, -1, 0), w, reverse=True)
    before = np.concatenate([x0[None], xs[:-1]])[:len(xs)]
    a_bar = (λ * before)[flip]
    a_bar = a_bar.sum((0, 1)) if a.ndim == 1 else a_bar.sum(1) if a.ndim == 2 else a_bar
    x0_bar = every[0] * λ[0] if len(b) else 0 * x0
    return xs[flip], (a_bar, λ[flip], x0_bar)


def bounds(a, b, x0, reverse, w):
    """A priori errors of the states and the cotangents, by loops and short trees.

    States and λ: `a_priori`. A coefficient's cotangent is a sum of at most
    m = L BATCH products of the two, each with an error
    |λ| e_x + |x| e_λ + 4u|λ||x|, and m - 1 more roundings.
    """
    flip = slice(None, None, -1 if reverse else 1)
    size = np.abs(np.broadcast_to(a if a.ndim != 2 else a[:, None], b.shape))[flip]
    b, w, x0 = np.abs(b)[flip], np.abs(w)[flip], np.abs(x0)

    following = np.roll(size, -1, 0)
    xs, e_x = linear_scan_naive(size, b, x0), a_priori(size, b, x0, dtype=REAL)
    λ = linear_scan_naive(following, w, reverse=True)
    e_λ = a_priori(following, w, reverse=True, dtype=REAL)
    largest_x, largest_λ, m = max(xs.max(), x0.max()), λ.max(), xs[..., 0].size
    e_a = m * (largest_λ * e_x + largest_x * e_λ + (m + 4) * U * largest_λ * largest_x)
    return e_x, (e_a, e_λ, e_λ + 4 * U * largest_λ)


def check(mesh, names, L, kind, reverse, method="auto", dtype=COMPLEX, with_x0=True):
    a, b, x0, w = problem(L, kind, dtype, seed=L + 7 * reverse)
    run = partial(sequence_parallel_scan, reverse=reverse, method=method, mesh=mesh,
                  **names)
    given = (a, b, x0) if with_x0 else (a, b)
    x0 = x0 if with_x0 else 0 * x0

    @jax.jit
    def both(given, w):
        xs, pull_back = jax.vjp(run, *given)
        return xs, pull_back(w)

    xs, bars = both(given, w)
    assert xs.shape == b.shape and xs.dtype == dtype
    assert [bar.shape for bar in bars] == [z.shape for z in given]
    if L == 0:
        assert not any(np.asarray(bar).any() for bar in bars)
        return
    right, right_bars = exact(a, b, x0, reverse, w)
    e_x, e_bars = bounds(a, b, x0, reverse, w)
    case = dict(mesh=mesh.shape, L=L, kind=kind, reverse=reverse, method=method)
    assert np.abs(np.asarray(xs) - right).max() <= e_x, case
    for name, bar, good, tol in zip(("a", "b", "x0"), bars, right_bars, e_bars):
        assert np.abs(np.asarray(bar) - good).max() <= tol, (case, name)


def lengths(mesh, names, turn):
    """Every length, with kinds and directions in turn; odd ones forth and back."""
    for i, L in enumerate((0, 1, 7, 8, 13, 64)):
        check(mesh, names, L, KINDS[(i + turn) % 3], bool((i + turn) % 2))
    for i, kind in enumerate(KINDS):
        check(mesh, names, 13, kind, bool((i + turn) % 2), with_x0=i != 1)


def methods(mesh, names):
    for method in ("associative", "time_invariant", "chunked"):
        for L, reverse in ((13, False), (24, True)):
            check(mesh, names, L, "constant", reverse, method)
    for L, reverse in ((13, True), (24, False)):
        check(mesh, names, L, "full", reverse, "associative")
        check(mesh, names, L, "steps", reverse, "chunked")
        check(mesh, names, L, "steps", reverse, dtype=REAL)


def transformed(mesh, names):
    """Under vmap, twice differentiated, and eagerly."""
    a, b, x0, w = problem(16, "constant", REAL, 0)
    run = partial(sequence_parallel_scan, mesh=mesh, **names)
    many = jnp.stack([b, w])
    each = jnp.stack([run(a, b), run(a, w)])
    np.testing.assert_array_equal(jax.vmap(partial(run, a))(many), each)
    # l = sum x_1^2 / 2 with x_1 = a b_0 + b_1: its second derivative is b_0^2
    second = jax.jacrev(jax.grad(lambda a: (run(a, b)[1] ** 2).sum() / 2))(a)
    right = np.diag((b[0].astype(float) ** 2).sum(0))
    np.testing.assert_allclose(second, right, atol=8 * BATCH * U * right.max())


def s5_layer(mesh, names):
    """s5.apply_ssm with this scan, split, against one device: uneven, padded."""
    p = s5.initialize(jax.random.key(0), 4, 2 * P, bidirectional=True,
                      dt_min=0.05, dt_max=0.5)
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    system = p["Lambda_re"] + 1j * p["Lambda_im"], B, C, p["D"], jnp.exp(p["log_dt"])
    rng = np.random.default_rng(3)
    u = rng.standard_normal((BATCH, 32, 4)).astype(REAL)
    split = jax.device_put(u, NamedSharding(mesh, PartitionSpec("data", "sequence")))
    steps = rng.uniform(0, 2, (BATCH, 32)).astype(REAL)
    mask = np.arange(32) < np.array([[32], [9], [0], [20]])
    for options in {}, dict(steps=steps), dict(mask=mask), dict(mask=mask, steps=steps):
        def loss(system, u, scan_method):
            y, x = s5.apply_ssm(*system, u, bidirectional=True, **options,
                                scan_method=scan_method)
            return jnp.sum(jnp.sin(y)) + jnp.sum(jnp.abs(x) ** 2), y

        both = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True),
                       static_argnums=2)
        here = both(system, u, "sequential")
        there = both(system, split, partial(sequence_parallel_scan, mesh=mesh, **names))
        for one, other in zip(*map(jax.tree.leaves, (here, there)), strict=True):
            # sums over the batch and 32 samples, each of a few roundings
            size = BATCH * 32 * max(1.0, float(jnp.abs(one).max()))
            assert np.abs(np.asarray(one) - other).max() <= 8 * U * size, options


for name in sys.argv[1:]:
    mesh, names = MESHES[name]
    with jax.set_mesh(mesh) if name == "explicit" else mesh:
        lengths(mesh, names, turn=[*MESHES].index(name))
        if name == "2x4":
            methods(mesh, names)
            s5_layer(mesh, names)
        if name == "8":
            transformed(mesh, names)
    print(name)
