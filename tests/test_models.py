"""Models: padding, streaming, modes, gradients, for every variant."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm.interface import Identity
from annotated_ssm.layers import S5
from annotated_ssm.models import (GLU, GLU_VARIANTS, NORMS, POOLS, Backbone,
                                  SequenceBlock, SequenceClassifier,
                                  SequenceNorm, pool)

F, CLASSES, H, L, BATCH = 2, 3, 4, 11, 3
EPS = np.finfo(np.float32).eps
LENGTHS = (L, 5, 1)
MASK = np.arange(L) < np.array(LENGTHS)[:, None]
CAUSAL = functools.partial(S5, P=4)
BOTH = functools.partial(S5, P=4, bidirectional=True)
LAYERS = {"causal": CAUSAL, "bidirectional": BOTH, "identity": Identity}
# each norm with each gate, on both sides, and with each kind of layer
VARIANTS = [(NORMS[i % 3], i % 2 == 0, GLU_VARIANTS[i % 5], POOLS[i // 2 % 2])
            for i in range(15)]
CASES = [(VARIANTS[i], list(LAYERS)[(i + i // 3) % 3]) for i in range(15)]


def build(layer=CAUSAL, depth=2, seed=0, **options):
    return SequenceClassifier(F, CLASSES, H, depth, layer, rngs=nnx.Rngs(seed),
                              **options)


def variant(norm, prenorm, glu, pool, layer=CAUSAL, depth=2):
    model = build(layer, depth, norm=norm, prenorm=prenorm, glu=glu, pool=pool)
    rng = np.random.default_rng(7)    # running averages that are not 0 and 1
    for block in model.backbone.blocks:
        if norm == "batch":
            stats = block.norm.norm
            stats.mean[...] = jnp.asarray(rng.normal(size=H), jnp.float32)
            stats.var[...] = jnp.asarray(rng.uniform(0.5, 2, H), jnp.float32)
    return model


def inputs(seed=1):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((BATCH, L, F)).astype(np.float32),
            rng.uniform(0.5, 2, (BATCH, L)).astype(np.float32))


@nnx.jit
def call(model, *args):
    return model(*args)


@nnx.jit
def advance(model, *args):
    return model.step(*args)


def close(a, b):
    # activations are of order 1; two blocks of dot products of tens of terms
    np.testing.assert_allclose(a, b, rtol=0, atol=300 * EPS)


def leaves(module, *filters):
    return {path: np.array(leaf[...]) for path, leaf in nnx.to_flat_state(
        nnx.state(module, *filters))}


@pytest.mark.parametrize("options, layer", CASES, ids=str)
def test_padded_batch_equals_each_sequence_alone(options, layer):
    model, (u, steps) = variant(*options, LAYERS[layer]), inputs()
    model.eval()
    garbage = np.where(MASK[..., None], u, np.nan).astype(np.float32)
    scores = call(model, garbage, steps, MASK)
    assert scores.shape == (BATCH, CLASSES)
    for row, n in enumerate(LENGTHS):
        alone = call(model, u[row:row + 1, :n], steps[row:row + 1, :n])
        close(scores[row], alone[0])


@pytest.mark.parametrize("options", VARIANTS[::2], ids=str)
def test_stream_equals_every_prefix(options):
    model, (u, steps) = variant(*options, depth=3), inputs()
    model.eval()
    state = model.init_state(BATCH)
    for k in range(L):
        scores, state = advance(model, u[:, k], state, steps[:, k])
        mask = np.broadcast_to(np.arange(L) <= k, (BATCH, L))
        close(scores, call(model, u, steps, mask))
    assert int(state[2]) == L and len(state[0]) == 3


@pytest.mark.parametrize("options, layer", CASES, ids=str)
def test_gradient_reaches_every_parameter(options, layer):
    model, (u, steps) = build(LAYERS[layer], norm=options[0], prenorm=options[1],
                              glu=options[2], pool=options[3]), inputs()
    model.train()
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    @jax.grad
    def gradient(params, rest):
        module = nnx.merge(graph, params, jax.tree.map(lambda leaf: leaf, rest))
        scores = jax.nn.log_softmax(module(u, steps, MASK))
        return -jnp.mean(scores[jnp.arange(BATCH), jnp.arange(BATCH)])

    for path, leaf in nnx.to_flat_state(gradient(params, rest)):
        g = np.asarray(leaf[...])
        assert np.all(np.isfinite(g)) and np.any(g != 0), path


def test_no_weak_types_and_all_float32():
    for path, leaf in nnx.to_flat_state(nnx.state(build(), nnx.Param, nnx.BatchStat)[0]):
        assert leaf[...].dtype == jnp.float32 and not leaf[...].weak_type, path
    for leaf in jax.tree.leaves(nnx.state(build())):
        assert not getattr(leaf, "weak_type", False)


@pytest.mark.parametrize("norm", NORMS)
def test_what_a_forward_pass_changes(norm):
    model, (u, _) = build(norm=norm), inputs()
    model.eval()
    before = leaves(model, nnx.Not(nnx.RngKey))
    model(u, mask=MASK)
    after = leaves(model, nnx.Not(nnx.RngKey))
    assert all(np.array_equal(before[k], after[k]) for k in before)

    model.train()
    model(u, mask=MASK)
    after = leaves(model, nnx.Not(nnx.RngKey))
    changed = {path[-1] for path in before
               if not np.array_equal(before[path], after[path])}
    assert changed == ({"mean", "var", "count"} if norm == "batch" else {"count"})


def test_batch_statistics_are_those_of_the_real_samples():
    rng = np.random.default_rng(3)
    x = rng.normal(2.0, 3.0, (BATCH, L, H)).astype(np.float32)
    norm = SequenceNorm(H, "batch", rngs=nnx.Rngs(0))
    y = norm(np.where(MASK[..., None], x, 1e4).astype(np.float32), MASK)
    real = x[MASK]
    expected = (x - real.mean(0)) / np.sqrt(real.var(0) + 1e-5)
    np.testing.assert_allclose(y[MASK], expected[MASK], atol=1e-5)
    np.testing.assert_allclose(norm.norm.mean[...], 0.05 * real.mean(0), rtol=1e-5)
    np.testing.assert_allclose(norm.norm.var[...], 0.95 + 0.05 * real.var(0),
                               rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_training_loss_ignores_padding(norm):
    """The same batch with more padding gives the same scores in training."""
    model, (u, steps) = build(norm=norm, dropout=0.0), inputs()
    model.train()
    longer = [np.pad(a, [(0, 0), (0, 6)] + [(0, 0)] * (a.ndim - 2))
              for a in (u, steps, MASK)]
    close(call(model, *longer[:2], longer[2]), call(model, u, steps, MASK))


@pytest.mark.parametrize("how", POOLS)
def test_pooling_by_hand(how):
    x = np.random.default_rng(4).standard_normal((BATCH, L, H)).astype(np.float32)
    pooled = pool(x, MASK, how)
    for row, n in enumerate(LENGTHS):
        expected = x[row, :n].mean(0) if how == "mean" else x[row, n - 1]
        np.testing.assert_allclose(pooled[row], expected, atol=4 * EPS)
    np.testing.assert_allclose(pool(x, np.zeros(L, bool), how), np.zeros((BATCH, H)))
    np.testing.assert_array_equal(pool(x, None, how), pool(x, np.ones(L, bool), how))


def test_dropout_drops_a_feature_for_the_whole_sequence():
    glu = GLU(64, "none", 0.5, rngs=nnx.Rngs(0))
    y = np.asarray(glu(np.ones((2, 7, 64), np.float32)))
    assert np.all(y == y[:, :1])
    assert 0.2 < np.mean(y == 0) < 0.8
    assert not np.array_equal(y[0], y[1])
    again = np.asarray(glu(np.ones((2, 7, 64), np.float32)))
    assert not np.array_equal(y, again)


def test_variants_of_the_gate_in_numpy():
    y = np.random.default_rng(5).standard_normal((BATCH, H)).astype(np.float32)
    z = np.asarray(jax.nn.gelu(y))
    for name in GLU_VARIANTS:
        glu = GLU(H, name, rngs=nnx.Rngs(0))
        glu.eval()
        value = {"none": z, "half": z, "half2": y}.get(name)
        value = glu.value(z) if value is None else value
        gated = name not in ("none", "linear")
        expected = value / (1 + np.exp(-glu.gate(z))) if gated else value
        np.testing.assert_allclose(glu(y), expected, atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_a_last_norm(norm):
    model, (u, steps) = build(norm=norm, final_norm=True), inputs()
    plain = build(norm=norm)
    for m in (model, plain):
        m.train()
    y, _ = model.backbone(u, steps, MASK)
    x, _ = plain.backbone(u, steps, MASK)
    close(y, SequenceNorm(H, norm, rngs=nnx.Rngs(0))(x, MASK))


def test_appended_steps_are_a_feature_and_no_time():
    told, (u, steps) = build(Identity, append_steps=True), inputs()
    told.eval()
    backbone = told.backbone
    x, given = backbone.embed(u), 2.0 * steps[..., None]
    W, b = backbone.join.kernel[...], backbone.join.bias[...]
    for block in backbone.blocks:
        x = block(x @ W[:H] + given * W[H] + b)[0] if block is (
            backbone.blocks[0]) else block(x)[0]
    close(call(told, u, steps, None, 2.0), told.head(pool(x)))
    # S5 itself is told of no time, and an interval in the padding of nothing.
    told = build(append_steps=True)
    told.eval()
    odd = np.where(MASK, steps, np.nan).astype(np.float32)
    scores = call(told, u, odd, MASK)
    state = told.init_state(BATCH)
    for k in range(5):
        streamed, state = advance(told, u[:, k], state, steps[:, k])
    close(streamed[1], scores[1])
    assert float(jnp.abs(call(told, u, steps) - call(told, u)).max()) > 1e-3
    told.backbone.join.kernel[...] = told.backbone.join.kernel[...].at[H].set(0)
    np.testing.assert_array_equal(call(told, u, steps), call(told, u))


def test_blocks_have_parameters_of_their_own():
    backbone = Backbone(F, H, 3, CAUSAL, rngs=nnx.Rngs(0))
    first, second, _ = (leaves(b, nnx.Param) for b in backbone.blocks)
    assert not np.array_equal(first[("layer", "C")], second[("layer", "C")])
    paths = {path[:2] for path, _ in nnx.to_flat_state(nnx.state(backbone))
             if path[0] == "blocks"}
    assert paths == {("blocks", 0), ("blocks", 1), ("blocks", 2)}


@pytest.mark.parametrize("prenorm", [True, False])
def test_block_is_a_residual_of_its_parts(prenorm):
    block = SequenceBlock(H, CAUSAL, norm="layer", prenorm=prenorm, rngs=nnx.Rngs(0))
    block.eval()
    x = np.random.default_rng(6).standard_normal((BATCH, L, H)).astype(np.float32)
    y, state = block(x)
    inner, same = block.layer(block.norm(x) if prenorm else x)
    expected = x + block.glu(inner)
    close(y, expected if prenorm else block.norm(expected))
    close(state, same)


def test_identity_model_is_blind_to_order_and_s5_is_not():
    u, _ = inputs()
    order = np.random.default_rng(8).permutation(L)
    for layer, blind in ((Identity, True), (CAUSAL, False), (BOTH, False)):
        model = build(layer)
        model.eval()
        moved = float(jnp.abs(call(model, u) - call(model, u[:, order])).max())
        assert (moved < 100 * EPS) == blind


def test_parameter_count_of_the_digits_model():
    model = SequenceClassifier(
        1, 10, 64, 3, functools.partial(S5, P=64, blocks=2, bidirectional=True),
        rngs=nnx.Rngs(0))
    layer = 3 * 32 + 64 + 3 * 64 * 64
    block = layer + 2 * 64 + 64 * 65
    count = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
    assert count == 2 * 64 + 3 * block + 65 * 10 == 50986


def test_rate_reaches_every_block():
    model, (u, steps) = build(depth=3), inputs()
    model.eval()
    close(call(model, u, steps, None, 2.0), call(model, u, 2 * steps))
    assert float(jnp.abs(call(model, u, steps) - call(model, u)).max()) > 1e-4


@pytest.mark.parametrize("empty", ["masked", "batch", "time"])
@pytest.mark.parametrize("prenorm", [True, False])
def test_a_batch_without_a_sample_leaves_the_averages_alone(prenorm, empty):
    model = SequenceClassifier(3, 2, 4, 2, Identity, prenorm=prenorm,
                               rngs=nnx.Rngs(0))
    model.train()
    model(np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32))
    before = jax.tree.map(jnp.copy, nnx.state(model, nnx.BatchStat))
    u = np.ones({"batch": (0, 5, 3), "time": (2, 0, 3)}.get(empty, (2, 5, 3)),
                np.float32)
    y = model(u, mask=np.zeros((2, 5), bool) if empty == "masked" else None)
    assert np.isfinite(y).all()
    jax.tree.map(np.testing.assert_array_equal,
                 before, nnx.state(model, nnx.BatchStat))


def test_parameters_in_half_precision():
    model = SequenceClassifier(3, 2, 4, 1, functools.partial(S5, P=4),
                               rngs=nnx.Rngs(0))
    model.eval()
    u = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    graph, state = nnx.split(model)
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16)
                        if x.dtype == jnp.float32 else x, state)
    y = nnx.merge(graph, half)(u)
    # bfloat16 keeps 8 bits of every parameter
    assert float(jnp.abs(y - model(u)).max()) < 0.05


@pytest.mark.parametrize("kind", ["layer", "batch"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_norm_keeps_its_input_and_nothing_else_of_its_size(kind, masked):
    """What was kept before filled a third of a training step's memory."""
    norm = SequenceNorm(5, kind, rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(0), (3, 40, 5))
    mask = np.arange(40) < np.array([[40], [7], [1]]) if masked else None
    ours, plain = (jax.vjp(f, x) for f in (
        lambda x: nnx.clone(norm)(x, mask),
        lambda x: nnx.clone(norm.norm)(x, mask=None if mask is None or
                                       kind == "layer" else mask[..., None])))
    big = {id(a) for a in jax.tree.leaves(ours[1]) if np.size(a) > 5 * 3 * 40 // 2}
    assert len(big) == 1
    g = jax.random.normal(jax.random.key(1), x.shape)
    for a, b in zip((ours[0], *ours[1](g)), (plain[0], *plain[1](g))):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("variant", GLU_VARIANTS)
def test_gelu_keeps_its_input_and_nothing_else(variant):
    """Besides it: z for the linear maps, their outputs, a product."""
    glu = GLU(5, variant, 0.0, rngs=nnx.Rngs(0))
    y = jax.random.normal(jax.random.key(0), (3, 40, 5))
    kept = {id(a) for a in jax.tree.leaves(jax.vjp(glu, y)[1])
            if np.size(a) == y.size}
    assert len(kept) <= {"none": 1, "linear": 2, "half": 5, "half2": 5, "full": 6}[variant]
    plain = jax.vjp(jax.nn.gelu, y)[1](jnp.ones_like(y))[0]
    ours = jax.vjp(GLU(5, "none", 0.0, rngs=nnx.Rngs(0)), y)[1](jnp.ones_like(y))[0]
    np.testing.assert_allclose(ours, plain, rtol=1e-6, atol=1e-6)
