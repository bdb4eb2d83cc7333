"""What training says when something is wrong."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import layers, models, optimizer, tasks, training
from annotated_ssm.training import TrainingConfig


def classifier(H=4):
    return models.SequenceClassifier(1, 3, H, 1, partial(layers.S5, P=4),
                                     rngs=nnx.Rngs(0))


@pytest.fixture
def params():
    return nnx.state(classifier(), nnx.Param)


@pytest.mark.parametrize("settings, message", [
    (dict(epochs=0), "epochs is 0: it must be positive"),
    (dict(batch_size=-1), "batch_size is -1: it must be positive"),
    (dict(epochs=1.5), "epochs is 1.5: it must be a whole number"),
    (dict(batch_size=2.5), "batch_size is 2.5: it must be a whole number"),
    (dict(clip_norm=0.0), "clip_norm is 0.0: it must be positive"),
    (dict(learning_rate=-1.0), "learning_rate is -1.0: it must be at least 0"),
    (dict(ssm_learning_rate=float("nan")), "ssm_learning_rate is nan"),
    (dict(weight_decay=-0.1), "weight_decay is -0.1: it must be at least 0"),
    (dict(warmup=40), r"warmup is 40: it must be in \[0, 1\)"),
    (dict(label_smoothing=1.0), "label_smoothing is 1.0"),
    (dict(patience=-1), "patience is -1: it must be a whole number, 0 or more"),
    (dict(patience=1.5), "patience is 1.5: it must be a whole number"),
])
def test_configuration(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**settings)


def test_statistics_cannot_be_trained():
    state = nnx.state(classifier(), (nnx.Param, nnx.BatchStat))
    with pytest.raises(ValueError, match="params has BatchStat at .*mean"):
        optimizer.parameter_labels(state)


def test_complex_parameters_are_refused():
    state = nnx.State({"B": nnx.Param(jnp.ones(3, jnp.complex64))})
    with pytest.raises(ValueError, match="params has complex64 at B"):
        optimizer.parameter_labels(state)


def test_a_leaf_without_a_label(params):
    labels = list(nnx.to_flat_state(optimizer.parameter_labels(params)))
    with pytest.raises(ValueError, match="labels leaves out .*log_dt"):
        optimizer.make_optimizer(
            params, TrainingConfig(), 10, nnx.from_flat_state(
                [item for item in labels if item[0][-1] != "log_dt"]))


def test_a_label_without_a_leaf(params):
    labels = list(nnx.to_flat_state(optimizer.parameter_labels(params)))
    with pytest.raises(ValueError, match="and has .*gone.* without a parameter"):
        optimizer.make_optimizer(
            params, TrainingConfig(), 10,
            nnx.from_flat_state([*labels, (("gone",), "ssm")]))


def test_an_unknown_label(params):
    labels = nnx.map_state(lambda path, leaf: "fast", params)
    with pytest.raises(ValueError, match=r"labels has \['fast'\]: one of ssm"):
        optimizer.make_optimizer(params, TrainingConfig(), 10, labels)


def task(value=0.0):
    split = tasks.Split(np.full((4, 5, 1), value, np.float32),
                        np.zeros(4, np.int32))
    return tasks.Task("flat", split, split, split, 1, 3, 5, "accuracy", "constant")


def test_a_loss_that_is_not_a_number_stops_the_run():
    with pytest.raises(FloatingPointError, match="the loss of epoch 0 is nan"):
        training.fit(classifier(), task(float("nan")), progress=False)


def test_loading_another_model(tmp_path):
    training.save(tmp_path / "m.npz", classifier(H=4))
    with pytest.raises(ValueError, match=r"path holds \(.*the model has \("):
        training.load(tmp_path / "m.npz", classifier(H=6))


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_task_without_examples(part):
    empty = dataclasses.replace(
        task(), **{part: task().train.take(np.arange(0))})
    with pytest.raises(ValueError, match=f"task has no examples for {part}"):
        training.fit(classifier(), empty, progress=False)


def test_a_model_with_other_classes():
    other = dataclasses.replace(task(), classes=5)
    with pytest.raises(ValueError, match="model gives 3 scores: task has 5"):
        training.fit(classifier(), other, progress=False)


@pytest.mark.parametrize("n, size", [(0, 2), (4, 0), (4, -1)])
def test_nothing_to_predict(n, size):
    split = task().train.take(np.arange(n))
    with pytest.raises(ValueError, match=f"{n} examples and batch_size is {size}"):
        training.predict(classifier(), split, size)


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04 cut short"])
def test_loading_what_was_not_saved(tmp_path, data):
    (tmp_path / "m.npz").write_bytes(data)
    with pytest.raises(ValueError, match="path is .*m.npz, which is no whole"):
        training.load(tmp_path / "m.npz", classifier())


def test_loading_a_lone_array(tmp_path):
    np.save(tmp_path / "m.npy", np.ones(3))
    with pytest.raises(ValueError, match="path is .*m.npy, which is no whole"):
        training.load(tmp_path / "m.npy", classifier())


class Says(nnx.Module):
    """Outputs of a given shape for each example."""

    def __init__(self, *shape, value=0.0):
        self.outputs = nnx.Param(jnp.full(shape, value, jnp.float32))

    def __call__(self, u, steps=None, mask=None):
        return jnp.broadcast_to(self.outputs[...], (len(u), *self.outputs.shape))


def test_outputs_of_another_shape():
    with pytest.raises(ValueError, match=r"outputs of shape \(50, 5, 3\): answers of "
                       r"shape \(50,\) need \(50, 3\)"):
        training.fit(Says(5, 3), task(), progress=False)
    with pytest.raises(ValueError, match=r"answers of shape \(2,\) need \(2,\)"):
        training.evaluate(Says(3), task().test, 2, "regression")


def test_a_validation_score_that_is_not_a_number():
    nan = tasks.Split(np.full((4, 5, 1), np.nan, np.float32), np.zeros(4, np.int32))
    with pytest.raises(FloatingPointError, match="the validation score of epoch 0"):
        training.fit(classifier(), dataclasses.replace(task(), validation=nan),
                     progress=False)


def mesh(name="batch"):
    return jax.sharding.Mesh(np.array(jax.devices()[:1]), (name,))


def test_a_mesh_without_a_batch_axis():
    with pytest.raises(ValueError, match=r"mesh has the axes \('model',\): one named"):
        training.fit(classifier(), task(), mesh=mesh("model"), progress=False)


class Three:
    """As many devices as matter to the check of the batch size."""
    devices, axis_names, shape = np.array(jax.devices() * 3), ("batch",), {"batch": 3}


@pytest.mark.parametrize("size, message", [
    (3, "batch_size is 4 in validation: 3 devices"), (50, "batch_size is 4 in training"),
])
def test_a_batch_that_the_devices_cannot_divide(size, message):
    config = TrainingConfig(batch_size=size if size == 50 else 4)
    given = task() if size == 50 else dataclasses.replace(
        task(), train=tasks.Split(np.zeros((3, 5, 1), np.float32),
                                  np.zeros(3, np.int32)))
    with pytest.raises(ValueError, match=message):
        training._check_fit(classifier(), given, config, Three)


def test_augmentation_to_another_number():
    with pytest.raises(ValueError, match="augment returns 2 examples: 4 are needed"):
        training.fit(classifier(), task(), progress=False,
                     augment=lambda split, seed, epoch: split.take(np.arange(2)))


def test_stop_after():
    with pytest.raises(ValueError, match="stop_after is 0: it must be at least 1"):
        training.fit(classifier(), task(), stop_after=0, progress=False)


def test_a_directory_of_another_run(tmp_path):
    short = dict(directory=tmp_path, progress=False)
    training.fit(classifier(), task(), TrainingConfig(epochs=1), **short)
    with pytest.raises(ValueError, match="a run with epochs = 1, not 2: choose another"):
        training.fit(classifier(), task(), TrainingConfig(epochs=2), **short)
    with pytest.raises(ValueError, match="seed = 0, not 1: choose another"):
        training.fit(classifier(), task(), TrainingConfig(epochs=1), seed=1, **short)
    for part in ("train", "validation"):
        split = getattr(task(), part)
        y = np.array(split.y)
        y[-1] = (y[-1] + 1) % 3
        other = dataclasses.replace(task(), **{part: dataclasses.replace(split, y=y)})
        with pytest.raises(ValueError, match="a run with data = '.{16}', not '.{16}': "):
            training.fit(classifier(), other, TrainingConfig(epochs=1), **short)
    with pytest.raises(ValueError, match="this very run: resume it, or choose"):
        training.fit(classifier(), task(), TrainingConfig(epochs=1), resume=False,
                     **short)
    with pytest.raises(ValueError, match="whose checkpoint is of another model: "):
        training.fit(classifier(H=6), task(), TrainingConfig(epochs=1), **short)


def test_a_directory_that_is_none(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(ValueError, match="directory is .*file, where a file is in the"):
        training.fit(classifier(), task(), directory=tmp_path / "file", progress=False)
    (tmp_path / "run.json").write_text("[1")
    with pytest.raises(ValueError, match="run.json, which is no record of a run"):
        training.fit(classifier(), task(), directory=tmp_path, progress=False)
