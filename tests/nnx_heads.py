"""Run by test_heads.py in a process of its own, once in each mode of NNX."""

import functools

import jax
import numpy as np
from flax import nnx

from annotated_ssm.heads import (LanguageModel, Retrieval, SequenceRegressor,
                                 continue_text)
from annotated_ssm.layers import S5
from annotated_ssm.pooling import PooledClassifier

rng, layer = np.random.default_rng(0), functools.partial(S5, P=4)
u = rng.standard_normal((3, 8, 2)).astype(np.float32)
tokens = rng.integers(0, 5, (3, 2, 8)).astype(np.int32)
CASES = {
    "regressor": (SequenceRegressor(2, 1, 4, 1, layer, rngs=nnx.Rngs(0)), u),
    "language": (LanguageModel(5, 4, 1, layer, rngs=nnx.Rngs(0)), tokens[:, 0]),
    "retrieval": (Retrieval(5, 2, 4, 1, layer, rngs=nnx.Rngs(0)), tokens),
    "pooled": (PooledClassifier(2, 2, (3, 4), layer, (4, 2), rngs=nnx.Rngs(0)), u),
}
for name, (model, data) in CASES.items():
    model.train()
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def slope(params, rest):
        def loss(params):
            own = jax.tree.map(lambda leaf: leaf, rest)
            module = nnx.merge(graph, params, own)
            return (module(data) ** 2).mean(), nnx.state(module, nnx.Not(nnx.Param))
        return jax.value_and_grad(loss, has_aux=True)(params)

    (before, rest), gradient = slope(params, rest)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient)
    nnx.update(model, params, rest)
    model.eval()
    step = nnx.jit(lambda model, *a: model.step(*a))
    state = model.init_state(3)
    for k in range(8):
        sample = data[..., k] if name in ("language", "retrieval") else data[:, k]
        y, state = step(model, sample, state)
    whole = model(data)
    whole = whole[:, -1] if name in ("regressor", "language") else whole
    np.testing.assert_allclose(y, whole, atol=1e-5)
    if name == "language":
        assert continue_text(model, data, 3, temperature=0)[0].shape == (3, 3)
    print(name)
