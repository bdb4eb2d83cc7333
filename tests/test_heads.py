"""Regressors, language models, retrieval and their encoders, with any layer."""

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

from annotated_ssm import attention, baselines, layers, recurrent
from annotated_ssm.encoders import FrameEncoder, TokenEncoder
from annotated_ssm.heads import (LanguageModel, Retrieval, SequenceRegressor,
                                 continue_text, sample_tokens)
from annotated_ssm.interface import generate
from annotated_ssm.models import SequenceClassifier, pool

H, L, BATCH, VOCABULARY = 8, 9, 3, 7
EPS = np.finfo(np.float32).eps
LENGTHS = (L, 4, 1)
MASK = np.arange(L) < np.array(LENGTHS)[:, None]
LAYERS = {
    "s4": functools.partial(layers.S4, N=4), "s4d": functools.partial(layers.S4D, N=4),
    "dss": functools.partial(layers.DSS, N=4), "s5": functools.partial(layers.S5, P=4),
    "lssl": functools.partial(baselines.LSSL, N=4), "gru": recurrent.GRU,
    "lstm": recurrent.LSTM, "linear": functools.partial(attention.LinearAttention, heads=2),
    "attention": functools.partial(attention.Attention, heads=2, capacity=40),
}
UNTIMED = {"gru", "lstm"}
OPTIONS = dict(norm="layer", rngs=nnx.Rngs(0))
call = nnx.jit(lambda model, *a: model(*a))
read = nnx.jit(lambda model, *a: model.read(*a))
advance = nnx.jit(lambda model, *a: model.step(*a))


def regressor(layer, depth=1, **options):
    return SequenceRegressor(2, 3, H, depth, layer, **OPTIONS | options)


def language(layer, **options):
    return LanguageModel(VOCABULARY, H, 1, layer, **OPTIONS | options)


def films(layer, **options):
    return SequenceRegressor(16, 3, H, 1, layer, encoder=functools.partial(
        FrameEncoder, hidden=5, channels=2, **options), **OPTIONS)


def reader(layer, **options):
    return SequenceClassifier(VOCABULARY, 3, H, 1, layer, encoder=TokenEncoder,
                              **OPTIONS | options)


def appended(layer):
    return regressor(layer, append_steps=True)


# every kind of model with some layers, every layer with some model
MODELS = {
    **{f"regressor, {name}": (regressor, name) for name in ("s4", "dss", "linear")},
    "regressor, s5": (functools.partial(regressor, depth=2), "s5"),
    **{f"language, {name}": (language, name) for name in ("s4d", "lssl", "attention")},
    "language, two tables": (functools.partial(language, tied=False), "gru"),
    "mlp": (films, "s5"), "conv": (functools.partial(films, kind="conv"), "s4d"),
    "tokens": (reader, "s5"), "appended": (appended, "lstm"),
    "appended, s5": (appended, "s5"),
}
PAIRS = {"retrieval, s5": ("s5", dict(bidirectional=True)), "retrieval, gru": ("gru", {}),
         "retrieval, s4": ("s4", {})}


def build(name):
    make, layer = MODELS[name]
    return make(LAYERS[layer])


def inputs(name, seed=1):
    """u, and steps where the model has a use for them."""
    rng = np.random.default_rng(seed)
    make, layer = MODELS[name]
    make = getattr(make, "func", make)
    u = rng.standard_normal((BATCH, L, 16 if make is films else 2)).astype(np.float32)
    if make in (language, reader):
        u = rng.integers(0, VOCABULARY, (BATCH, L)).astype(np.int32)
    steps = rng.uniform(0.5, 2, (BATCH, L)).astype(np.float32)
    return u, None if layer in UNTIMED and make is not appended else steps


def cut(a, *at):
    return None if a is None else a[at]


def close(a, b):
    # activations of order 1 through two blocks; angles up to 2 L radians
    np.testing.assert_allclose(a, b, rtol=0, atol=400 * EPS * max(
        1.0, float(np.abs(b).max(initial=0))))


def state_of(model):
    return {path: np.array(jax.random.key_data(leaf[...]) if jnp.issubdtype(
        leaf[...].dtype, jax.dtypes.prng_key) else leaf[...])
        for path, leaf in nnx.to_flat_state(nnx.state(model))}


@pytest.mark.parametrize("name", MODELS)
def test_steps_padding_and_evaluation(name):
    model, (u, steps) = build(name), inputs(name)
    model.eval()
    before = state_of(model)
    whole, one = call(model, u, steps), name == "tokens"
    state, outputs = model.init_state(BATCH), []
    for k in range(L):
        y_k, state = advance(model, u[:, k], state, cut(steps, slice(None), k))
        outputs.append(y_k)
    close(outputs[-1] if one else jnp.stack(outputs, 1), whole)

    empty = -1 if u.ndim == 2 else np.nan
    real = MASK.reshape(*MASK.shape, *[1] * (u.ndim - 2))
    odd = None if steps is None else np.where(MASK, steps, np.nan)
    padded = call(model, np.where(real, u, empty).astype(u.dtype), odd, MASK)
    for row, n in enumerate(LENGTHS):
        at = slice(row, row + 1), slice(n)
        if one:
            alone = call(model, u[at], cut(steps, *at))[0]
            close(padded[row], alone)
        else:                              # what is causal has one prefix
            close(padded[row, :n], whole[row, :n])
            np.testing.assert_array_equal(padded[row, n:], 0)
    after = state_of(model)
    assert all(np.array_equal(before[k], after[k], equal_nan=True) for k in before)


@pytest.mark.parametrize("name", ["regressor, s5", "language, attention"])
def test_reading_in_pieces(name):
    model, (u, steps) = build(name), inputs(name)
    model.eval()
    head, state = read(model, u[:, :4], steps[:, :4])
    tail, _ = read(model, u[:, 4:], steps[:, 4:], MASK[:1, 4:].repeat(BATCH, 0), state)
    close(jnp.concatenate([head, tail], 1), call(model, u, steps))


def test_both_ends_padded_and_alone():
    both = functools.partial(layers.S5, P=4, bidirectional=True)
    model, (u, steps) = regressor(both), inputs("regressor, s5")
    model.eval()
    padded = call(model, np.where(MASK[..., None], u, np.nan), steps, MASK)
    alone = call(model, u[1:2, :4], steps[1:2, :4])
    close(padded[1, :4], alone[0])
    np.testing.assert_array_equal(np.asarray(padded)[~MASK], 0)


@pytest.mark.parametrize("name", [*MODELS, *PAIRS])
def test_gradient_reaches_every_parameter_and_all_are_real(name):
    if name in PAIRS:
        model, (u, mask) = pairs(name)
        steps = None
    else:
        model, (u, steps), mask = build(name), inputs(name), MASK
    model.train()
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    model.eval()
    weights = np.random.default_rng(5).standard_normal(
        jax.eval_shape(lambda: model(u, steps, mask)).shape).astype(np.float32)

    @jax.jit
    @jax.grad
    def gradient(params, rest):
        own = jax.tree.map(lambda leaf: leaf, rest)
        y = nnx.merge(graph, params, own)(u, steps, mask)
        return jnp.sum(weights * jnp.sin(y))

    for path, leaf in nnx.to_flat_state(gradient(params, rest)):
        g = np.asarray(leaf[...])
        assert g.dtype == np.float32 and np.isfinite(g).all() and np.any(g != 0), path
    for path, leaf in nnx.to_flat_state(params):
        assert leaf[...].dtype == jnp.float32 and not leaf[...].weak_type, path


def pairs(name):
    layer, options = PAIRS[name]
    model = Retrieval(VOCABULARY, 2, H, 1, functools.partial(LAYERS[layer], **options),
                      **OPTIONS)
    u = np.random.default_rng(2).integers(0, VOCABULARY, (BATCH, 2, L)).astype(np.int32)
    mask = np.arange(L) < np.array([[L, 4], [1, L], [4, 1]])[..., None]
    return model, (u, mask)


@pytest.mark.parametrize("name", PAIRS)
def test_retrieval_by_hand(name):
    model, (u, mask) = pairs(name)
    model.eval()
    scores = call(model, np.where(mask, u, -1), None, mask)
    tower = lambda d, m: pool(call(model.backbone, d, None, m)[0], m)
    v, w = (tower(u[:, i], mask[:, i]) for i in (0, 1))
    hidden = model.inner(np.concatenate([v, w, v * w, v - w], 1))
    close(scores, model.outer(jax.nn.gelu(hidden)))


def test_retrieval_has_one_tower_and_streams():
    model, (u, _) = pairs("retrieval, gru")
    model.eval()
    towers = {path[:2] for path in state_of(model) if path[0] == "backbone"}
    assert towers == {("backbone", "embed"), ("backbone", "blocks")}
    state = model.init_state(BATCH)
    for k in range(L):
        scores, state = advance(model, u[:, :, k], state)
        prefix = np.arange(L) <= np.full((BATCH, 2, 1), k)
        close(scores, call(model, u, None, prefix))


def test_retrieval_of_vectors_with_steps():
    model = Retrieval(2, 2, H, 1, LAYERS["s5"], encoder=nnx.Linear, **OPTIONS)
    model.eval()
    rng = np.random.default_rng(3)
    u = rng.standard_normal((BATCH, 2, L, 2)).astype(np.float32)
    steps = rng.uniform(0.5, 2, (BATCH, 2, L)).astype(np.float32)
    scores = call(model, u, steps)
    state = model.init_state(BATCH)
    for k in range(L):
        streamed, state = advance(model, u[:, :, k], state, steps[..., k])
    close(streamed, scores)
    # the order counts, by the sign of the difference
    assert float(jnp.abs(call(model, u[:, ::-1], steps[:, ::-1]) - scores).max()) > 1e-3


def test_a_shared_norm_sees_both_documents():
    _, (u, _) = pairs("retrieval, s5")
    model = Retrieval(VOCABULARY, 2, H, 1, LAYERS["s5"], norm="batch", rngs=nnx.Rngs(0))
    model.train()
    call(model, u)
    x = model.backbone.embed(u.reshape(-1, L)).reshape(-1, H)
    np.testing.assert_allclose(model.backbone.blocks[0].norm.norm.mean[...],
                               0.05 * x.mean(0), atol=EPS)


def test_tokens_are_rows_of_the_table():
    table = TokenEncoder(VOCABULARY, H, rngs=nnx.Rngs(0))
    E, tokens = np.asarray(table.embedding[...]), np.array([[0, 6], [3, 3]], np.uint8)
    np.testing.assert_array_equal(table(tokens), E[tokens])
    strange = np.asarray(jax.jit(table)(np.array([-1, 7, 300, 2], np.int32)))
    assert np.isnan(strange[:3]).all() and np.array_equal(strange[3], E[2])
    single = TokenEncoder(1, H, rngs=nnx.Rngs(0))
    assert np.isnan(np.asarray(single(np.array([1])))).all()


@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_frames_one_by_one(kind):
    encoder = FrameEncoder(49, H, kind=kind, hidden=6, channels=3, rngs=nnx.Rngs(0))
    frames = np.random.default_rng(0).standard_normal((2, 3, 49)).astype(np.float32)
    together = encoder(frames)
    assert together.shape == (2, 3, H)
    for b in range(2):
        for k in range(3):
            close(together[b, k], encoder(frames[b, k]))


@pytest.mark.parametrize("side", [3, 24])
def test_convolutions_by_hand(side):
    encoder = FrameEncoder(side * side, 2, kind="conv", channels=2, rngs=nnx.Rngs(0))
    frame = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)

    def conv(x, module):                   # stride 2, "same" padding
        W, b = np.float64(module.kernel[...]), np.float64(module.bias[...])
        n, size = len(W), -(-len(x) // 2)
        more = max((size - 1) * 2 + n - len(x), 0)
        x = np.pad(x, [(more // 2, more - more // 2)] * 2 + [(0, 0)])
        y = [[np.einsum("ijc,ijcd->d", x[2*i:2*i+n, 2*j:2*j+n], W) + b
              for j in range(size)] for i in range(size)]
        return np.maximum(y, 0)

    x = conv(conv(np.float64(frame)[..., None], encoder.first), encoder.second)
    expected = x.ravel() @ np.float64(encoder.outer.kernel[...])
    close(encoder(frame.ravel()), expected + encoder.outer.bias[...])


def test_tied_logits_are_products_with_the_table():
    model, (u, _) = build("language, s4d"), inputs("language, s4d")
    model.eval()
    x, _ = call(model.backbone, u)
    close(call(model, u), np.asarray(x) @ np.asarray(
        model.backbone.embed.embedding[...]).T)
    # behind the last norm each place has mean square 1
    np.testing.assert_allclose(np.mean(np.square(x), -1), 1, atol=1e-2)


def test_draws_have_the_probabilities_of_the_softmax():
    z, n = np.array([0.5, -1.0, -np.inf, 1.5], np.float32), 20_000
    for T in (0.3, 1.0, 3.0):
        drawn = sample_tokens(np.tile(z, (n, 1)), jax.random.key(1), T)
        p = np.exp(z / T) / np.exp(z / T).sum()
        share = np.bincount(drawn, minlength=4) / n
        assert share[2] == 0
        np.testing.assert_array_less(np.abs(share - p), 5 * np.sqrt(p * (1 - p) / n) + 1e-9)
    assert sample_tokens(z, temperature=0) == sample_tokens(z, jax.random.key(2), 0) == 3
    assert sample_tokens(np.array([0.0, np.nan], np.float32), temperature=0) == -1


@pytest.mark.parametrize("name", ["language, s4d", "language, attention"])
def test_writing_is_a_loop_of_steps(name):
    model, (u, _) = build(name), inputs(name)
    key, length = jax.random.key(4), 7
    written, (last, state) = continue_text(model, u[:, :5], length, key=key, chunk=4)
    model.eval()
    logits, x = read(model, u[:, :5])
    z = logits[:, -1]
    for k in range(length):
        token = sample_tokens(z, jax.random.fold_in(key, k))
        np.testing.assert_array_equal(token, written[:, k])
        z, x = advance(model, token, x)
    # the last token is written and not yet read
    np.testing.assert_array_equal(last, written[:, -1:])
    more, _ = continue_text(model, last, 3, temperature=0, state=state)
    np.testing.assert_array_equal(more[:, 0], sample_tokens(z, temperature=0))


def test_prompts_of_different_lengths():
    model, (u, _) = build("language, s4d"), inputs("language, s4d")
    written, _ = continue_text(model, np.where(MASK, u, -1), 5, mask=MASK, temperature=0)
    alone, _ = continue_text(model, u[[1] * 3, :4], 5, temperature=0)
    np.testing.assert_array_equal(written[1], alone[0])


def test_generate_takes_a_language_model_as_it_is():
    model, (u, _) = build("language, s4d"), inputs("language, s4d")
    model.eval()
    greedy = lambda z, key: sample_tokens(z, temperature=0)
    logits, state = read(model, u)
    scores, _ = generate(model, greedy(logits[:, -1], None), state, 4, feed=greedy)
    written, _ = continue_text(model, u, 5, temperature=0)
    np.testing.assert_array_equal(jnp.argmax(scores, -1), written[:, 1:])


def test_writing_runs_in_evaluation_mode_and_changes_nothing():
    model = language(LAYERS["s5"], dropout=0.5)
    model.train()
    before = state_of(model)
    u = inputs("language, s4d")[0]
    one, two = (continue_text(model, u, 4, temperature=0)[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)
    after = state_of(model)
    assert all(np.array_equal(before[k], after[k]) for k in before)
    assert not model.backbone.blocks[0].glu.dropout.deterministic


@pytest.mark.parametrize("tree", [False, True], ids=["graph", "tree"])
def test_both_modes_of_nnx(tree):
    script = Path(__file__).parent / "nnx_heads.py"
    mode = {"NNX_GRAPH_MODE": "false", "NNX_GRAPH_UPDATES": "false"} if tree else {}
    result = subprocess.run([sys.executable, script], capture_output=True,
                            text=True, env=os.environ | mode)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["regressor", "language", "retrieval", "pooled"]
