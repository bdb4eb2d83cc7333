"""Run by test_training.py in a process of its own, once in each mode of NNX."""

import json

import numpy as np

from annotated_ssm import experiments, tasks, training

rng = np.random.default_rng(0)
split = tasks.Split(rng.normal(size=(11, 6, 1)).astype(np.float32),
                    np.arange(11, dtype=np.int32) % 10)
task = tasks.Task("noise", split, split, split, 1, 10, 6, "accuracy", "noise")
experiment = experiments.override(
    experiments.get("digits"), {"H": 4, "P": 4, "blocks": 1, "depth": 1})
model = experiments.build(experiment, task)
config = training.TrainingConfig(epochs=3, batch_size=4)
result = training.fit(model, task, config, progress=False)
print(json.dumps(result.history))
