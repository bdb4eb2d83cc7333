"""What the experiments and the command line say when something is wrong."""

import json
import re

import numpy as np
import pytest

from annotated_ssm import datasets, experiments, tasks, training

TINY = ["--set=H=4", "--set=P=4", "--set=blocks=1", "--set=depth=1",
        "--set=epochs=1", "--quiet"]


@pytest.mark.parametrize("name, message", [
    ("digit", "name is 'digit': did you mean digits"),
    ("zzz", "name is 'zzz': there is digits, digits-identity, mnist"),
])
def test_unknown_experiment(name, message):
    with pytest.raises(ValueError, match=message):
        experiments.get(name)


@pytest.mark.parametrize("changes, message", [
    ({"hidden": 3}, "there is no setting hidden: there is H, P, "),
    ({"training": 3}, "there is no setting training"),
    ({"H": "many"}, "H is 'many': int is needed"),
    ({"H": 3.5}, "H is 3.5: int is needed"),
    ({"H": True}, "H is True: int is needed"),
    ({"dropout": "x"}, "dropout is 'x': float is needed"),
    ({"bidirectional": "maybe"}, "bidirectional is 'maybe': true or false"),
    ({"bidirectional": 1}, "bidirectional is 1: true or false"),
    ({"norm": 1}, "norm is 1: str is needed"),
    ({"epochs": 0}, "epochs is 0: it must be positive"),
    ({"task": "minst"}, "task is 'minst', one of 'digits', 'mnist', .* is needed"),
    ({"P": 7}, "P is 7: with blocks = 2 a multiple of 4 is needed"),
    ({"blocks": 0}, "blocks is 0, a whole number ≥ 1 is needed"),
    ({"H": -3}, "H is -3, a whole number ≥ 1 is needed"),
    ({"depth": 0}, "depth is 0, a whole number ≥ 1 is needed"),
    ({"norm": "x"}, "norm is 'x', one of 'batch', 'layer', 'none' is needed"),
    ({"glu": "x"}, "glu is 'x', one of"),
    ({"pool": "max"}, "pool is 'max', one of 'mean', 'last' is needed"),
    ({"dropout": 2.0}, r"dropout is 2.0: it must be in \[0, 1\)"),
    ({"dt_min": -1.0}, "dt_min, dt_max are -1.0, .*: 0 < dt_min"),
    ({"shift": -1}, "shift is -1: it must be at least 0"),
    ({"layer": "rnn"}, "layer is 'rnn', one of 's5', 'identity' is needed"),
])
def test_wrong_override(changes, message):
    with pytest.raises(ValueError, match=message):
        experiments.override(experiments.get("digits"), changes)


@pytest.mark.parametrize("words, message", [
    ([], "required: command"),
    (["fly"], "invalid choice: 'fly'"),
    (["train"], "required: name"),
    (["train", "digit"], "did you mean digits"),
    (["train", "digits", "--set", "H"], "'H' is not of the form key=value"),
    (["train", "digits", "--set", "=3"], "'=3' is not of the form key=value"),
    (["train", "digits", "--set", "hidden=3"], "there is no setting hidden"),
    (["train", "digits", "--set", "H=x"], "H is 'x': int is needed"),
    (["train", "digits", "--epochs", "0"], "'0' is not a whole number ≥ 1"),
    (["train", "digits", "--seeds", "two"], "'two' is not a whole number ≥ 1"),
    (["train", "digits", "--seed", "99999999999999999999"], "below 2**31"),
    (["train", "digits", "--set", "P=7"], "P is 7: with blocks = 2"),
    (["train", "digits", "--seed", "-1"], "'-1' is not a whole number ≥ 0"),
    (["train", "digits", "--epochs", "2", "--set", "epochs=3"],
     "epochs is given more than once: 3, 2"),
    (["train", "digits", "--set", "H=2", "--set", "H=4"],
     "H is given more than once: 2, 4"),
    (["data", "minst"], "name is 'minst', one of 'digits', 'mnist', "),
])
def test_wrong_arguments_end_with_2(words, message, capsys, tmp_path,
                                    monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        experiments.main(words)
    said = capsys.readouterr()
    assert end.value.code == 2 and said.out == ""
    assert message in re.sub(r"\s+", " ", said.err)
    assert not list(tmp_path.iterdir())


def test_data_that_cannot_be_had_ends_with_1(capsys, monkeypatch):
    def fails(*args, **kwargs):
        raise ConnectionError("MNIST could not be fetched")

    monkeypatch.setattr(datasets, "load_mnist", fails)
    assert experiments.main(["data", "mnist"]) == 1
    assert "annotated-ssm: MNIST could not be fetched" in capsys.readouterr().err


def test_damaged_data_ends_with_1(capsys, tmp_path):
    for file in datasets.MNIST_FILES.values():
        (tmp_path / "mnist").mkdir(exist_ok=True)
        (tmp_path / "mnist" / file.name).write_bytes(b"")
    assert experiments.main(["data", "mnist", "--directory", str(tmp_path)]) == 1
    assert "delete it, and it will be fetched" in capsys.readouterr().err


def test_a_directory_that_cannot_be_is_refused_before_training(
        capsys, tmp_path, monkeypatch):
    monkeypatch.delattr(training, "fit")
    (tmp_path / "file").write_bytes(b"")
    for out in tmp_path / "file", tmp_path / "file" / "runs":
        with pytest.raises(SystemExit) as end:
            experiments.main(["train", "digits", "--quiet", "--out", str(out)])
        said = re.sub(r"\s+", " ", capsys.readouterr().err)
        assert end.value.code == 2
        assert f"out is {out}, where a file is in the way: a directory" in said


def test_a_record_of_another_configuration_is_kept(capsys, tmp_path, monkeypatch):
    kept = tmp_path / "digits-seed1.json"
    kept.write_text(json.dumps({"configuration": experiments.settings(
        experiments.override(experiments.get("digits"), {"H": 8}))}))
    before = kept.read_text()
    monkeypatch.delattr(training, "fit")
    message = f"out has {kept}, a run with H = 8, not 64; epochs = 40, not 2: move"
    with pytest.raises(ValueError, match=re.escape(message)):
        experiments.run("digits", 1, {"epochs": 2}, out=tmp_path)
    with pytest.raises(SystemExit) as end:    # before the first of the two seeds
        experiments.main(["train", "digits", "--seeds", "2", "--epochs", "2",
                          "--out", str(tmp_path)])
    assert end.value.code == 2 and "H = 8, not 64" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [kept] and kept.read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"configuration": 3}'])
def test_what_is_no_record_is_kept(text, tmp_path):
    (tmp_path / "digits-seed0.json").write_text(text)
    with pytest.raises(ValueError, match="digits-seed0.json, which is no record"):
        experiments.run("digits", out=tmp_path)
    assert (tmp_path / "digits-seed0.json").read_text() == text


def test_a_diverging_run_ends_with_1_and_writes_nothing(capsys, tmp_path):
    code = experiments.main(["train", "digits", "--out", str(tmp_path),
                             "--set=learning_rate=1e38", *TINY])
    assert code == 1 and "try a smaller learning rate" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_writes_nothing(tmp_path, monkeypatch):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        experiments.run("digits", out=tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_only_square_images_can_be_shifted():
    split = tasks.Split(np.zeros((2, 12, 1), np.float32), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="sequences of length 12: a square"):
        experiments.shifted(split, 0, 0)
