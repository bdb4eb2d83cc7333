"""Stacks of one, two and three layers: every way of running, double precision.

The oracle knows dense matrices and loops: no kernel, no scan, no pairs.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.linalg import expm

from annotated_ssm.layers import DSS, S4, S4D

H, N, M, L = 2, 4, 2, 64
LENGTHS = np.array([1, 2, 3, 5, 8, 13, 64])
KINDS = {"S4": S4, "S4D": S4D, "DSS": DSS}


def both(a):
    return np.concatenate([a, a.conj()], -1)


def dense(layer, u, x0, bidirectional):
    """One sequence through one layer, by matrices of all states."""
    arrays = [np.asarray(a) for a in layer.dynamics()]
    if len(arrays) == 5:
        arrays.insert(1, np.zeros((1, M)))                 # no low rank
    Λ, P, B, C, D, dt = arrays
    Λ, B = (np.broadcast_to(a, (H, M)) for a in (Λ, B))
    y, last = D * u, []
    for i in range(1 + bidirectional):
        x = np.zeros((H, M), complex) if x0 is None else x0
        out = []
        for h in range(H):
            A = np.diag(both(Λ[h])) - both(P).T @ both(P).conj()
            b, c, I = both(B[h]), both(C[h, i*M:(i+1)*M]), np.eye(N)
            if layer.method == "bilinear":
                left = I - dt[h] / 2 * A
                step = np.linalg.solve(left, I + dt[h] / 2 * A)
                into = np.linalg.solve(left, dt[h] * b)
            else:
                X = expm(dt[h] * np.block([[A, b[:, None]], [np.zeros((1, N + 1))]]))
                step, into = X[:-1, :-1], X[:-1, -1]
            state, order = both(x[h]), range(len(u))
            for k in order[::-1] if i else order:
                state = step @ state + into * u[k, h]
                y[k, h] += (c @ state).real
            out.append(state[:M])
        last.append(np.array(out))
    return y, last[0]


def stack(kind, method, bidirectional, mode):
    """Three layers in double precision; the same ones for either mode."""
    layers = [KINDS[kind](H, N, method=method, bidirectional=bidirectional,
                          dt_min=0.01, dt_max=0.5, mode=mode, rngs=nnx.Rngs(i))
              for i in range(3)]
    for layer in layers:
        graph, state = nnx.split(layer)
        nnx.update(layer, jax.tree.map(lambda a: a.astype(jnp.float64), state))
    return layers


def through(run, layers, x):
    """Outputs after one, two and three layers, and the layers' states."""
    outputs, states = [], []
    for i, layer in enumerate(layers):
        x, state = run(i, layer, x)
        outputs.append(x)
        states.append(state)
        x = (jnp if isinstance(x, jax.Array) else np).tanh(x)
    return outputs, states


def assert_equal(got, want):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind, method",
                         [*itertools.product(KINDS, ("zoh", "bilinear"))])
def test_every_way_of_running_a_stack(kind, method, bidirectional):
    """Lengths 1, 2, 3, 5, 8, 13, 64 in one padded batch, with and without a state."""
    rng = np.random.default_rng(0)
    u, mask = rng.normal(size=(7, L, H)), np.arange(L) < LENGTHS[:, None]
    x0 = rng.normal(size=(3, 7, H, M)) + 1j * rng.normal(size=(3, 7, H, M))
    starts = [None] if bidirectional else [None, x0]
    # One program for a layer, not one for the stack: three times less to compile.
    whole = nnx.jit(lambda layer, u, mask, x0: layer(u, None, mask, x0))
    one = nnx.jit(lambda layer, u_k, x: layer.step(u_k, x))
    for mode in "convolution", "recurrence":
        layers = stack(kind, method, bidirectional, mode)
        run = lambda u, mask, x0: through(
            lambda i, layer, x: whole(layer, x, mask, None if x0 is None else x0[i]),
            layers, u)
        for start in starts:
            outputs, states = run(u, mask, start)
            assert_equal(run(u[-1:], None, None if start is None else start[:, -1:]),
                         jax.tree.map(lambda a: a[:, -1:] if bidirectional and
                                      a.ndim == 4 else a[-1:], (outputs, states)))
            for row, n in enumerate(LENGTHS):
                want, last = through(
                    lambda i, layer, x: dense(layer, x, None if start is None
                                              else start[i, row], bidirectional),
                    layers, u[row, :n])
                assert_equal([y[row, :n] for y in outputs], want)
                assert not any(np.any(y[row, n:]) for y in outputs)
                assert_equal([x[(0, row) if bidirectional else row] for x in states],
                             last)
    if not bidirectional:
        outputs, states = run(u, None, x0)
        pieces, x = [], list(x0)
        for part in np.split(u, [16, 32, 48], axis=1):
            y, x = run(part, None, x)
            pieces.append(y)
        assert_equal([jnp.concatenate(ys, 1) for ys in zip(*pieces)], outputs)
        assert_equal(x, states)
        x, ys = list(x0), []
        for k in range(13):
            y, x = through(lambda i, layer, v: one(layer, v, x[i]), layers, u[:, k])
            ys.append(y)
        assert_equal([jnp.stack(steps, 1) for steps in zip(*ys)],
                     [y[:, :13] for y in outputs])
