"""The optimizer's groups, the step, the loop, and what a seed decides."""

import dataclasses
import json
import os
import subprocess
import sys
import signal
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import pytest
from devices import cpu_devices
from flax import nnx

from annotated_ssm import (figures_training, interface, layers, metrics, models,
                           optimizer, tasks, training)
from annotated_ssm.splits import Windows
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
    labels = dict(nnx.to_flat_state(optimizer.parameter_labels(params)))
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
    used = set(jax.tree.leaves(optimizer.parameter_labels(params)))
    assert used == {"regular", "scale"}
    rule = optimizer.make_optimizer(params, TrainingConfig(), 10)
    updates, _ = rule.update(params, rule.init(params), params)
    assert flat(updates).keys() == flat(params).keys()


def test_first_step_has_the_size_of_each_groups_rate():
    params = nnx.state(classifier(), nnx.Param)
    config = TrainingConfig(learning_rate=1e-2, ssm_learning_rate=1e-3,
                            weight_decay=0.0, warmup=0.0)
    rule = optimizer.make_optimizer(params, config, total_steps=5)
    slopes = jax.tree.map(lambda a: jnp.full(a.shape, -0.3, a.dtype), params)
    updates, _ = rule.update(slopes, rule.init(params), params)
    labels = flat_labels(params)
    for name, step in flat(updates).items():
        rate = 1e-3 if labels[name] == "ssm" else 1e-2
        np.testing.assert_allclose(step, rate, rtol=1e-5)


def flat_labels(params):
    labels = optimizer.parameter_labels(params)
    return {".".join(map(str, path)): label
            for path, label in nnx.to_flat_state(labels)}


def test_only_matrices_decay():
    params = nnx.state(classifier(), nnx.Param)
    params = jax.tree.map(lambda a: a + 1.0, params)
    config = TrainingConfig(learning_rate=1e-2, weight_decay=0.5, warmup=0.0)
    rule = optimizer.make_optimizer(params, config, total_steps=5)
    zero = jax.tree.map(jnp.zeros_like, params)
    updates, _ = rule.update(zero, rule.init(params), params)
    labels, before = flat_labels(params), flat(params)
    for name, step in flat(updates).items():
        decay = 5e-3 if labels[name] == "regular" else 0.0
        np.testing.assert_allclose(step, -decay * before[name], rtol=1e-5)


def test_clipping_shortens_all_groups_by_one_factor():
    params = nnx.state(classifier(), nnx.Param)
    slopes = jax.tree.map(jnp.ones_like, params)
    count = sum(a.size for a in jax.tree.leaves(slopes))
    config = TrainingConfig(clip_norm=0.5)
    rule = optimizer.make_optimizer(params, config, total_steps=5)
    _, moments = rule.update(slopes, rule.init(params), params)
    means = [a for a in jax.tree.leaves(moments) if a.ndim and (a > 0).any()]
    first_moment = 0.1 * 0.5 / np.sqrt(count)
    hits = sum(a.size for a in means
               if np.allclose(a, first_moment, rtol=1e-4))
    assert hits == count


# Schedule and loss

@pytest.mark.parametrize("total, warmup", [(1, 0.1), (7, 0.0), (40, 0.25)])
def test_schedule_is_positive_and_peaks_at_the_end_of_the_warm_up(total, warmup):
    rate = jax.vmap(optimizer.schedule(3.0, total, warmup))(jnp.arange(total))
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
    got = metrics.cross_entropy(logits, y, smoothing)
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
    after, _ = training.train_step(graphdef, TrainingConfig(), 5, "classification",
                                   state, training.feed(synthetic().train))
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


# Tokens and numbers

class Table(nnx.Module):
    """Scores, or a number, for each token, whatever came before."""

    def __init__(self, tokens, outputs):
        self.rows = nnx.Param(jnp.zeros((tokens, outputs), jnp.float32))

    def __call__(self, u, steps=None, mask=None):
        return self.rows[...][u]


def text(tokens, metric="perplexity"):
    """Windows of a text, which overlap at its end."""
    parts = [Windows(tokens[:n], 8, once=n < 300) for n in (301, 90, 90)]
    return tasks.Task("text", *parts, 5, 5, 8, metric, "", kind="tokens",
                      vocabulary=5)


def counting():
    """After each token comes its successor."""
    return text(np.arange(301) % 5)


NOISE = np.random.default_rng(0).integers(0, 5, 301)


def test_fit_learns_tokens():
    config = TrainingConfig(epochs=30, batch_size=8, learning_rate=0.5,
                            weight_decay=0.0)
    result = training.fit(Table(5, 5), counting(), config, progress=False)
    assert list(result.validation) == ["loss", "accuracy", "perplexity"]
    assert result.validation["accuracy"] == 1
    assert result.validation["perplexity"] < 1.05
    np.testing.assert_allclose(np.exp(result.validation["loss"]),
                               result.validation["perplexity"])
    assert training.predict(result.model, counting().test, 3).shape == (12, 8, 5)


def numbers(n=24, length=6, scored=None, mask=None, seed=0):
    """For each token its square is asked for."""
    def split(k):
        u = np.random.default_rng([seed, k]).integers(0, 4, (n, length))
        y = (u[..., None] ** 2).astype(np.float32)
        counted = scored if mask is None else mask
        if counted is not None:
            y = np.where(counted[..., None], y, np.nan)
        return tasks.Split(u, y, mask=mask, scored=scored)
    return tasks.Task("squares", split(0), split(1), split(2), 4, 1, length, "mse",
                      "", kind="regression", vocabulary=4)


@pytest.mark.parametrize("how", ["all", "scored", "mask"])
def test_fit_learns_numbers(how):
    part = np.tile(np.arange(6) < 4, (24, 1))
    extra = {} if how == "all" else {how: part}
    config = TrainingConfig(epochs=60, batch_size=8, learning_rate=0.5,
                            weight_decay=0.0)
    result = training.fit(Table(4, 1), numbers(**extra), config, progress=False)
    assert list(result.validation) == ["loss", "mse", "mae"]
    assert result.validation["mse"] < 0.01
    rows = np.asarray(result.model.rows[...])[:, 0]
    np.testing.assert_allclose(rows, [0, 1, 4, 9], atol=0.2)


@pytest.mark.parametrize("task, metric", [
    (text(NOISE), "perplexity"), (text(NOISE, "accuracy"), "accuracy"),
    (numbers(), "mse"), (dataclasses.replace(numbers(), metric="mae"), "mae")])
def test_the_best_epoch_is_the_best_in_the_metrics_direction(task, metric):
    config = TrainingConfig(epochs=8, batch_size=8, learning_rate=4.0)
    result = training.fit(Table(task.features, task.classes), task, config,
                          progress=False)
    values = result.history[f"validation_{metric}"]
    best = max(values) if metric == "accuracy" else min(values)
    assert values[result.best_epoch] == best and len(set(values)) > 1


def test_unfilled_batches_of_tokens_are_counted_once():
    """Against sums over everything at once, in float64."""
    rows = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    model, split = Table(5, 5), counting().validation
    model.rows[...] = jnp.asarray(rows)
    every = split.take(np.arange(len(split)))
    log_p = rows - np.log(np.exp(rows.astype(float)).sum(1, keepdims=True))
    nll = -log_p[every.u, every.y][every.scored]
    assert 0 < every.scored.sum() < every.scored.size
    for batch_size in (1, 5, 50):
        score = training.evaluate(model, split, batch_size, "tokens")
        np.testing.assert_allclose(score["loss"], nll.mean(), rtol=1e-6)


class Same(nnx.Module):
    """Whether two sequences have their first tokens in common, by a table."""

    def __init__(self):
        self.table = nnx.Param(jnp.zeros((3, 3, 2), jnp.float32))

    def __call__(self, u, steps=None, mask=None):
        assert mask.shape == u.shape == (len(u), 2, 7)
        return self.table[...][u[:, 0, 0], u[:, 1, 0]]


def test_fit_takes_pairs():
    def split(seed):
        u = np.random.default_rng(seed).integers(0, 3, (40, 2, 7))
        mask = np.broadcast_to(np.arange(7) < 5, u.shape)
        return tasks.Split(u, (u[:, 0, 0] == u[:, 1, 0]).astype(np.int32), mask)

    task = tasks.Task("pairs", split(0), split(1), split(2), 3, 2, 7, "accuracy", "",
                      vocabulary=3)
    config = TrainingConfig(epochs=10, batch_size=8, learning_rate=0.5)
    assert training.fit(Same(), task, config,
                        progress=False).validation["accuracy"] == 1
    assert set(tasks.baseline_accuracies(task)) == {
        "majority class", "nearest centroid", "linear"}


def test_patience():
    config = TrainingConfig(epochs=50, batch_size=8, learning_rate=0.0, patience=3)
    result = training.fit(classifier(), synthetic(), config, progress=False)
    # With batch norm the averages still move, so some epochs may be better.
    assert len(result.history["epoch"]) == result.best_epoch + 1 + 3 < 50


def test_on_epoch_sees_the_history_grow():
    seen = []
    training.fit(classifier(), synthetic(), TrainingConfig(epochs=3), progress=False,
                 on_epoch=lambda history: seen.append(len(history["epoch"])))
    assert seen == [1, 2, 3]


def test_live_curves_are_one_picture():
    """Shown once, and then replaced after each epoch."""
    shown, updates = [], []

    class Handle:
        def update(self, fig):
            updates.append(len(fig.axes[0].lines[0].get_xdata()))

    def display(fig, display_id):
        shown.append((len(fig.axes[0].lines[0].get_xdata()), display_id))
        return Handle()

    figures = plt.get_fignums()
    training.fit(classifier(), synthetic(), TrainingConfig(epochs=3), progress=False,
                 on_epoch=figures_training.live(display, "run"))
    assert shown == [(1, True)] and updates == [2, 3]
    assert plt.get_fignums() == figures     # none is left open


# Stopped and resumed

def lines(directory):
    return [json.loads(line) for line in
            (directory / "metrics.jsonl").read_text().splitlines()]


def the_same(one, other):
    assert one.history == other.history and one.best_epoch == other.best_epoch
    a, b = (flat(nnx.state(r.model, nnx.Not(nnx.RngKey))) for r in (one, other))
    assert all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("patience", [0, 2])
def test_stopped_and_resumed_is_the_same_run(tmp_path, patience):
    config = TrainingConfig(epochs=6, batch_size=8, patience=patience)
    task = synthetic()

    def run(**extra):
        return training.fit(classifier(dropout=0.3), task, config, seed=3,
                            progress=False, **extra)

    straight = run()
    epochs = len(straight.history["epoch"])
    for first in range(0, epochs, 2):
        part = run(directory=tmp_path, stop_after=2)
        assert len(part.history["epoch"]) == min(first + 2, epochs)
    the_same(part, straight)
    the_same(run(directory=tmp_path), straight)     # nothing left to do
    for epoch, line in enumerate(lines(tmp_path)):
        assert line == {name: values[epoch]
                        for name, values in straight.history.items()}
    loaded = training.load(tmp_path / "model.npz", classifier(seed=1))
    np.testing.assert_array_equal(training.predict(loaded, task.test),
                                  training.predict(straight.model, task.test))
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 3


def test_stopped_in_the_middle_of_an_epoch(tmp_path):
    """An exception on the way; a checkpoint was made after each batch."""
    task, config = synthetic(), TrainingConfig(epochs=3, batch_size=8)

    class Failing:
        def __init__(self, calls):
            self.calls = calls

        def __len__(self):
            return len(task.train)

        def take(self, indices):
            self.calls -= 1
            if self.calls < 0:
                raise KeyboardInterrupt
            return task.train.take(indices)

    def run(calls, **extra):
        return training.fit(
            classifier(dropout=0.3), dataclasses.replace(task, train=Failing(calls)),
            config, progress=False, **extra)

    straight = run(10**6)
    for calls in (5, 5, 9):     # the task looks at some examples twice, too
        with pytest.raises(KeyboardInterrupt):
            run(calls, directory=tmp_path, checkpoint_seconds=0.0)
    the_same(run(10**6, directory=tmp_path), straight)


def child(script, *arguments, **environment):
    root = Path(__file__).parent.parent
    return subprocess.Popen(
        [sys.executable, str(root / "tests" / script), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(root)} | environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_killed_at_random_moments(tmp_path):
    rng = np.random.default_rng()
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    whole = child("killed_training.py", straight)
    for _ in range(3):
        process = child("killed_training.py", killed)
        for _ in range(rng.integers(2, 6)):
            assert process.stdout.readline() == "batch\n", process.stderr.read()
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    batches = []
    for process in (whole, child("killed_training.py", killed)):
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error[-2000:]
        batches.append(out.count("batch"))
    assert batches[1] < batches[0] == 60    # it did not begin anew
    assert (straight / "metrics.jsonl").read_bytes() == \
        (killed / "metrics.jsonl").read_bytes()
    assert [line["epoch"] for line in lines(killed)] == list(range(12))
    with np.load(straight / "model.npz") as a, np.load(killed / "model.npz") as b:
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert [p.name for p in (killed / "checkpoints").iterdir()] == ["60"]


# Several devices

def test_eight_devices_and_one():
    process = child("mesh_training.py", **cpu_devices(8) | {"JAX_ENABLE_X64": "1"})
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error[-2000:]
    got = json.loads(out)
    assert got["devices"] == 8
    # Rounding of a gradient, 1e-14 of its size, may become a part 1e-14/1e-8 of
    # an Adam step of 4e-3; 30 steps, and a loss whose slope is at most 10.
    for name, one in got["one"].items():
        np.testing.assert_allclose(got["eight"][name], one, rtol=0,
                                   atol=30 * 4e-3 * 1e-6 * 10, err_msg=name)
    # float32, before the first step: a mean of 16 losses
    np.testing.assert_allclose(got["s5 eight"], got["s5 one"], rtol=1e-5)
