"""LSSL, GRU, LSTM, attention and linear attention against their definitions."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm.attention import (Attention, LinearAttention, causal_product,
                                     causal_product_naive, feature_map, rotate)
from annotated_ssm.baselines import (LSSL, LSSL_METHODS, lssl_apply,
                                     lssl_initialize, lssl_kernel)
from annotated_ssm.cauchy import dplr_kernel
from annotated_ssm.hippo import transition
from annotated_ssm.models import SequenceBlock
from annotated_ssm.nplr import dplr
from annotated_ssm.recurrent import GRU, LSTM

H, L, BATCH = 8, 23, 3
EPS = np.finfo(np.float32).eps
TIMED = {
    "lssl": functools.partial(LSSL, N=6),
    "lstm": functools.partial(LSTM, append_steps=True),
    "attention": functools.partial(Attention, heads=2, capacity=L),
    "linear": functools.partial(LinearAttention, heads=2, chunk=5),
}
UNTIMED = {"gru": GRU}
CAUSAL = TIMED | UNTIMED
BOTH = {"lssl, both": functools.partial(LSSL, N=4, bidirectional=True),
        "attention, both": functools.partial(Attention, bidirectional=True),
        "linear, both": functools.partial(LinearAttention, bidirectional=True)}
call = nnx.jit(lambda layer, *a: layer(*a))
advance = nnx.jit(lambda layer, *a: layer.step(*a))


def inputs(name):
    rng = np.random.default_rng(1)
    u = rng.standard_normal((BATCH, L, H)).astype(np.float32)
    steps = rng.uniform(0.3, 2.0, (BATCH, L)).astype(np.float32)
    return u, None if name in UNTIMED else steps


def close(a, b):
    # L samples, each of some products of H numbers; angles up to 2 L radians.
    a, b = jax.tree.leaves(a), jax.tree.leaves(b)
    for x, y in zip(a, b, strict=True):
        scale = max(1.0, float(np.abs(y).max(initial=0)))
        np.testing.assert_allclose(x, y, rtol=0, atol=4 * L * H * EPS * scale)


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_pieces_and_padding_are_one_sequence(name):
    layer, (u, steps) = CAUSAL[name](H, rngs=nnx.Rngs(0)), inputs(name)
    before = jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(layer)))
    y, last = call(layer, u, steps)
    state, outputs = layer.init_state(BATCH), []
    for k in range(L):
        at = None if steps is None else steps[:, k]
        y_k, state = advance(layer, u[:, k], state, at)
        outputs.append(y_k)
    close(jnp.stack(outputs, 1), y)
    close(state, last)

    mask = np.arange(L) < np.array([[L], [9], [1]])
    nonsense = np.where(mask[..., None], u, np.nan).astype(np.float32)
    odd = None if steps is None else np.where(mask, steps, np.nan)
    padded, held = call(layer, nonsense, odd, mask)
    np.testing.assert_array_equal(np.asarray(padded)[~mask], 0)
    close(np.where(mask[..., None], y, 0), padded)
    at = None if steps is None else steps[1:2, :9]
    _, alone = call(layer, u[1:2, :9], at)
    close(jax.tree.map(lambda a: a[1:2], held), alone)

    # In pieces, the second of them padded.
    cut = lambda a, s: None if a is None else a[:, s]
    front, back = slice(0, 7), slice(7, L)
    first, state = call(layer, cut(nonsense, front), cut(odd, front),
                        cut(mask, front))
    second, state = call(layer, cut(nonsense, back), cut(odd, back),
                         cut(mask, back), state)
    close(jnp.concatenate([first, second], 1), padded)
    close(state, held)
    after = jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(layer)))
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.parametrize("name", TIMED)
def test_a_rate_is_a_step(name):
    layer, (u, steps) = TIMED[name](H, rngs=nnx.Rngs(0)), inputs(name)
    twice = call(layer, u, np.full((BATCH, L), 2, np.float32))[0]
    close(call(layer, u, None, None, None, 2.0)[0], twice)
    assert float(jnp.abs(twice - call(layer, u, steps)[0]).max()) > 1e-3


@pytest.mark.parametrize("name", CAUSAL | BOTH)
def test_gradients_reach_what_they_should(name):
    layer = (CAUSAL | BOTH)[name](H, rngs=nnx.Rngs(0))
    graph, params = nnx.split(layer)
    u, mask = inputs(name)[0][:1], np.arange(L) < L - 2
    middle = jax.jit(jax.grad(lambda p, u: nnx.merge(graph, p)(
        u, None, mask)[0][0, 10].sum(), (0, 1)))
    slopes, felt = middle(params, u)
    felt = np.abs(np.asarray(felt)[0]).max(-1)
    assert np.all(np.isfinite(felt)) and np.all(felt[:11] > 0)
    assert not felt[-2:].any()
    # A convolution by FFT reaches ahead, by its rounding.
    ahead, none = felt[11:-2], 100 * EPS * felt.max()
    assert np.all(ahead > none) if name in BOTH else np.all(ahead <= none)
    assert all(np.isfinite(g).all() and np.abs(g).max() > 0
               for g in jax.tree.leaves(slopes) if g.ndim > 1)


def test_kernels_are_the_definition_and_their_gradients_agree():
    N, taps = 9, 50
    rng = np.random.default_rng(0)
    A, B = transition("legs", N)
    C, dt, I = rng.standard_normal(N), 0.05, np.eye(N)
    step, x = np.linalg.solve(I - dt/2 * A, I + dt/2 * A), np.linalg.solve(
        I - dt/2 * A, dt * B)
    true = []
    for _ in range(taps):
        true.append(C @ x)
        x = step @ x
    given = [jnp.float32(a) for a in (A, B, C, dt)]
    w = rng.standard_normal(taps).astype(np.float32)
    slopes = []
    for method in LSSL_METHODS:
        K = lssl_kernel(*given, taps, method=method)
        np.testing.assert_allclose(K, true, rtol=0,
                                   atol=N * EPS * np.abs(true).max())
        assert len(lssl_kernel(*given, 1, method=method)) == 1
        slopes.append(jax.jit(jax.grad(lambda *a, m=method: w @ lssl_kernel(
            *a, taps, method=m), (0, 1, 2, 3)))(*given))
    for slope in slopes[1:]:
        for a, b in zip(slope, slopes[0]):
            np.testing.assert_allclose(
                a, b, rtol=0, atol=taps * N * EPS * float(np.abs(b).max()))


def test_kernel_of_s4():
    N, taps, dt, measure = 8, 64, 0.03, "legt"       # of rank 2
    C = np.random.default_rng(3).standard_normal(N)
    Λ, P, B, V = dplr(measure, N)
    A, B_dense = transition(measure, N)
    s4 = dplr_kernel(*(np.complex64(a) for a in (Λ, P, B, C @ V)), dt, taps)
    dense = lssl_kernel(*(np.float32(a) for a in (A, B_dense, C)), dt, taps)
    scale = float(jnp.abs(dense).max())
    np.testing.assert_allclose(s4, dense, rtol=0, atol=20 * N * EPS * scale)


def test_both_directions_are_two_systems():
    p = lssl_initialize(jax.random.key(0), 3, 4, tied=False, bidirectional=True)
    A, B, C, D, dt = p["A"], p["B"], p["C"], p["D"], jnp.exp(p["log_dt"])
    u = np.random.default_rng(0).standard_normal((2, 12, 3)).astype(np.float32)
    mask = np.arange(12) < np.array([[12], [7]])
    run = jax.jit(functools.partial(lssl_apply, bidirectional=True))
    one = jax.jit(lssl_apply)
    y, last = run(A, B, C, D, dt, u, mask=mask)
    ahead, x = one(A, B, C[:, :4], D, dt, u, mask=mask)
    back, z = one(A, B, C[:, 4:], 0 * D, dt, u[1:, 6::-1])
    close(y[1, :7], (ahead[1, :7] + back[0, ::-1]))
    close(last, jnp.stack([x, last[1]]))
    close(last[1, 1], z[0])
    steps = np.ones((2, 12), np.float32)
    close(y, run(A, B, C, D, dt, u, mask=mask, steps=steps)[0])


def test_lstm_is_its_equations():
    lstm = LSTM(4, rngs=nnx.Rngs(0))
    u = np.random.default_rng(0).standard_normal((1, 9, 4)).astype(np.float32)
    W, U = (np.float64(lstm.cell.dense_i.kernel[...]),
            np.float64(lstm.cell.dense_h.kernel[...]))
    bias, c, h = np.float64(lstm.cell.dense_h.bias[...]), np.zeros(4), np.zeros(4)
    y, (c_last, h_last) = lstm(u)
    for k in range(9):
        i, f, g, o = np.split(u[0, k] @ W + h @ U + bias, 4)
        i, f, o = (1 / (1 + np.exp(-x)) for x in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        np.testing.assert_allclose(y[0, k], h, atol=40 * EPS)
    np.testing.assert_allclose(c_last[0], c, atol=40 * EPS)
    np.testing.assert_allclose(h_last[0], h, atol=40 * EPS)


def test_attention_is_its_equation():
    layer, (u, steps) = TIMED["attention"](H, rngs=nnx.Rngs(0)), inputs("")
    t = np.cumsum(np.float64(steps), 1)
    q, k, v = (np.float64(f(u)).reshape(BATCH, L, 2, 4)
               for f in (layer.query, layer.key, layer.value))
    turn = np.exp(1j * t[..., None, None] * 10_000.0 ** -np.array([0, 0.5]))
    q, k = ((x[..., :2] + 1j * x[..., 2:]) * turn for x in (q, k))
    fit = np.einsum("bihd,bjhd->bhij", q, k.conj()).real / 2
    w = np.exp(fit) * np.tri(L)
    y = np.einsum("bhij,bjhe->bihe", w / w.sum(-1, keepdims=True), v)
    y = y.reshape(BATCH, L, H) @ np.float64(layer.out.kernel[...])
    close(layer(u, steps)[0], y)
    both = BOTH["attention, both"](H, heads=2, rngs=nnx.Rngs(0))
    nnx.update(both, nnx.state(layer))
    w = np.exp(fit)
    y = np.einsum("bhij,bjhe->bihe", w / w.sum(-1, keepdims=True), v)
    close(both(u, steps)[0],
          y.reshape(BATCH, L, H) @ np.float64(layer.out.kernel[...]))


@pytest.mark.parametrize("chunk, length", [(1, 5), (4, 12), (5, 12), (64, 12), (3, 0)])
def test_chunks_are_the_quadratic_form(chunk, length):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, length, 2, 4)).astype(np.float32)
    q, k = feature_map(q), feature_map(k)
    y, S = causal_product(q, k, v, chunk=chunk)
    close(y, causal_product_naive(q, k, v))
    close(S, np.einsum("bjhd,bjhe->bhde", q * 0 + k, v))


def test_a_rotation_keeps_lengths_and_sees_differences():
    x = np.random.default_rng(0).standard_normal((1, 3, 1, 6)).astype(np.float32)
    t = np.array([[0.0, 1.5, 40.0]], np.float32)
    close((rotate(x, t) ** 2).sum(-1), (x ** 2).sum(-1))
    np.testing.assert_allclose(rotate(x, t)[:, 0], x[:, 0])
    fits = lambda s: (rotate(x, t + s) * rotate(x[:, ::-1], 0 * t + s)).sum(-1)
    close(fits(0.0), fits(7.0))


def test_a_full_cache_is_nan_where_it_cannot_be_an_error():
    layer = Attention(H, capacity=4, rngs=nnx.Rngs(0))
    u = np.ones((2, 6, H), np.float32)
    mask = np.arange(6) < np.array([[3], [2]])
    y, state = call(layer, u[:, :4], None, mask[:, :4])
    assert np.isfinite(y).all() and state[2].tolist() == [3, 2]
    y, state = call(layer, u[:, :2], None, None, state)
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all()
    # Padding needs no room.
    y, state = layer(u, mask=mask)
    assert np.isfinite(y).all() and state[2].tolist() == [3, 2]


def test_no_samples():
    for make in CAUSAL.values():
        layer = make(H, rngs=nnx.Rngs(0))
        y, state = layer(np.zeros((2, 0, H), np.float32))
        assert y.shape == (2, 0, H)
        close(state, layer.init_state(2))


def test_tree_mode_of_nnx():
    script = Path(__file__).parent / "nnx_baselines.py"
    tree = {"NNX_GRAPH_MODE": "false", "NNX_GRAPH_UPDATES": "false"}
    result = subprocess.run([sys.executable, script], capture_output=True,
                            text=True, env=os.environ | tree)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("ok") == 3


def test_blocks_take_them():
    for name in ("lstm", "lssl, both", "attention, both"):
        block = SequenceBlock(H, (TIMED | BOTH)[name], rngs=nnx.Rngs(0))
        block.eval()
        u, steps = inputs(name)
        y, _ = call(block, u, steps, np.ones((BATCH, L), bool))
        assert y.shape == u.shape and np.isfinite(y).all()
