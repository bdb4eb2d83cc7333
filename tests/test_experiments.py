"""Configurations, models for every task, records, and the command line."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import (
    assembly, augmentation, catalogue, checkpoints, command_line, configurations,
    experiments, heads, interface, layers, pooling, tasks, training,
)
from annotated_ssm.assembly import Form

TINY = {"H": 4, "P": 4, "blocks": 1, "depth": 1, "epochs": 1}
WORDS = [f"--set={name}={value}" for name, value in TINY.items()]
# What a model sees of the tasks whose data is not made by the package.
FORMS = {
    "mnist": Form(1, 10, 784, "classification", False, False, False),
    "cifar10": Form(3, 10, 1024, "classification", False, False, False),
    "text": Form(259, 2, 4096, "classification", True, False, False),
    "mails": Form(259, 2, 4096, "classification", True, False, False),
    "retrieval": Form(259, 2, 4001, "classification", True, True, False),
    "speech_commands": Form(1, 35, 16_000, "classification", False, False, False),
    "spoken_digits": Form(1, 10, 4096, "classification", False, False, False),
    "wikitext": Form(267_737, 267_737, 8192, "tokens", True, False, True),
    "characters": Form(256, 256, 512, "tokens", True, False, True),
    "ett": Form(1, 1, 192, "regression", False, False, True),
    "weather": Form(1, 1, 192, "regression", False, False, True),
    "ecl": Form(1, 1, 192, "regression", False, False, True),
    "pathfinder": Form(1, 2, 1024, "classification", False, False, False),
    "pathx": Form(1, 2, 16_384, "classification", False, False, False),
    "listops": Form(16, 10, 2000, "classification", True, False, False),
    "pendulum": Form(576, 2, 50, "regression", False, False, True),
    "digits": Form(1, 10, 64, "classification", False, False, False),
    "pixels": Form(18, 17, 64, "tokens", True, False, True),
    "copying": Form(10, 10, 120, "tokens", True, False, True),
    "selective_copying": Form(10, 10, 120, "tokens", True, False, True),
    "reverse_copying": Form(10, 10, 120, "tokens", True, False, True),
    "recall": Form(17, 17, 20, "tokens", True, False, True),
    "induction": Form(21, 21, 30, "tokens", True, False, True),
    "adding": Form(2, 1, 1000, "regression", False, False, False),
    "delay": Form(1, 1, 1024, "regression", False, False, True),
    "reconstruct": Form(1, 1, 1024, "regression", False, False, True),
    "mackey_glass": Form(1, 1, 5000, "regression", False, False, True),
}
FORMS["fashion_mnist"] = FORMS["mnist"]
MADE = ("listops", "pendulum", "digits", "pixels", "copying", "selective_copying",
        "reverse_copying", "recall", "induction", "adding", "delay", "reconstruct",
        "mackey_glass")
# Of experiments with equal models one is enough.
MODELS = {dataclasses.replace(
    experiment, description="", options={}, augment="none", blocks=1, dt_min=1e-3,
    dt_max=1e-1, training=training.TrainingConfig()): name
    for name, experiment in catalogue.EXPERIMENTS.items()}


def lasting(record):
    """What two equal runs have in common."""
    return {name: value for name, value in record.items()
            if name not in ("seconds", "sessions")}


# Configurations


@pytest.mark.parametrize("name", catalogue.EXPERIMENTS)
def test_configurations_are_hashable_and_come_back_from_a_file(name):
    experiment = experiments.get(name)
    hash(experiment)
    table = experiments.settings(experiment)
    assert configurations.restored(json.loads(json.dumps(table))) == experiment
    assert experiment.task in FORMS


def test_every_task_runs_from_one_command():
    assert {e.task for e in catalogue.EXPERIMENTS.values()} == set(tasks.names())


@pytest.mark.parametrize("name", MADE)
def test_forms_are_those_of_the_tasks(name):
    small = {"counts": (4, 4, 4)}
    options = {"pixels": {"source": "digits"}, "digits": {}}.get(name, small)
    if name == "listops":
        options = options | {"above": 5, "below": 2000, "max_depth": 3}
    assert assembly.form(tasks.get(name, **options)) == FORMS[name]


def test_a_class_that_is_told_is_ten_more_tokens():
    task = tasks.get("pixels", source="digits", labelled=True)
    assert assembly.form(task) == dataclasses.replace(FORMS["pixels"], features=27)
    model = assembly.build(experiments.get("pixels-digits-s5"), task)
    assert isinstance(model, assembly.NextToken)
    assert model(np.zeros((1, 3), np.int32)).shape == (1, 3, 17)


@pytest.mark.parametrize("name", MODELS.values())
def test_every_experiment_has_a_model_that_fits_its_task(name):
    """At full size, but with one of many equal blocks; nothing is computed."""
    experiment = experiments.get(name)
    if not experiment.pools:
        experiment = dataclasses.replace(experiment, depth=1)
    if experiment.layer == "S5" and experiment.init in ("random", "skew"):  # on the host
        experiment = dataclasses.replace(experiment, init="lin")
    form = dataclasses.replace(FORMS[experiment.task], length=16)

    def answers(u):
        model = assembly.build(experiment, form)
        model.eval()
        return model(u)

    shape = (2, *(2,) * form.pairs, form.length)
    u = jax.ShapeDtypeStruct(shape, jnp.int32) if form.tokens else \
        jax.ShapeDtypeStruct((*shape, form.features), jnp.float32)
    expected = (2, *(form.length,) * form.each, form.classes)
    assert nnx.eval_shape(answers, u).shape == expected


def test_the_baseline_differs_in_its_layer_only():
    ours, theirs = (experiments.settings(experiments.get(name))
                    for name in ("digits", "digits-identity"))
    differ = {name for name in ours if ours[name] != theirs[name]}
    assert differ == {"layer", "description"}
    task = tasks.get("digits")
    model = experiments.build(experiments.get("digits-identity"), task)
    assert all(isinstance(block.layer, interface.Identity)
               for block in model.backbone.blocks)


@pytest.mark.parametrize("name", experiments.settings(experiments.get("ett-h24-s5")))
def test_every_setting_can_be_overridden_by_its_own_text(name):
    experiment = experiments.get("ett-h24-s5")
    value = experiments.settings(experiment)[name]
    assert experiments.override(experiment, {name: value}) == experiment
    assert experiments.override(experiment, {name: str(value)}) == experiment


def test_override_changes_what_it_names_only():
    digits = experiments.get("digits")
    changed = experiments.override(
        digits, {"H": "32", "learning_rate": "1e-2", "bidirectional": "False",
                 "dropout": 0, "pools": "4,2,1", "init": "lin",
                 "task.permutation": "3"})
    assert changed == dataclasses.replace(
        digits, H=32, bidirectional=False, dropout=0.0, pools=(4, 2, 1), init="lin",
        options={"permutation": 3},
        training=dataclasses.replace(digits.training, learning_rate=1e-2))


def test_another_task_has_none_of_the_options():
    copying = experiments.get("copying-s5")
    assert copying.options and experiments.override(
        copying, {"task": "recall"}).options == {}


# Models


def test_settings_reach_the_model():
    experiment = experiments.override(
        experiments.get("digits"),
        {"H": 6, "P": 8, "blocks": 2, "depth": 2, "dt_min": 0.5, "dt_max": 0.5,
         "bidirectional": False, "norm": "layer", "pool": "last",
         "method": "bilinear"})
    model = experiments.build(experiment, tasks.get("digits"))
    assert len(model.backbone.blocks) == 2 and model.pool == "last"
    layer = model.backbone.blocks[0].layer
    assert (layer.H, layer.P, layer.bidirectional) == (6, 8, False)
    assert layer.method == "bilinear"
    np.testing.assert_allclose(np.exp(layer.log_dt[...]), 0.5, rtol=1e-6)
    assert isinstance(model.backbone.blocks[0].norm.norm, nnx.LayerNorm)


def test_a_stem_is_narrow_causal_and_in_front():
    model = experiments.build(experiments.get("spoken-digits-s5"),
                              FORMS["spoken_digits"])
    assert isinstance(model, pooling.PooledClassifier)
    first, *others = (block.layer for block in model.backbone.blocks)
    assert (first.H, first.P, first.bidirectional) == (24, 48, False)
    assert [(a.H, a.bidirectional) for a in others] == [(64, True)] * 4


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("variant", [
    assembly.OneTimeScale, assembly.DiscreteTime, assembly.RandomDiagonal,
    assembly.RandomLowRank])
def test_a_variant_streams_what_it_convolves(variant, bidirectional):
    layer = variant(3, 8, bidirectional=bidirectional, rngs=nnx.Rngs(0))
    u = np.random.default_rng(0).normal(size=(2, 20, 3)).astype(np.float32)
    whole, _ = layer(u)
    assert whole.shape == u.shape and np.isfinite(whole).all()
    if bidirectional:
        return
    state, rows = layer.init_state(2), []
    for k in range(20):
        y, state = layer.step(u[:, k], state)
        rows.append(y)
    # float32 and 20 sums; 1/(λ̄ − 1) magnifies rounding by up to 1/Δ = 1e3
    np.testing.assert_allclose(np.stack(rows, 1), whole, rtol=0, atol=1e-3)


def test_discrete_time_is_the_plain_recurrence_of_its_parameters():
    layer = assembly.DiscreteTime(2, 4, dt_min=0.1, dt_max=1.0, rngs=nnx.Rngs(1))
    a, B, C = (np.asarray(interface.to_complex(p[...]), complex)
               for p in (layer.Lambda_bar, layer.B, layer.C))
    u = np.random.default_rng(2).normal(size=(1, 30, 2)).astype(np.float32)
    x, y = np.zeros(2, complex), []
    for u_k in u[0].astype(float):
        x = a * x + B @ u_k
        y.append(2 * (C @ x).real + np.asarray(layer.D[...], float) * u_k)
    # λ̄ − 1 in float32, divided by and multiplied with: some eps/Δ, Δ ≥ 0.1
    np.testing.assert_allclose(layer(u)[0][0], y, rtol=0, atol=2e-5 * np.abs(y).max())


def test_one_time_scale_is_one():
    layer = assembly.OneTimeScale(3, 8, rngs=nnx.Rngs(0))
    assert layer.log_dt[...].shape == (1,)
    assert len(set(np.asarray(layer.dynamics()[4]).tolist())) == 1


@pytest.mark.parametrize("layer", ["S4", "S4D"])
def test_a_random_start_is_stable_complex_normal_and_of_its_seed(layer):
    """In a layer that otherwise is the same: same names, shapes, C, D and steps."""
    e = experiments.Experiment("", "digits", layer=layer, N=64, init="random")
    maker = assembly.layer_maker(e, 64)
    legs = assembly.layer_maker(dataclasses.replace(e, init="legs"), 64)
    one, same, other, start = (m(8, rngs=nnx.Rngs(seed)) for m, seed in (
        (maker, 0), (maker, 0), (maker, 1), (legs, 0)))
    drawn = {"Lambda_log_decay", "Lambda_im"} | ({"P", "B"} if layer == "S4" else set())
    kept = dict(nnx.to_flat_state(nnx.state(start, nnx.Param)))
    for (name, *_), value in nnx.to_flat_state(nnx.state(one, nnx.Param)):
        was = kept[(name,)][...]
        assert value[...].shape == was.shape and value[...].dtype == was.dtype
        assert (value[...] == was).all() == (name not in drawn)
        assert (value[...] == getattr(same, name)[...]).all()
        if name in drawn:
            assert (value[...] != getattr(other, name)[...]).any()
    Λ = np.asarray(one.dynamics()[0], complex)
    assert (Λ.real < 0).all()
    parts = [Λ.real, Λ.imag]
    if layer == "S4":
        parts += [np.asarray(a, complex) * np.sqrt(2) for a in one.dynamics()[1:3]]
        parts = [q for p in parts for q in (p.real, p.imag) if np.any(q)]
        A = np.diag(np.concatenate([Λ, Λ.conj()]))
        P = np.asarray(one.dynamics()[1], complex)
        P = np.concatenate([P, P.conj()], -1)
        assert np.linalg.eigvals(A - P.T @ P.conj()).real.max() < 0
    squares = np.concatenate([p.ravel() for p in parts]) ** 2
    # the mean of n squares of normal numbers: 1 ± 5 sqrt(2/n)
    assert abs(squares.mean() - 1) < 5 * np.sqrt(2 / squares.size)


def test_a_random_start_has_no_C_tilde():
    with pytest.raises(ValueError, match="C_tilde is 64"):
        assembly.RandomLowRank(4, 8, C_tilde=64, rngs=nnx.Rngs(0))


# Small runs of every kind: what is trained, and on what it is made

KINDS = {
    "S4 and postnorm": ("digits", {"layer": "S4", "N": 4, "prenorm": False}),
    "tokens, a class": ("listops-small-gru", {
        "task.counts": "8,4,4", "task.above": 5, "task.below": 40}),
    "a token each": ("copying-s5", {"task.counts": "8,4,4", "task.wait": 5}),
    "the next pixel": ("pixels-digits-s5", {}),
    "numbers each, with steps": ("pendulum-s5", {"task.counts": "8,4,4"}),
    "appended steps": ("pendulum-gru", {"task.counts": "8,4,4"}),
    "one number": ("digits-identity", {
        "task": "adding", "augment": "none", "task.counts": "8,4,4",
        "task.length": 20}),
    "no time scale": ("ablation-hippo-discrete", {}),
    "pools and a stem": ("digits", {"stem": 2, "pools": "4,2"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_run_of_every_kind(kind, tmp_path):
    name, changes = KINDS[kind]
    size = {"batch_size": 400 if name in ("digits", "pixels-digits-s5") or
            name.startswith("ablation") else 4}
    record = experiments.run(name, 0, TINY | size | changes, out=tmp_path,
                             progress=False)
    assert np.isfinite(record["test"]["loss"]) and record["best_epoch"] == 1
    folder = tmp_path / f"{name}-seed0"
    assert record == json.loads((folder / "result.json").read_text())
    again = experiments.evaluate(folder, "test")
    assert again == pytest.approx(record["test"], rel=1e-5)


@pytest.mark.parametrize("layer", ["S4D", "DSS", "LSSL", "LSTM", "Attention"])
def test_other_layers_are_built(layer):
    experiment = experiments.override(
        experiments.get("digits"), TINY | {
            "layer": layer, "N": 4, "H": 8, "bidirectional": False})
    model = experiments.build(experiment, FORMS["digits"])
    model.eval()
    assert model(np.zeros((2, 64, 1), np.float32)).shape == (2, 10)
    expected = getattr(layers, layer, None)
    assert expected is None or isinstance(model.backbone.blocks[0].layer, expected)


# Records


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    first = experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    monkeypatch.delattr(training, "fit")
    assert experiments.run("digits", 0, TINY, out=tmp_path, progress=False) == first


def test_fresh_begins_again(tmp_path):
    first = experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    mark = tmp_path / "digits-seed0" / "checkpoints" / "mark"
    mark.write_text("")
    again = experiments.run("digits", 0, TINY, out=tmp_path, progress=False,
                            fresh=True)
    assert lasting(first) == lasting(again) and not mark.exists()


def test_an_interrupted_run_goes_on_to_the_same_record(tmp_path, monkeypatch):
    changes = TINY | {"epochs": 3}
    whole = experiments.run("digits", 0, changes, progress=False)
    complete = experiments.training.fit

    def interrupted(*args, **options):
        complete(*args, **options, stop_after=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.run("digits", 0, changes, out=tmp_path, progress=False)
    folder = tmp_path / "digits-seed0"
    assert not (folder / "result.json").exists()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 1
    monkeypatch.setattr(training, "fit", complete)
    resumed = experiments.run("digits", 0, changes, out=tmp_path, progress=False)
    assert lasting(resumed) == lasting(whole)
    assert len(resumed["sessions"]) == 2
    seconds = [session["seconds"] for session in resumed["sessions"]]
    assert resumed["seconds"] == pytest.approx(sum(seconds), abs=0.1)


def test_record_says_what_is_needed_to_repeat_it():
    record = experiments.run("digits-identity", 1, TINY | {"epochs": 2},
                             progress=False)
    assert record["configuration"]["layer"] == "identity"
    assert record["configuration"]["epochs"] == 2
    assert record["seed"] == 1 and record["seconds"] > 0
    assert {"jax", "flax", "numpy", "python"} <= record["versions"].keys()
    assert set(record["test"]) == {"loss", "accuracy"}
    assert len(record["history"]["train_loss"]) == 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    # The command repeats it: it has all the changes and nothing else.
    words = record["command"].split()
    assert words[:5] == ["annotated-ssm", "train", "digits-identity", "--seed", "1"]
    changes = dict(word.split("=") for word in words[5:] if word != "--set")
    assert experiments.override(
        experiments.get("digits-identity"), changes) == configurations.restored(
            record["configuration"])


def test_code_outside_a_checkout_has_no_commit(tmp_path):
    copy = "import shutil, annotated_ssm; from pathlib import Path; " \
        "shutil.copytree(Path(annotated_ssm.__file__).parent, 'annotated_ssm')"
    ask = "from annotated_ssm import experiments; " \
        "print(experiments.__file__, experiments.provenance()['commit'])"
    subprocess.run([sys.executable, "-c", copy], cwd=tmp_path, check=True)
    said = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, check=True,
                          capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(tmp_path)}).stdout
    assert said.split() == [str(tmp_path / "annotated_ssm" / "experiments.py"), "None"]


# Trained models


def test_a_trained_model_is_loaded_without_data(tmp_path, monkeypatch):
    trial = experiments.train("digits", 0, TINY, progress=False)
    experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    monkeypatch.delattr(tasks, "get")
    model = experiments.load(tmp_path / "digits-seed0")
    u = trial.task.test.u[:5]
    np.testing.assert_array_equal(model(u), trial.result.model(u))


def test_another_rate_reaches_the_layers(tmp_path):
    experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    folder = tmp_path / "digits-seed0"
    model = experiments.load(folder)
    split = tasks.get("digits").validation
    twin = nnx.clone(model)
    for block in twin.backbone.blocks:
        block.layer.log_dt[...] += np.log(2.0)
    # float32: e^{log Δ + log 2} and 2 e^{log Δ}
    assert experiments.evaluate(folder, rate=2.0) == pytest.approx(
        training.evaluate(twin, split), rel=1e-4)
    assert experiments.evaluate(folder, rate=2.0) != experiments.evaluate(folder)


@pytest.mark.parametrize("pools", [(2, 1), [2, 1], "2,1"])
def test_other_pools_reach_a_trained_model(pools, tmp_path):
    """As in (12c.2): the first block at the new rate, the second as trained."""
    changes = TINY | {"pools": "4,1", "depth": 2}
    experiments.run("digits", 0, changes, out=tmp_path, progress=False)
    folder = tmp_path / "digits-seed0"
    model, split = experiments.load(folder), tasks.get("digits").validation

    def right(**options):
        said = np.asarray(model(split.u, **options)).argmax(-1)
        return pytest.approx(np.mean(said == split.y), abs=1 / len(split))

    as_asked = experiments.evaluate(folder, rate=2.0, overrides={"pools": pools})
    assert as_asked["accuracy"] == right(rate=2.0, pools=(2, 1))
    as_trained = experiments.evaluate(folder, rate=2.0)
    assert as_trained["accuracy"] == right(rate=2.0)
    assert as_asked["loss"] != as_trained["loss"]
    same = experiments.evaluate(folder, overrides={"pools": "4,1"})
    assert same == experiments.evaluate(folder)


def test_a_language_model_goes_on(tmp_path):
    changes = TINY | {"batch_size": 400}
    experiments.run("pixels-digits-s5", 0, changes, out=tmp_path, progress=False)
    folder = tmp_path / "pixels-digits-s5-seed0"
    written = experiments.go_on(folder, 12, seed=1)
    assert written.shape == (12,) and ((0 <= written) & (written < 17)).all()
    np.testing.assert_array_equal(written, experiments.go_on(folder, 12, seed=1))
    likely = experiments.go_on(folder, 12, seed=1, temperature=0.0)
    model = experiments.load(folder)
    u = tasks.get("pixels", source="digits").test.take(np.array([1])).u[:, :32]
    for k in range(3):
        token = int(model(u)[0, -1].argmax())
        assert token == likely[k]
        u = np.append(u, [[token]], axis=1)


def test_text_is_read_and_written(tmp_path):
    (tmp_path / "book.txt").write_text("to be or not to be, " * 100)
    experiments.run("characters-s5", 0, TINY | {
        "task.file": str(tmp_path / "book.txt"), "task.length": 16,
        "batch_size": 10}, out=tmp_path / "runs", progress=False)
    written = experiments.go_on(tmp_path / "runs/characters-s5-seed0", 7,
                                prompt="to be", temperature=0.0)
    assert isinstance(written, str) and 1 <= len(written) <= 7


def test_numbers_go_on_by_themselves():
    model = heads.SequenceRegressor(
        2, 2, 4, 1, lambda H, rngs: layers.S5(H, 4, rngs=rngs), rngs=nnx.Rngs(0))
    u = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    made = experiments.generate(model, u, 2)
    model.eval()
    for k in range(2):
        # float32: a scan of all samples against one sample at a time
        np.testing.assert_allclose(model(u[None])[0, -1], made[k], atol=1e-5)
        u = np.append(u, made[k:k + 1], axis=0)


# The command line


def test_command_line_and_call_give_the_same_record(tmp_path, capsys):
    code = command_line.main(["train", "digits", "--seed", "3", "--seeds", "2",
                              "--quiet", "--out", str(tmp_path), *WORDS])
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "digits-seed3", "digits-seed4"]
    printed = capsys.readouterr().out
    accuracies = []
    for seed in (3, 4):
        text = (tmp_path / f"digits-seed{seed}" / "result.json").read_text()
        written = json.loads(text)
        called = experiments.run("digits", seed, TINY, progress=False)
        assert lasting(written) == lasting(called)
        accuracies.append(written["test"]["accuracy"])
        assert f"seed {seed}: test {accuracies[-1]:.2%}" in printed
    assert printed.count("at epoch 1 of 1, ") == 2
    assert f"mean of 2 seeds: test {np.mean(accuracies):.2%}" in printed


def test_the_command_line_from_end_to_end(tmp_path, capsys, monkeypatch):
    words = ["train", "copying-s5", "--quiet", *WORDS, "--set=task.counts=8,4,4",
             "--set=task.wait=5", "--set=batch_size=4"]
    done = subprocess.run([sys.executable, "-m", "annotated_ssm", *words],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "runs in runs" in done.stdout, done.stderr
    monkeypatch.chdir(tmp_path)

    def said(*words):
        assert command_line.main([*words]) == 0
        return capsys.readouterr().out

    run = "runs/copying-s5-seed0"
    record = json.loads((tmp_path / run / "result.json").read_text())
    score = said("evaluate", run, "--split", "test")
    assert f"test accuracy {record['test']['accuracy']:.6g}" in score
    assert "validation accuracy" in said("evaluate", run, "--set", "task.wait=9")
    written = said("generate", run, "--length", "6", "--seed", "2").split()
    assert len(written) == 6 and all(0 <= int(token) <= 9 for token in written)


def test_devices_of_a_mesh_share_a_batch():
    record = experiments.run("digits", 0, TINY, progress=False, mesh=1)
    alone = experiments.run("digits", 0, TINY, progress=False)
    # float32 sums, in an order that the compiler chooses for a mesh
    assert record["test"]["loss"] == pytest.approx(alone["test"]["loss"], rel=1e-4)


def test_help_lists_every_setting(capsys):
    with pytest.raises(SystemExit) as end:
        command_line.main(["train", "--help"])
    words = set(re.findall(r"\w+", capsys.readouterr().out))
    assert end.value.code == 0
    assert experiments.settings(experiments.get("digits")).keys() <= words


@pytest.mark.parametrize("long", [[], ["--long"]])
def test_list_names_every_experiment(long, capsys):
    assert command_line.main(["list", *long]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == list(catalogue.EXPERIMENTS)
    assert len(lines) == len(names) * (1 + len(long))


def test_data_says_what_there_is(tmp_path, capsys):
    assert command_line.main(["data", "--data", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert str(tmp_path) in printed
    lines = printed.splitlines()[1:]
    legend, rows = lines[:len(command_line.COMES)], lines[len(command_line.COMES):]
    assert [line.split(":")[0] for line in legend] == [*command_line.COMES]
    assert [line.split()[0] for line in rows] == [*tasks.names()]
    assert all(f" {command_line.comes(line.split()[0])} " in line for line in rows)
    assert command_line.main(["data", "digits"]) == 0
    assert "1,257 train, 180 validation, 360 test" in capsys.readouterr().out
    assert command_line.main(["data", "copying", "--set", "task.counts=3,2,1"]) == 0
    assert "3 train, 2 validation, 1 test" in capsys.readouterr().out


# Augmentation


def test_shifted_images_are_moved_and_blank_where_they_came_from():
    side, n = 4, 200
    u = np.tile(np.arange(1.0, 17.0, dtype=np.float32)[:, None], (n, 1, 2))
    split = tasks.Split(u, np.zeros(n, np.int32))
    got = augmentation.shifted(split, seed=0, epoch=3, pixels=1)
    image = np.pad(u[0, :, 0].reshape(side, side), 1)
    moves = {image[i:i + side, j:j + side].tobytes(): 0
             for i in range(3) for j in range(3)}
    for row in got.u:
        assert np.array_equal(row[:, 0], row[:, 1])
        moves[np.ascontiguousarray(row[:, 0].reshape(side, side)).tobytes()] += 1
    assert len(moves) == 9 and min(moves.values()) > 5
    assert got.u.shape == u.shape and got.y is split.y
    again = augmentation.shifted(split, seed=0, epoch=3, pixels=1)
    other = augmentation.shifted(split, seed=0, epoch=4, pixels=1)
    assert np.array_equal(got.u, again.u)
    assert not np.array_equal(got.u, other.u)


def test_delayed_sounds_have_noise_of_the_strength_that_is_asked_for():
    split = tasks.Split(np.zeros((400, 500, 1), np.float32), np.zeros(400, np.int32),
                        np.tile(np.arange(500) < 300, (400, 1)))
    u = augmentation.delayed(split, 0, 0, noise=0.2).u[..., 0]
    assert u.dtype == np.float32 and (u[:, 300:] == 0).all()
    strength = u[:, :300].std(axis=1)
    # uniform in [0, 0.2): mean 0.1, deviation 0.058; 400 clips, 4 deviations
    assert abs(strength.mean() - 0.1) < 4 * 0.058 / 20
    assert strength.max() < 0.2 * 1.2


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("L", [2, 255, 256])
def test_muffled_sounds_have_butterworths_spectrum(L, share):
    """An impulse each, so that the spectrum is the filter's gain."""
    u = np.zeros((500, L, 1))
    u[:, L // 2] = 1
    split = tasks.Split(u, np.zeros(500, np.int32))
    new = augmentation.muffled(split, 3, 5, share, least=0.1)
    changed = (new.u != u).any((1, 2))
    assert abs(changed.mean() - share) <= 4 * (share * (1 - share) / 500) ** 0.5
    gain = np.abs(np.fft.rfft(new.u[changed, :, 0]))
    f = np.arange(L // 2 + 1) / (L / 2)
    cutoff = f[-1] / (gain[:, -1] ** -2 - 1) ** (1 / 12)
    assert ((cutoff > 0.1 - 1e-9) & (cutoff < 1)).all()
    np.testing.assert_allclose(
        gain, 1 / np.sqrt(1 + (f / cutoff[:, None]) ** 12), atol=1e-8)
    # uniform in log: half of them below the root of the bounds' product
    n = max(len(cutoff), 1)
    assert abs((cutoff < 0.1**0.5).sum() / n - 0.5) <= 2 / n**0.5 or share == 0
    # no delay: the filter is symmetric about the impulse
    if L > 2 and share:
        around = new.u[changed, :, 0][:, 1:] if L % 2 == 0 else new.u[changed, :, 0]
        np.testing.assert_allclose(around, around[:, ::-1], atol=1e-12)


def test_muffled_sounds_end_where_the_sound_ends():
    real = np.arange(64) < np.array([64, 20, 0])[:, None]
    u = np.where(real, np.random.default_rng(0).normal(size=(3, 64)), 0)
    u = u.astype(np.float32)[..., None]
    split = tasks.Split(u, np.zeros(3, np.int32), real)
    new = augmentation.muffled(split, 0, 0, share=1.0)
    assert not new.u[~real].any() and (new.u != u)[:2].any((1, 2)).all()
    assert new.u.dtype == np.float32 and new.mask is real


@pytest.mark.parametrize("masked", [False, True])
def test_paced_sounds_are_the_sound_at_other_times(masked):
    """Against numpy's interpolation; u(k) = k tells where each sample is from."""
    L, lengths = 300, np.array([300, 200, 1, 0] * 10)
    real = np.arange(L) < lengths[:, None]
    u = np.stack([np.tile(np.arange(1.0, L + 1), (40, 1)),
                  np.random.default_rng(0).normal(size=(40, L))], -1)
    y = np.zeros(40, np.int32)
    new = augmentation.paced(tasks.Split(u, y, real if masked else None), 3, 5)
    speeds = []
    for k in range(40):
        n, at = lengths[k] if masked else L, new.u[k, :, 0] - 1
        sound = at >= 0
        assert not new.u[k, ~sound].any()
        if n > 1:
            speeds.append(at[1])
            np.testing.assert_allclose(at[sound], at[1] * np.arange(sum(sound)),
                                       atol=1e-9)
            assert at[1] * (sum(sound) - 1) <= n - 1
            assert sum(sound) == L or at[1] * sum(sound) > n - 1 - 1e-9
        np.testing.assert_allclose(new.u[k, sound, 1], np.interp(
            at[sound], np.arange(L), u[k, :, 1]), atol=1e-9)
        assert not masked or (new.mask[k] == sound).all()
    assert (new.mask is not None) == masked
    assert np.exp(-0.15) <= min(speeds) < 0.95 and 1.05 < max(speeds) <= np.exp(0.15)


def test_checkpoints_hold_the_model_that_is_reported(tmp_path):
    trial = experiments.train("digits", 0, TINY, progress=False)
    checkpoints.save(tmp_path / "a.npz", trial.result.model)
    record = experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    with np.load(tmp_path / "a.npz") as ours, np.load(
            tmp_path / "digits-seed0" / "model.npz") as theirs:
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
    assert record["test"] == trial.record["test"]
