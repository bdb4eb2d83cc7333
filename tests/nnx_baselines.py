"""Run by test_baselines.py in a process of its own, in the tree mode of NNX."""

import functools

import jax
import numpy as np
from flax import nnx

from annotated_ssm.attention import Attention, LinearAttention
from annotated_ssm.models import SequenceClassifier
from annotated_ssm.recurrent import LSTM

u = np.random.default_rng(0).standard_normal((3, 6, 2)).astype(np.float32)
mask = np.arange(6) < np.array([6, 4, 3])[:, None]
kinds = (LSTM, functools.partial(Attention, capacity=6), LinearAttention)
for kind in kinds:
    model = SequenceClassifier(2, 3, 8, 1, kind, norm="layer", rngs=nnx.Rngs(0))
    model.eval()
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def slope(params, rest):
        def loss(params):
            scores = nnx.merge(graph, params, rest)(u, mask=mask)
            return -jax.nn.log_softmax(scores)[:, 0].mean(), scores
        return jax.value_and_grad(loss, has_aux=True)(params)

    step = jax.jit(lambda p, *a: nnx.merge(graph, p, rest).step(*a))
    (before, _), gradient = slope(params, rest)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    (after, scores), _ = slope(params, rest)
    assert after < before, (before, after)
    state = model.init_state(3)
    for k in range(6):
        streamed, state = step(params, u[:, k], state)
    np.testing.assert_allclose(streamed[0], scores[0], atol=1e-5)
    print(kind, "ok")
