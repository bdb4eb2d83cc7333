"""Encoders, heads and pooled models refuse what doesn't fit, by name."""

import functools

import jax
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import encoders, heads, models, pooling
from annotated_ssm.attention import Attention
from annotated_ssm.interface import Identity
from annotated_ssm.layers import S5

RNGS = nnx.Rngs(0)
U = np.zeros((2, 6, 3), np.float32)
TOKENS = np.zeros((2, 6), np.int32)
BOTH = functools.partial(S5, P=4, bidirectional=True)
KEY = jax.random.key(0)


def regressor(layer=Identity, *, sizes=(3, 2, 4, 2), **options):
    return heads.SequenceRegressor(*sizes, layer, rngs=RNGS, **options)


def language(layer=Identity, *, sizes=(5, 4, 2), **options):
    return heads.LanguageModel(*sizes, layer, rngs=RNGS, **options)


def retrieval(*, sizes=(5, 2, 4, 1), **options):
    return heads.Retrieval(*sizes, Identity, rngs=RNGS, **options)


def frames(*, sizes=(16, 4), **options):
    return encoders.FrameEncoder(*sizes, rngs=RNGS, **options)


def table(*sizes, rngs=RNGS):
    return encoders.TokenEncoder(*sizes, rngs=rngs)


def pooled(H=4, layer=Identity, pools=(2, 2), *, classes=2, **options):
    return pooling.PooledClassifier(3, classes, H, layer, pools, rngs=RNGS, **options)


def write(model=None, tokens=TOKENS, length=2, **options):
    model = language() if model is None else model
    return heads.continue_text(model, tokens, length, **{"temperature": 0} | options)


def written(*shape):
    return np.full(shape, 7, np.int32)


CASES = [
    (table, (0, 4), {}, "vocabulary is 0; need a whole number ≥ 1"),
    (table, (5, 1.5), {}, "H is 1.5; need a whole number ≥ 1"),
    (table, (5, 4), dict(rngs=0), "rngs is 0, an nnx.Rngs is needed"),
    (frames, (), dict(kind="cnn"), "kind is 'cnn', one of 'mlp', 'conv' is needed"),
    (frames, (), dict(sizes=(15, 4), kind="conv"), "features is 15; need a square number"),
    (frames, (), dict(hidden=0), "hidden is 0; need a whole number"),
    (frames, (), dict(channels=2.0), "channels is 2.0; need a whole number"),
    (regressor, (), dict(sizes=(3, 0, 4, 2)), "outputs is 0, a whole number"),
    (regressor, (), dict(sizes=(0, 2, 4, 2)), "features is 0, a whole number"),
    (regressor, (), dict(norm="group"), "norm is 'group', one of 'batch', 'layer', 'none'"),
    (regressor, (), dict(glu="outer"), "glu is 'outer', one of 'none', 'linear', 'half', "
                                       "'half2', 'full'"),
    (regressor(), (U[0],), {}, r"u has shape \(6, 3\)"),
    (regressor(), (U,), dict(mask=np.ones((2, 5), bool)), r"mask has shape \(2, 5\)"),
    (regressor(BOTH).init_state, (2,), {}, "from both ends"),
    (regressor(BOTH).read, (U,), dict(state=(None, np.zeros((2, 2), np.complex64))),
     "continue from a state"),
    (regressor().read, (U,), dict(state=()), "states has 0 entries.*2 blocks"),
    (regressor(append_steps=True), (U,), dict(steps=np.ones(5, np.float32)),
     r"steps has shape \(5,\); need \(6,\) or \(2, 6\)"),
    (regressor(append_steps=True), (U,), dict(steps=-np.ones(6, np.float32)),
     "steps contains -1.0"),
    (regressor(append_steps=True), (U,), dict(rate=0.0), "rate is 0.0; need"),
    (regressor(append_steps=True).step, (U[:, 0], ((), ())), dict(step=np.ones(3, np.float32)),
     r"step has shape \(3,\)"),
    (language, (BOTH,), {}, "layer makes a bidirectional layer.*need bidirectional=False"),
    (language, (), dict(sizes=(0, 4, 2)), "vocabulary is 0, a whole number"),
    (language(), (U,), {}, r"u has shape \(2, 6, 3\); need \(batch, L\), one token a sample"),
    (language(), (U[..., 0],), {}, "u has dtype float32; need integers"),
    (language(), (written(2, 6),), {}, "u contains 7; need tokens from 0 to 4; padding"),
    (language(), (-1 - TOKENS,), {}, "u contains -1; need tokens from 0 to 4"),
    (language().step, (written(2), ((), ())), {}, "u_k contains 7"),
    (language().step, (TOKENS, ((), ())), {}, r"u_k has shape \(2, 6\); need \(batch\)"),
    (heads.sample_tokens, (U[0, 0],), {}, "key is None and temperature is 1.0; need a key"),
    (heads.sample_tokens, (U[0, 0], KEY, -1.0), {}, "temperature is -1.0; need one number"),
    (heads.sample_tokens, (U[0, 0], KEY, float("nan")), {}, "temperature is nan"),
    (write, (), dict(temperature=1.0), "key is None and temperature is 1.0"),
    (write, (), dict(tokens=TOKENS[0]), r"tokens has shape \(6,\)"),
    (write, (), dict(tokens=written(2, 6)), "tokens contains 7; need tokens from 0 to 4"),
    (write, (), dict(tokens=TOKENS[:, :0]), "tokens has a row without a real token"),
    (write, (), dict(mask=np.arange(6) < [[6], [0]]), "tokens has a row without"),
    (write, (), dict(mask=np.arange(6) > 2), "mask has True after False"),
    (write, (), dict(length=0), "length is 0; need a whole number"),
    (write, (language(functools.partial(Attention, heads=2, capacity=7)),),
     dict(length=3), "the model's scores are nan; need.*a cache"),
    (retrieval, (), dict(sizes=(5, 0, 4, 1)), "classes is 0, a whole number"),
    (retrieval, (), dict(pool="max"), "pool is 'max', one of 'mean', 'last'"),
    (retrieval(), (np.zeros((2, 3, 6), np.int32),), {},
     r"u has shape \(2, 3, 6\); need two documents a row, \(batch, 2, \.\.\.\)"),
    (retrieval(), (TOKENS,), {}, r"u has shape \(2, 6\)"),
    (retrieval(), (np.zeros((2, 2, 6), np.int32),), dict(mask=np.ones((2, 3, 6), bool)),
     r"mask has shape \(2, 3, 6\); need two documents"),
    (pooling.pool_samples, (U, 0), {}, "size is 0; need a whole number ≥ 1"),
    (pooling.pool_samples, (U, 2), dict(mask=np.ones(5, bool)), r"mask has shape \(5,\)"),
    (pooled, (), dict(pools=()), r"pools is \(\); need one number for each block"),
    (pooled, (), dict(pools=(2, 0)), r"pools\[1\] is 0; need a whole number ≥ 1"),
    (pooled, (), dict(H=(4, 4, 4)), "H has 3 entries; need one for each of the 2 pools"),
    (pooled, (), dict(layer=[Identity]), "layer has 1 entries; need one"),
    (pooled, (), dict(H=(4, 0)), r"H\[1\] is 0, a whole number"),
    (pooled, (), dict(classes=0), "classes is 0, a whole number"),
    (pooled, (), dict(pool="max"), "pool is 'max', one of"),
    (pooled(), (U,), dict(pools=(2,)), r"pools is \(2,\); need one.*as in \(2, 2\)"),
    (pooled(layer=BOTH).init_state, (2,), {}, "from both ends"),
]


@pytest.mark.parametrize("function, arguments, options, words", CASES,
                         ids=[case[3][:40] for case in CASES])
def test_messages(function, arguments, options, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments, **options)


def test_unknown_options_are_named():
    for make in (regressor, language, retrieval, pooled):
        with pytest.raises(TypeError, match="'nrom'"):
            make(nrom="batch")
    with pytest.raises(TypeError, match="'nrom'"):
        models.SequenceClassifier(3, 2, 4, 2, Identity, nrom="batch", rngs=RNGS)


def test_what_stands_in_the_padding_is_not_looked_at():
    mask = np.arange(6) < 3
    language()(np.where(mask, TOKENS, -1), mask=mask)
    language()(np.where(mask, TOKENS, 99), mask=mask)
