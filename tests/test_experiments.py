"""Configurations, records, and the command line."""

import dataclasses
import json
import re

import numpy as np
import pytest
from flax import nnx

from annotated_ssm import experiments, interface, tasks

TINY = {"H": 4, "P": 4, "blocks": 1, "depth": 1, "epochs": 1}
WORDS = [f"--set={name}={value}" for name, value in TINY.items()]


def without_time(record):
    return {name: value for name, value in record.items() if name != "seconds"}


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_configurations_are_hashable_and_complete(name):
    experiment = experiments.get(name)
    hash(experiment)
    assert experiment.task in tasks.names()
    assert json.loads(json.dumps(experiments.settings(experiment))) == \
        experiments.settings(experiment)


def test_the_baseline_differs_in_its_layer_only():
    ours, theirs = (experiments.settings(experiments.get(name))
                    for name in ("digits", "digits-identity"))
    differ = {name for name in ours if ours[name] != theirs[name]}
    assert differ == {"layer", "description"}
    task = tasks.get("digits")
    model = experiments.build(experiments.get("digits-identity"), task)
    assert all(isinstance(block.layer, interface.Identity)
               for block in model.backbone.blocks)


@pytest.mark.parametrize("name", experiments.settings(experiments.get("digits")))
def test_every_setting_can_be_overridden_by_its_own_text(name):
    digits = experiments.get("digits")
    value = experiments.settings(digits)[name]
    assert experiments.override(digits, {name: value}) == digits
    assert experiments.override(digits, {name: str(value)}) == digits


def test_override_changes_what_it_names_only():
    digits = experiments.get("digits")
    changed = experiments.override(
        digits, {"H": "32", "learning_rate": "1e-2", "bidirectional": "False",
                 "dropout": 0})
    assert changed == dataclasses.replace(
        digits, H=32, bidirectional=False, dropout=0.0,
        training=dataclasses.replace(digits.training, learning_rate=1e-2))


def test_settings_reach_the_model():
    experiment = experiments.override(
        experiments.get("digits"),
        {"H": 6, "P": 8, "blocks": 2, "depth": 2, "dt_min": 0.5, "dt_max": 0.5,
         "bidirectional": False, "norm": "layer", "pool": "last"})
    model = experiments.build(experiment, tasks.get("digits"))
    assert len(model.backbone.blocks) == 2 and model.pool == "last"
    layer = model.backbone.blocks[0].layer
    assert (layer.H, layer.P, layer.bidirectional) == (6, 8, False)
    np.testing.assert_allclose(np.exp(layer.log_dt[...]), 0.5, rtol=1e-6)
    assert isinstance(model.backbone.blocks[0].norm.norm, nnx.LayerNorm)


def test_command_line_and_call_give_the_same_record(tmp_path, capsys):
    code = experiments.main(["train", "digits", "--seed", "3", "--seeds", "2",
                             "--quiet", "--out", str(tmp_path), *WORDS])
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "digits-seed3.json", "digits-seed4.json"]
    printed = capsys.readouterr().out
    accuracies = []
    for seed in (3, 4):
        text = (tmp_path / f"digits-seed{seed}.json").read_text()
        written = json.loads(text)
        called = experiments.run("digits", seed, TINY, progress=False)
        assert without_time(written) == without_time(called)
        accuracies.append(written["test"]["accuracy"])
        assert f"seed {seed}: test {accuracies[-1]:.2%}" in printed
    assert printed.count("at epoch 1 of 1, ") == 2
    assert f"mean of 2 seeds: test {np.mean(accuracies):.2%}" in printed


def test_a_record_of_the_same_run_is_replaced(tmp_path):
    first = experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    again = experiments.run("digits", 0, TINY, out=tmp_path, progress=False)
    assert without_time(first) == without_time(again)
    assert json.loads((tmp_path / "digits-seed0.json").read_text()) == again


def test_help_lists_every_setting(capsys):
    with pytest.raises(SystemExit) as end:
        experiments.main(["train", "--help"])
    words = set(re.findall(r"\w+", capsys.readouterr().out))
    assert end.value.code == 0
    assert experiments.settings(experiments.get("digits")).keys() <= words


def test_record_says_what_is_needed_to_repeat_it():
    record = experiments.run("digits-identity", 1, TINY | {"epochs": 2},
                             progress=False)
    assert record["configuration"]["layer"] == "identity"
    assert record["configuration"]["epochs"] == 2
    assert record["seed"] == 1 and record["seconds"] > 0
    assert {"jax", "flax", "numpy", "python"} <= record["versions"].keys()
    assert set(record["test"]) == {"loss", "accuracy"}
    assert len(record["history"]["train_loss"]) == 2


def test_list_names_every_experiment(capsys):
    assert experiments.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(experiments.EXPERIMENTS)


def test_data_says_where_it_is(tmp_path, capsys):
    assert experiments.main(["data", "--directory", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "in the package" in printed
    assert f"{tmp_path / 'mnist'} (not fetched yet)" in printed
    assert experiments.main(["data", "digits"]) == 0
    assert "1,257 train, 180 validation, 360 test" in capsys.readouterr().out


def test_shifted_images_are_moved_and_blank_where_they_came_from():
    side, n = 4, 200
    u = np.tile(np.arange(1.0, 17.0, dtype=np.float32)[:, None], (n, 1, 2))
    split = tasks.Split(u, np.zeros(n, np.int32))
    got = experiments.shifted(split, seed=0, epoch=3, pixels=1)
    image = np.pad(u[0, :, 0].reshape(side, side), 1)
    moves = {image[i:i + side, j:j + side].tobytes(): 0
             for i in range(3) for j in range(3)}
    for row in got.u:
        assert np.array_equal(row[:, 0], row[:, 1])
        moves[np.ascontiguousarray(row[:, 0].reshape(side, side)).tobytes()] += 1
    assert len(moves) == 9 and min(moves.values()) > 5
    assert got.u.shape == u.shape and got.y is split.y
    again = experiments.shifted(split, seed=0, epoch=3, pixels=1)
    other = experiments.shifted(split, seed=0, epoch=4, pixels=1)
    assert np.array_equal(got.u, again.u)
    assert not np.array_equal(got.u, other.u)
