"""The optimizer's groups, the step, the loop, and what a seed decides."""

import dataclasses
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from annotated_ssm import interface, layers, models, tasks, training
from annotated_ssm.training import TrainingConfig


def classifier(seed=0, layer=None, **extra):
    layer = layer or partial(layers.S5, P=4)
    return models.SequenceClassifier(1, 3, 4, 2, layer,
                                     rngs=training.streams(seed), **extra)


def synthetic(n=40, length=12, classes=3, mask=False, steps=False, seed=0):
    """Sequences whose mean tells their class, in three splits of one size."""
    def split(k):
        rng = np.random.default_rng([seed, k])
        y = np.arange(n, dtype=np.int32) % classes
        u = rng.normal(size=(n, length, 1)) + 2.0 * y[:, None, None]
        lengths = rng.integers(length // 2, length + 1, n)
        return tasks.Split(
            u.astype(np.float32), y,
            np.arange(length) < lengths[:, None] if mask else None,
            rng.uniform(0.5, 1.5, (n, length)).astype(np.float32)
            if steps else None)
    return tasks.Task("synthetic", split(0), split(1), split(2), 1, classes,
                      length, "accuracy", "sequences with a class in the mean")


def flat(state):
    return {".".join(map(str, path)): np.asarray(leaf[...])
            for path, leaf in nnx.to_flat_state(state)}


# Groups

def test_every_leaf_has_a_label_and_every_label_a_leaf():
    params = nnx.state(classifier(), nnx.Param)
    labels = dict(nnx.to_flat_state(training.parameter_labels(params)))
    leaves = dict(nnx.to_flat_state(params))
    assert labels.keys() == leaves.keys()
    for path, leaf in leaves.items():
        expected = ("ssm" if isinstance(leaf, interface.SSMParam) else
                    "regular" if leaf[...].ndim > 1 else "scale")
        assert labels[path] == expected, path
    names = {path[-1] for path, label in labels.items() if label == "ssm"}
    assert names == {"Lambda_log_decay", "Lambda_im", "B", "log_dt"}


def test_no_parameter_is_complex_or_weakly_typed():
    for leaf in jax.tree.leaves(nnx.state(classifier(), nnx.Param)):
        assert not jnp.iscomplexobj(leaf) and not leaf.weak_type


def test_model_without_dynamics_has_no_ssm_group():
    params = nnx.state(classifier(layer=interface.Identity), nnx.Param)
    used = set(jax.tree.leaves(training.parameter_labels(params)))
    assert used == {"regular", "scale"}
    optimizer = training.make_optimizer(params, TrainingConfig(), 10)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert flat(updates).keys() == flat(params).keys()


def test_first_step_has_the_size_of_each_groups_rate():
    params = nnx.state(classifier(), nnx.Param)
    config = TrainingConfig(learning_rate=1e-2, ssm_learning_rate=1e-3,
                            weight_decay=0.0, warmup=0.0)
    optimizer = training.make_optimizer(params, config, total_steps=5)
    slopes = jax.tree.map(lambda a: jnp.full(a.shape, -0.3, a.dtype), params)
    updates, _ = optimizer.update(slopes, optimizer.init(params), params)
    labels = flat_labels(params)
    for name, step in flat(updates).items():
        rate = 1e-3 if labels[name] == "ssm" else 1e-2
        np.testing.assert_allclose(step, rate, rtol=1e-5)


def flat_labels(params):
    labels = training.parameter_labels(params)
    return {".".join(map(str, path)): label
            for path, label in nnx.to_flat_state(labels)}


def test_only_matrices_decay():
    params = nnx.state(classifier(), nnx.Param)
    params = jax.tree.map(lambda a: a + 1.0, params)
    config = TrainingConfig(learning_rate=1e-2, weight_decay=0.5, warmup=0.0)
    optimizer = training.make_optimizer(params, config, total_steps=5)
    zero = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zero, optimizer.init(params), params)
    labels, before = flat_labels(params), flat(params)
    for name, step in flat(updates).items():
        decay = 5e-3 if labels[name] == "regular" else 0.0
        np.testing.assert_allclose(step, -decay * before[name], rtol=1e-5)


def test_clipping_shortens_all_groups_by_one_factor():
    params = nnx.state(classifier(), nnx.Param)
    slopes = jax.tree.map(jnp.ones_like, params)
    count = sum(a.size for a in jax.tree.leaves(slopes))
    config = TrainingConfig(clip_norm=0.5)
    optimizer = training.make_optimizer(params, config, total_steps=5)
    _, moments = optimizer.update(slopes, optimizer.init(params), params)
    means = [a for a in jax.tree.leaves(moments) if a.ndim and (a > 0).any()]
    first_moment = 0.1 * 0.5 / np.sqrt(count)
    hits = sum(a.size for a in means
               if np.allclose(a, first_moment, rtol=1e-4))
    assert hits == count


# Schedule and loss

@pytest.mark.parametrize("total, warmup", [(1, 0.1), (7, 0.0), (40, 0.25)])
def test_schedule_is_positive_and_peaks_at_the_end_of_the_warm_up(total, warmup):
    rate = jax.vmap(training.schedule(3.0, total, warmup))(jnp.arange(total))
    rise = max(1, round(warmup * total))
    assert (rate > 0).all() and rate.max() <= 3.0
    np.testing.assert_allclose(rate[rise - 1], 3.0, rtol=1e-6)
    assert (jnp.diff(rate[rise:]) < 0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_agrees_with_optax(smoothing):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 5)).astype(np.float32)
    y = rng.integers(0, 5, 6).astype(np.int32)
    target = optax.smooth_labels(jax.nn.one_hot(y, 5), smoothing)
    expected = optax.softmax_cross_entropy(logits, target).mean()
    got = training.cross_entropy(logits, y, smoothing)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


# The step and the loop

def noted():
    """A layer that counts how often its Python runs, that is, is traced."""
    runs = []

    class Noted(layers.S5):
        def __call__(self, u, *args, **kwargs):
            runs.append(u.shape)
            return super().__call__(u, *args, **kwargs)

    return partial(Noted, P=4), runs


def test_two_runs_with_an_unfilled_batch_trace_once():
    layer, runs = noted()
    config = TrainingConfig(epochs=2, batch_size=8)
    for seed in (0, 1):
        training.fit(classifier(seed, layer), synthetic(n=19), config,
                     seed=seed, progress=False)
    blocks = 2
    assert len(runs) == 2 * blocks    # one for training, one for evaluation


@pytest.mark.parametrize("mask, steps", [(False, False), (True, True)])
def test_fit_learns(mask, steps):
    task = synthetic(mask=mask, steps=steps)
    config = TrainingConfig(epochs=40, batch_size=10, learning_rate=3e-2)
    result = training.fit(classifier(), task, config, progress=False)
    assert result.validation["accuracy"] >= 0.9
    history = result.history
    assert history["train_loss"][-1] < 0.5 * history["train_loss"][0]
    assert {len(values) for values in history.values()} == {40}


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    task, config = synthetic(), TrainingConfig(epochs=3, batch_size=8)

    def run(seed):
        return training.fit(classifier(seed, dropout=0.3), task, config,
                            seed=seed, progress=False)

    one, again, other = run(0), run(0), run(1)
    assert one.history == again.history
    a, b, c = (flat(nnx.state(r.model, nnx.Param)) for r in (one, again, other))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert not any(np.array_equal(a[name], c[name]) for name in a
                   if name.endswith("kernel"))


def test_order_of_the_data_depends_on_the_seed_alone():
    """With equal models and no dropout, only the order differs."""
    task, config = synthetic(), TrainingConfig(epochs=1, batch_size=8)
    losses = [training.fit(classifier(0, dropout=0.0), task, config, seed=seed,
                           progress=False).history["train_loss"][0]
              for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_dropout_masks_differ_between_steps_and_layers():
    model = classifier(dropout=0.5)
    counts = [int(leaf[...]) for path, leaf in
              nnx.to_flat_state(nnx.state(model, nnx.RngCount))]
    keys = [np.asarray(jax.random.key_data(leaf[...])) for path, leaf in
            nnx.to_flat_state(nnx.state(model, nnx.RngKey))]
    assert len({key.tobytes() for key in keys}) == len(keys)
    graphdef, state = training.start(model, TrainingConfig(), 5)
    batch = synthetic().train
    after, _ = training.train_step(graphdef, TrainingConfig(), 5, state,
                                   batch.u, batch.y, None, None)
    moved = [int(leaf[...]) for path, leaf in nnx.to_flat_state(after.rest)
             if isinstance(leaf, nnx.RngCount)]
    assert sum(moved) > sum(counts)


def test_fit_leaves_the_model_as_it_was():
    model = classifier()
    before = flat(nnx.state(model, (nnx.Param, nnx.BatchStat)))
    result = training.fit(model, synthetic(), TrainingConfig(epochs=1),
                          progress=False)
    after = flat(nnx.state(model, (nnx.Param, nnx.BatchStat)))
    assert all(np.array_equal(before[name], after[name]) for name in before)
    trained = flat(nnx.state(result.model, nnx.BatchStat))
    assert any(not np.array_equal(before[name], trained[name])
               for name in trained)


def test_the_kept_model_is_that_of_the_best_validation_epoch():
    task = synthetic()
    config = TrainingConfig(epochs=12, batch_size=8, learning_rate=5e-2)
    result = training.fit(classifier(), task, config, progress=False)
    history = result.history
    ranks = list(zip(history["validation_accuracy"],
                     (-loss for loss in history["validation_loss"])))
    assert result.best_epoch == ranks.index(max(ranks))
    again = training.evaluate(result.model, task.validation, config.batch_size)
    assert again == result.validation == {
        "loss": history["validation_loss"][result.best_epoch],
        "accuracy": history["validation_accuracy"][result.best_epoch]}


def test_the_test_split_is_not_looked_at():
    task, config = synthetic(), TrainingConfig(epochs=2, batch_size=8)
    nan = tasks.Split(np.full_like(task.test.u, np.nan), task.test.y)
    spoiled = dataclasses.replace(task, test=nan)
    one, other = (training.fit(classifier(), t, config, progress=False)
                  for t in (task, spoiled))
    assert one.history == other.history


@pytest.mark.parametrize("batch_size", [1, 3, 7, 20])
def test_evaluation_does_not_depend_on_the_batch_size(batch_size):
    model, split = classifier(), synthetic(n=7, mask=True, steps=True).test
    np.testing.assert_allclose(training.predict(model, split, batch_size),
                               training.predict(model, split, 7), atol=1e-5)


def test_evaluate_is_loss_and_accuracy_of_predict():
    model, split = classifier(), synthetic(n=7).test
    logits = training.predict(model, split, 3)
    score = training.evaluate(model, split, 3)
    assert score["accuracy"] == np.mean(logits.argmax(1) == split.y)
    expected = optax.softmax_cross_entropy_with_integer_labels(
        logits, split.y).mean()
    np.testing.assert_allclose(score["loss"], expected, rtol=1e-5)


def test_save_and_load(tmp_path):
    task, config = synthetic(), TrainingConfig(epochs=1)
    trained = training.fit(classifier(), task, config, progress=False).model
    training.save(tmp_path / "model.npz", trained)
    loaded = training.load(tmp_path / "model.npz", classifier(seed=1))
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    assert np.array_equal(training.predict(loaded, task.test),
                          training.predict(trained, task.test))


def test_both_modes_of_nnx_train_alike():
    root = Path(__file__).parent.parent
    histories = []
    for mode in ("true", "false"):
        result = subprocess.run(
            [sys.executable, str(root / "tests" / "nnx_training.py")],
            env=os.environ | {"NNX_GRAPH_MODE": mode, "NNX_GRAPH_UPDATES": mode,
                              "PYTHONPATH": str(root)},
            capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr[-2000:]
        histories.append(json.loads(result.stdout))
    assert histories[0] == histories[1]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_a_saved_model_keeps_its_own_dtype(tmp_path, dtype):
    model = models.SequenceClassifier(1, 3, 4, 1, interface.Identity,
                                      rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    short = nnx.merge(graph, jax.tree.map(
        lambda x: x.astype(dtype) if x.dtype == jnp.float32 else x, state))
    training.save(tmp_path / "m.npz", short)
    for into in short, model:   # whatever the file holds
        loaded = training.load(tmp_path / "m.npz", into)
        assert loaded.head.kernel[...].dtype == into.head.kernel[...].dtype
        np.testing.assert_array_equal(
            np.asarray(loaded.head.kernel[...], np.float32),
            np.asarray(short.head.kernel[...], np.float32))
