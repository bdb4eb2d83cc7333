"""Run by test_layers.py in a process of its own, once in each mode of NNX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from annotated_ssm.interface import SSMParam
from annotated_ssm.layers import S5
from annotated_ssm.models import SequenceClassifier

model = SequenceClassifier(2, 3, 4, 2, functools.partial(S5, P=4),
                           rngs=nnx.Rngs(0))
u = np.random.default_rng(0).standard_normal((3, 10, 2)).astype(np.float32)
labels = jnp.array([0, 1, 2])
mask = np.arange(10) < np.array([10, 4, 7])[:, None]
model.train()
graph, ssm, regular, rest = nnx.split(model, SSMParam, nnx.Param, ...)
traces = 0


@jax.jit
def update(ssm, regular, rest):
    global traces
    traces += 1

    def loss(params, rest):
        # The map gives the variables that change to the trace of the gradient.
        rest = jax.tree.map(lambda leaf: leaf, rest)
        module = nnx.merge(graph, *params, rest)
        scores = jax.nn.log_softmax(module(u, mask=mask))
        return -jnp.mean(scores[jnp.arange(3), labels]), nnx.state(
            module, nnx.Not(nnx.Param))

    (value, rest), slope = jax.value_and_grad(loss, has_aux=True)(
        (ssm, regular), rest)
    ssm, regular = jax.tree.map(lambda p, g: p - 0.1 * g, (ssm, regular), slope)
    return ssm, regular, rest, value


values = []
for _ in range(3):
    ssm, regular, rest, value = update(ssm, regular, rest)
    values.append(float(value))
assert np.all(np.isfinite(values)) and values[-1] < values[0], values

nnx.update(model, ssm, regular, rest)
model.eval()
scores = model(u)
state = model.init_state(3)
for k in range(10):
    streamed, state = model.step(u[:, k], state)
np.testing.assert_allclose(streamed, scores, atol=1e-5)
assert float(jnp.abs(model.backbone.blocks[0].norm.norm.mean[...]).max()) > 0
print("traces", traces, "ok")
