"""Blocks that slow down: padding, time, rates, streams, with several layers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import attention, baselines, layers, recurrent
from annotated_ssm.encoders import TokenEncoder
from annotated_ssm.models import Backbone
from annotated_ssm.pooling import PooledBackbone, PooledClassifier, pool_samples

F, H, L, BATCH = 2, 4, 23, 3
EPS = np.finfo(np.float32).eps
LENGTHS = (L, 14, 1)
MASK = np.arange(L) < np.array(LENGTHS)[:, None]
LAYERS = {
    "s5": functools.partial(layers.S5, P=4), "s4": functools.partial(layers.S4, N=4),
    "lssl": functools.partial(baselines.LSSL, N=4), "lstm": recurrent.LSTM,
    "attention": functools.partial(attention.Attention, heads=2, capacity=40),
}
UNTIMED = {"lstm"}
POOLS = (3, 2)
call = nnx.jit(lambda model, *a: model(*a))
advance = nnx.jit(lambda model, *a: model.step(*a))


def build(layer, pools=POOLS, width=(H, 2 * H), **options):
    model = PooledClassifier(F, 3, width, layer, pools, rngs=nnx.Rngs(0), **options)
    model.eval()
    return model


def inputs(name, seed=1):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((BATCH, L, F)).astype(np.float32)
    steps = rng.uniform(0.5, 2, (BATCH, L)).astype(np.float32)
    return u, None if name in UNTIMED else steps


def close(a, b):
    # activations of order 1 through two or three blocks
    np.testing.assert_allclose(a, b, rtol=0, atol=400 * EPS)


def test_windows_in_a_loop():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, L, H)).astype(np.float32)
    steps = rng.uniform(0, 2, (BATCH, L)).astype(np.float32)
    windows = jax.jit(pool_samples, static_argnums=1)
    for size in (1, 5, 30):
        garbage = np.where(MASK[..., None], x, np.nan)
        y, s, m = map(np.asarray, windows(
            garbage, size, np.where(MASK, steps, np.nan), MASK))
        assert y.shape == (BATCH, -(-L // size), H)
        for b, n in enumerate(LENGTHS):
            for j in range(y.shape[1]):
                window = slice(j * size, min((j + 1) * size, n))
                some = j * size < n
                assert bool(m[b, j]) == some
                np.testing.assert_allclose(
                    y[b, j], x[b, window].mean(0) if some else 0, atol=4 * EPS)
                np.testing.assert_allclose(
                    s[b, j], steps[b, window].mean() if some else 0, atol=4 * EPS)
        whole, none, nothing = windows(x, size)
        assert none is None and nothing is None
        np.testing.assert_array_equal(
            whole, windows(x, size, None, np.ones((BATCH, L), bool))[0])


@pytest.mark.parametrize("name, both", [
    ("s4", True), ("s5", True), ("lssl", False), ("lstm", False), ("attention", True)])
def test_padded_batch_equals_each_alone(name, both):
    layer = functools.partial(LAYERS[name], bidirectional=True) if both else LAYERS[name]
    model, (u, steps) = build(layer, norm="layer"), inputs(name)
    odd = None if steps is None else np.where(MASK, steps, np.nan)
    scores = call(model, np.where(MASK[..., None], u, np.nan), odd, MASK)
    for row, n in [(1, 14)]:
        at = slice(row, row + 1), slice(n)
        close(scores[row], call(model, u[at], None if steps is None else steps[at])[0])


def test_no_steps_and_steps_of_one():
    model, (u, _) = build(LAYERS["s5"]), inputs("s5")
    for mask in (None, MASK):
        close(call(model, u, np.ones(L, np.float32), mask), call(model, u, None, mask))


def test_steps_and_rate_scale_every_block():
    model, (u, steps) = build(LAYERS["s5"]), inputs("s5")
    close(call(model, u, steps, None, 2.0), call(model, u, 2 * steps))
    # the interval that the second block gets is the mean of three
    x, _ = call(model.backbone.blocks[0], model.backbone.embed(u), steps)
    x, coarse, _ = pool_samples(x, 3, steps)
    np.testing.assert_allclose(coarse[:, :7], steps[:, :21].reshape(BATCH, 7, 3).mean(2),
                               atol=4 * EPS)
    x, _ = call(model.backbone.blocks[1], model.backbone.maps[0](x), coarse)
    close(pool_samples(x, 2)[0], call(model.backbone, u, steps)[0])


def test_other_pools_correct_the_rate():
    model, (u, _) = build(LAYERS["s5"], (4, 2)), inputs("s5")
    inner = model.backbone
    x, _ = call(inner.blocks[0], inner.embed(u), None, None, None, 2.0)
    x, _ = call(inner.blocks[1], inner.maps[0](pool_samples(x, 2)[0]))
    given = nnx.jit(lambda m, u: m(u, rate=2.0, pools=(2, 2))[0])(inner, u)
    close(given, pool_samples(x, 2)[0])


def test_half_the_rate_is_nearly_the_same():
    model = PooledClassifier(1, 5, 6, functools.partial(layers.S5, P=8, dt_min=0.01),
                             (8, 4), rngs=nnx.Rngs(1))
    model.eval()
    t = np.arange(1, 257) / 256
    f = np.random.default_rng(3).uniform(1, 8, (4, 1))
    u = np.sin(2 * np.pi * f * t)[..., None].astype(np.float32)
    full = call(model, u)
    way = nnx.jit(lambda m, *way: m(u[:, 1::2], None, None, *way), static_argnums=(1, 2))
    slow = lambda *a: float(jnp.abs(way(model, *a) - full).max())
    told = slow(2.0, (4, 4))
    assert told < 0.25 * slow(1.0) and slow(2.0) < 0.5 * slow(1.0)


def test_pools_of_one_are_the_backbone():
    options = dict(norm="layer", rngs=nnx.Rngs(0))
    plain = Backbone(F, H, 2, LAYERS["s5"], norm="layer", rngs=nnx.Rngs(0))
    ones = PooledBackbone(F, H, LAYERS["s5"], (1, 1), **options)
    u, steps = inputs("s5")
    for model in (plain, ones):
        model.eval()
    x, mask = call(ones, u, steps, MASK)
    close(np.where(MASK[..., None], x - call(plain, u, steps, MASK)[0], 0), 0.0)
    np.testing.assert_array_equal(mask, MASK)


@pytest.mark.parametrize("name", LAYERS)
def test_stream_equals_whole_windows(name):
    model, (u, steps) = build(LAYERS[name], norm="layer"), inputs(name)
    state, said = model.init_state(BATCH), []
    for k in range(L):
        y, state = advance(model, u[:, k], state, None if steps is None else steps[:, k])
        said.append(np.asarray(y))
    for n in (6, 18):
        close(said[n - 1], call(model, u[:, :n], None if steps is None else steps[:, :n]))
    changed = [k for k in range(1, L) if (said[k] != said[k - 1]).any()]
    assert changed == [5, 11, 17]
    np.testing.assert_array_equal(said[0], np.tile(model.head.bias[...], (BATCH, 1)))


def test_tokens_and_appended_steps():
    rng = np.random.default_rng(2)
    u = rng.integers(0, 5, (BATCH, L)).astype(np.int32)
    steps = inputs("s5")[1]
    model = PooledClassifier(5, 3, H, recurrent.GRU, POOLS, encoder=TokenEncoder,
                             append_steps=True, norm="layer", rngs=nnx.Rngs(0))
    model.eval()
    scores = call(model, np.where(MASK, u, -1), steps, MASK)
    close(scores[1], call(model, u[1:2, :14], steps[1:2, :14])[0])
    state = model.init_state(BATCH)
    for k in range(18):
        y, state = advance(model, u[:, k], state, steps[:, k])
    close(y, call(model, u[:, :18], steps[:, :18]))


@pytest.mark.parametrize("name", ["s5", "s4", "lstm"])
def test_gradient_reaches_every_parameter(name):
    model, (u, steps) = build(LAYERS[name]), inputs(name)
    model.train()
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    @jax.grad
    def gradient(params, rest):
        own = jax.tree.map(lambda leaf: leaf, rest)
        y = nnx.merge(graph, params, own)(u, steps, MASK)
        return jnp.sum(jnp.sin(y) * np.arange(1.0, 10).reshape(3, 3))

    for path, leaf in nnx.to_flat_state(gradient(params, rest)):
        g = np.asarray(leaf[...])
        assert g.dtype == np.float32 and np.isfinite(g).all() and np.any(g != 0), path
