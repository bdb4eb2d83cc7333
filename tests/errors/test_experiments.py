"""What the experiments and the command line say when something is wrong."""

import json
import re

import jax
import numpy as np
import pytest

from annotated_ssm import (
    assembly, augmentation, command_line, configurations, datasets, experiments,
    tasks, training,
)

TINY = ["--set=H=4", "--set=P=4", "--set=blocks=1", "--set=depth=1",
        "--set=epochs=1", "--quiet"]
SMALL = {"H": 4, "P": 4, "blocks": 1, "depth": 1, "epochs": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    experiments.run("digits", 0, SMALL, out=out, progress=False)
    return out / "digits-seed0"


@pytest.mark.parametrize("name, message", [
    ("digit", "name is 'digit': did you mean digits"),
    ("pendulum-s4", "name is 'pendulum-s4': did you mean pendulum-s5"),
    ("zzz", "name is 'zzz': there is listops-s5, text-s5"),
])
def test_unknown_experiment(name, message):
    with pytest.raises(ValueError, match=message):
        experiments.get(name)


@pytest.mark.parametrize("changes, message", [
    ({"hidden": 3}, "setting is 'hidden': there is description, task, "),
    ({"bidirektional": 3}, "setting is 'bidirektional': did you mean bidirectional"),
    ({"training": 3}, "setting is 'training': "),
    ({"task.horizon": 3}, "setting is 'task.horizon': "),
    ({"task.permutatoin": 3}, "did you mean task.permutation"),
    ({"H": "many"}, "H is 'many': int is needed"),
    ({"H": 3.5}, "H is 3.5: int is needed"),
    ({"H": True}, "H is True: int is needed"),
    ({"dropout": "x"}, "dropout is 'x': float is needed"),
    ({"bidirectional": "maybe"}, "bidirectional is 'maybe': true or false"),
    ({"bidirectional": 1}, "bidirectional is 1: true or false"),
    ({"pools": "a,b"}, "pools is 'a,b': numbers such as 8,4,1 is needed"),
    ({"pools": [2.0]}, r"pools is \[2.0\]: numbers such as 8,4,1 is needed"),
    ({"norm": 1}, "norm is 1: str is needed"),
    ({"init": 1}, "init is 1: none or str is needed"),
    ({"epochs": 0}, "epochs is 0: it must be positive"),
    ({"task": "minst"}, "task is 'minst': did you mean mnist"),
    ({"task": "recall", "task.counts": "8,4"},
     "task.counts is '8,4': numbers such as 8,4,1 is needed"),
    ({"P": 7}, "P is 7: with blocks = 2 a multiple of 4 is needed"),
    ({"blocks": 0}, "blocks is 0, a whole number ≥ 1 is needed"),
    ({"H": -3}, "H is -3, a whole number ≥ 1 is needed"),
    ({"depth": 0}, "depth is 0, a whole number ≥ 1 is needed"),
    ({"heads": 0}, "heads is 0, a whole number ≥ 1 is needed"),
    ({"norm": "x"}, "norm is 'x', one of 'batch', 'layer', 'none' is needed"),
    ({"glu": "x"}, "glu is 'x', one of"),
    ({"pool": "max"}, "pool is 'max', one of 'mean', 'last' is needed"),
    ({"encoder": "x"}, "encoder is 'x', one of 'linear', 'mlp', 'conv' is needed"),
    ({"augment": "x"}, "augment is 'x', one of 'none', 'shift', "),
    ({"timescale": "x"}, "timescale is 'x', one of 'vector', 'scalar', 'none'"),
    ({"dropout": 2.0}, r"dropout is 2.0: it must be in \[0, 1\)"),
    ({"dt_min": -1.0}, "dt_min, dt_max are -1.0, .*: 0 < dt_min"),
    ({"stem": -1}, "stem is -1: it must be at least 0"),
    ({"stem": 4}, "stem is 4: it needs pools"),
    ({"pools": "2,2"}, r"pools is \(2, 2\): one number for each of 3 blocks"),
    ({"layer": "rnn"}, "layer is 'rnn': there is S5, S4, "),
    ({"layer": "S4", "init": "hippo"}, "init is 'hippo': S4 knows legs, legt, "),
    ({"layer": "GRU", "bidirectional": False, "method": "zoh"},
     "method is 'zoh': GRU knows none"),
    ({"layer": "GRU"}, "bidirectional is True: GRU needs False"),
    ({"layer": "S4", "timescale": "none"},
     "timescale is 'none': only S5 has a choice, not S4"),
])
def test_wrong_override(changes, message):
    with pytest.raises(ValueError, match=message):
        experiments.override(experiments.get("digits"), changes)


def test_a_table_without_a_task_is_no_experiment():
    table = experiments.settings(experiments.get("digits"))
    del table["task"]
    with pytest.raises(ValueError, match="table has no task: all settings"):
        configurations.restored(table)


def test_an_option_that_the_task_does_not_have():
    with pytest.raises(ValueError, match="option of digits is 'size': there is perm"):
        experiments.Experiment("", "digits", {"size": 3})


@pytest.mark.parametrize("words, message", [
    ([], "required: command"),
    (["fly"], "invalid choice: 'fly'"),
    (["train"], "required: name"),
    (["train", "digit"], "did you mean digits"),
    (["train", "digits", "--set", "H"], "'H' is not of the form key=value"),
    (["train", "digits", "--set", "=3"], "'=3' is not of the form key=value"),
    (["train", "digits", "--set", "hidden=3"], "setting is 'hidden': there is"),
    (["train", "digits", "--set", "H=x"], "H is 'x': int is needed"),
    (["train", "digits", "--epochs", "0"], "'0' is not a whole number ≥ 1"),
    (["train", "digits", "--seeds", "two"], "'two' is not a whole number ≥ 1"),
    (["train", "digits", "--mesh", "0"], "'0' is not a whole number ≥ 1"),
    (["train", "digits", "--seed", "99999999999999999999"], "below 2**31"),
    (["train", "digits", "--set", "P=7"], "P is 7: with blocks = 2"),
    (["train", "digits", "--seed", "-1"], "'-1' is not a whole number ≥ 0"),
    (["train", "digits", "--epochs", "2", "--set", "epochs=3"],
     "epochs is given more than once: 3, 2"),
    (["train", "digits", "--set", "H=2", "--set", "H=4"],
     "H is given more than once: 2, 4"),
    (["train", "digits", "--fresh", "--resume"], "not allowed with argument"),
    (["data", "minst"], "name is 'minst': did you mean mnist"),
    (["data", "digits", "--set", "x=1"], "setting is 'x': "),
    (["evaluate"], "required: directory"),
    (["evaluate", "nowhere"], "directory is nowhere: there is no such directory"),
    (["evaluate", "nowhere", "--rate", "fast"], "'fast' is not a number ≥ 0"),
    (["evaluate", "nowhere", "--split", "train"], "invalid choice: 'train'"),
    (["generate", "nowhere"], "directory is nowhere: there is no such directory"),
    (["generate", "nowhere", "--temperature", "-1"], "'-1' is not a number ≥ 0"),
])
def test_wrong_arguments_end_with_2(words, message, capsys, tmp_path,
                                    monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        command_line.main(words)
    said = capsys.readouterr()
    assert end.value.code == 2 and said.out == ""
    assert message in re.sub(r"\s+", " ", said.err)
    assert not list(tmp_path.iterdir())


def test_data_that_cannot_be_had_ends_with_1(capsys, monkeypatch):
    def fails(*args, **kwargs):
        raise ConnectionError("MNIST could not be fetched")

    monkeypatch.setattr(tasks, "get", fails)
    assert command_line.main(["data", "mnist"]) == 1
    assert "annotated-ssm: MNIST could not be fetched" in capsys.readouterr().err


def test_damaged_data_ends_with_1(capsys, tmp_path):
    for file in datasets.MNIST_FILES.values():
        (tmp_path / "mnist").mkdir(exist_ok=True)
        (tmp_path / "mnist" / file.name).write_bytes(b"")
    assert command_line.main(["data", "mnist", "--data", str(tmp_path)]) == 1
    assert "delete it, and it will be fetched" in capsys.readouterr().err


def test_a_directory_that_cannot_be_is_refused_before_training(
        capsys, tmp_path, monkeypatch):
    monkeypatch.delattr(training, "fit")
    (tmp_path / "file").write_bytes(b"")
    for out in tmp_path / "file", tmp_path / "file" / "runs":
        with pytest.raises(SystemExit) as end:
            command_line.main(["train", "digits", "--quiet", "--out", str(out)])
        said = re.sub(r"\s+", " ", capsys.readouterr().err)
        assert end.value.code == 2
        assert f"out is {out}, where a file is in the way: a directory" in said


def test_a_run_of_another_configuration_is_kept(capsys, tmp_path, monkeypatch):
    folder = tmp_path / "digits-seed1"
    folder.mkdir()
    kept = folder / "experiment.json"
    kept.write_text(json.dumps({"configuration": experiments.settings(
        experiments.override(experiments.get("digits"), {"H": 8}))}))
    before = kept.read_text()
    monkeypatch.delattr(training, "fit")
    message = f"out has {folder}, a run with H = 8, not 64; epochs = 40, not 2: move"
    for fresh in False, True:
        with pytest.raises(ValueError, match=re.escape(message)):
            experiments.run("digits", 1, {"epochs": 2}, out=tmp_path, fresh=fresh)
    with pytest.raises(SystemExit) as end:    # before the first of the two seeds
        command_line.main(["train", "digits", "--seeds", "2", "--epochs", "2",
                           "--out", str(tmp_path)])
    assert end.value.code == 2 and "H = 8, not 64" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [folder] and kept.read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"configuration": 3}'])
def test_what_is_no_run_is_kept(text, tmp_path):
    folder = tmp_path / "digits-seed0"
    folder.mkdir()
    (folder / "experiment.json").write_text(text)
    with pytest.raises(ValueError, match="directory has no whole experiment.json"):
        experiments.run("digits", out=tmp_path)
    assert (folder / "experiment.json").read_text() == text


def test_a_folder_of_something_else_is_kept(tmp_path):
    folder = tmp_path / "digits-seed0"
    folder.mkdir()
    (folder / "thesis.txt").write_text("all of it")
    with pytest.raises(ValueError, match="digits-seed0, which is no run: move it"):
        experiments.run("digits", out=tmp_path, fresh=True)
    assert (folder / "thesis.txt").read_text() == "all of it"


def test_a_diverging_run_ends_with_1_and_has_no_result(capsys, tmp_path):
    code = command_line.main(["train", "digits", "--out", str(tmp_path),
                              "--set=learning_rate=1e38", *TINY])
    assert code == 1 and "try a smaller learning rate" in capsys.readouterr().err
    assert not (tmp_path / "digits-seed0" / "result.json").exists()


def test_more_devices_than_there_are():
    count = jax.device_count()
    with pytest.raises(ValueError, match=f"mesh is {count + 1}: there are {count} dev"):
        experiments.train("digits", 0, SMALL, mesh=count + 1)


@pytest.mark.parametrize("options, message", [
    ({"split": "train"}, "split is 'train': validation or test is needed"),
    ({"overrides": {"H": 8}}, "setting is 'H': the model is trained; task.…, batch_"),
    ({"overrides": {"pools": (4,)}}, r"pools is \(4,\): the model has 0; as many"),
    ({"overrides": {"task.horizon": 8}}, "setting is 'task.horizon': "),
])
def test_what_cannot_be_judged(options, message, finished):
    with pytest.raises(ValueError, match=message):
        experiments.evaluate(finished, **options)


def test_a_run_that_is_not_there_or_not_finished(tmp_path, finished):
    with pytest.raises(ValueError, match="directory has no whole experiment.json"):
        experiments.load(tmp_path)
    (tmp_path / "experiment.json").write_bytes(
        (finished / "experiment.json").read_bytes())
    with pytest.raises(ValueError, match="whose run isn't finished: there is no model"):
        experiments.load(tmp_path)
    with pytest.raises(ValueError, match="whose run isn't finished"):
        experiments.evaluate(tmp_path)


def test_a_classifier_does_not_go_on(finished, capsys):
    with pytest.raises(ValueError, match="model is a SequenceClassifier, which can't"):
        experiments.go_on(finished, 3)
    with pytest.raises(ValueError, match="prompt is 'a': digits is no text"):
        experiments.go_on(finished, 3, prompt="a")
    assert command_line.main(["generate", str(finished)]) == 1
    assert "annotated-ssm: model is a Sequence" in capsys.readouterr().err


def test_pools_need_one_answer_a_sequence():
    experiment = experiments.override(experiments.get("digits"), {"pools": "2,2,2"})
    form = assembly.Form(1, 1, 8, "regression", False, False, True)
    with pytest.raises(ValueError, match=r"pools is \(2, 2, 2\): task 'digits' has"):
        assembly.build(experiment, form)


def test_no_time_scale_needs_zoh():
    experiment = experiments.override(
        experiments.get("digits"), {"timescale": "none", "method": "bilinear"})
    with pytest.raises(ValueError, match="method is 'bilinear'; need 'zoh'"):
        assembly.build(experiment, tasks.get("digits"))


def test_a_task_without_examples_has_no_form():
    task = tasks.get("copying", counts=(0, 1, 1))
    with pytest.raises(ValueError, match="task has no examples for train"):
        assembly.form(task)


def test_only_square_images_can_be_shifted():
    split = tasks.Split(np.zeros((2, 12, 1), np.float32), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="sequences of length 12: a square"):
        augmentation.shifted(split, 0, 0)


SOUNDS = [augmentation.delayed, augmentation.paced, augmentation.muffled]


@pytest.mark.parametrize("change", SOUNDS)
def test_tokens_are_no_sound(change):
    split = tasks.Split(np.zeros((2, 12), np.int32), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match=r"inputs of shape \(2, 12\): \(n, L, F\)"):
        change(split, 0, 0)


@pytest.mark.parametrize("change", SOUNDS)
def test_sounds_are_evenly_spaced(change):
    split = tasks.Split(np.zeros((2, 12, 1)), np.zeros(2, np.int32),
                        steps=np.ones((2, 12)))
    with pytest.raises(ValueError, match="split has steps: evenly spaced"):
        change(split, 0, 0)


@pytest.mark.parametrize("name, message", [
    ("flip", "augment is 'flip': one of 'none', 'shift', 'sound', 'task'"),
    ("task", "augment is 'task': digits has none of its own"),
])
def test_no_such_augmentation(name, message):
    with pytest.raises(ValueError, match=message):
        augmentation.augmentation(name, tasks.get("digits"))
