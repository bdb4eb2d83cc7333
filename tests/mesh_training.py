"""Run by test_training.py in a process of its own, with eight virtual devices."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from annotated_ssm import layers, models, tasks, training
from annotated_ssm.compiled import replicated


class Model(nnx.Module):
    """In double precision, with means over the whole batch."""

    def __init__(self):
        rngs, double = nnx.Rngs(0), jnp.float64
        self.inner = nnx.Linear(2, 8, rngs=rngs, param_dtype=double)
        self.norm = nnx.BatchNorm(8, rngs=rngs, param_dtype=double)
        self.outer = nnx.Linear(8, 3, rngs=rngs, param_dtype=double)

    def __call__(self, u, steps=None, mask=None):
        return self.outer(jnp.tanh(self.norm(self.inner(u)))).mean(axis=1)


def split(seed, dtype):
    rng = np.random.default_rng(seed)
    return tasks.Split(rng.normal(size=(48, 6, 2)).astype(dtype),
                       rng.integers(0, 3, 48).astype(np.int32))


def run(model, mesh, epochs, dtype):
    task = tasks.Task("noise", split(0, dtype), split(1, dtype), split(2, dtype),
                      2, 3, 6, "accuracy", "noise")
    config = training.TrainingConfig(epochs=epochs, batch_size=16)
    return training.fit(model, task, config, mesh=mesh, progress=False)


mesh = jax.make_mesh((8,), ("batch",))
result = {"devices": len(jax.devices())}
for name, where in (("one", None), ("eight", mesh)):
    history = run(Model(), where, 10, np.float64).history
    result[name] = {k: v for k, v in history.items() if k.endswith("loss")}
    s5 = models.SequenceClassifier(2, 3, 4, 2, partial(layers.S5, P=4),
                                   dropout=0.0, rngs=nnx.Rngs(0))
    graphdef, state = training.start(s5, training.TrainingConfig(), 3)
    state = replicated(state, where)
    batch = training.feed(split(0, np.float32).take(np.arange(16)), where)
    _, loss = training.train_step(graphdef, training.TrainingConfig(), 3,
                                  "classification", state, batch)
    result[f"s5 {name}"] = float(loss)
print(json.dumps(result))
