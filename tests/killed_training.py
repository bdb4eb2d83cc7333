"""Run by test_training.py in processes that are killed: a directory as argument."""

import sys

import jax.numpy as jnp
import numpy as np
from flax import nnx

from annotated_ssm import tasks, training


class Model(nnx.Module):
    """All that a run may have to keep: dropout, averages, parameters."""

    def __init__(self, rngs):
        self.inner = nnx.Linear(2, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.outer = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, u, steps=None, mask=None):
        return self.outer(self.dropout(jnp.tanh(self.norm(self.inner(u))))).mean(1)


class Talking:
    """Examples that say when they are taken."""

    def __init__(self, split):
        self.split = split

    def __len__(self):
        return len(self.split)

    def take(self, indices):
        if len(indices) > 3:     # fewer are for a look
            print("batch", flush=True)
        return self.split.take(indices)


def split(seed):
    rng = np.random.default_rng(seed)
    return tasks.Split(rng.normal(size=(40, 6, 2)).astype(np.float32),
                       rng.integers(0, 3, 40).astype(np.int32))


task = tasks.Task("noise", Talking(split(0)), split(1), split(2), 2, 3, 6,
                  "accuracy", "noise")
training.fit(Model(training.streams(0)), task,
             training.TrainingConfig(epochs=12, batch_size=8), progress=False,
             directory=sys.argv[1], checkpoint_seconds=0.0)
