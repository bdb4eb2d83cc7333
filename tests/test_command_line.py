"""The command line from outside: several devices, another rate, where data is from."""

import json
import subprocess
import sys

import pytest
import tiny_files
from devices import cpu_devices
from repository import ROOT

from annotated_ssm import command_line, tasks

TINY = ["--set=H=8", "--set=P=8", "--set=blocks=1", "--set=depth=1", "--set=dropout=0"]


def shell(*words, devices=1, folder=None):
    """Run a command line in a process of its own, with so many devices."""
    return subprocess.run(
        [sys.executable, "-m", "annotated_ssm", *map(str, words)], cwd=folder,
        capture_output=True, text=True, timeout=300,
        env=cpu_devices(devices) | {"PYTHONPATH": str(ROOT)})


# Several devices


def test_four_devices_come_to_the_same_as_one(tmp_path):
    records = {}
    for devices, mesh in ((1, ()), (4, ("--mesh", 4))):
        out = tmp_path / str(devices)
        done = shell("train", "digits", "--quiet", "--epochs=3", *TINY, *mesh,
                     "--set=batch_size=100", "--set=learning_rate=0.02",
                     "--set=label_smoothing=0", "--out", out, devices=devices)
        assert done.returncode == 0, done.stderr
        records[devices] = json.loads(
            (out / "digits-seed0" / "result.json").read_text())
    one, four = records[1], records[4]
    assert four["configuration"] == one["configuration"]
    losses = [[*r["history"]["train_loss"], *r["history"]["validation_loss"],
               r["test"]["loss"]] for r in (one, four)]
    # Sums in float32 in another order. Adam makes a whole step of a gradient that is
    # nearly zero, whichever sign it has, so more than rounding may differ; what is
    # learned is a hundred times as much.
    learned = losses[0][0] - losses[0][2]
    assert learned > 0.03
    assert losses[1] == pytest.approx(losses[0], abs=learned / 100)
    # One device can judge what four have trained.
    score = shell("evaluate", tmp_path / "4" / "digits-seed0", "--split=test")
    said = float(score.stdout.split()[2])
    assert said == pytest.approx(four["test"]["loss"], rel=1e-5)


@pytest.mark.parametrize("mesh, message", [
    (4, "mesh is 4: batch_size is 50, and a multiple of 4 is needed"),
    (5, "mesh is 5: there are 4 devices")])
def test_a_batch_that_devices_can_not_share(tmp_path, mesh, message):
    done = shell("train", "digits", "--quiet", "--mesh", mesh, *TINY, devices=4,
                 folder=tmp_path)
    assert done.returncode == 2 and message in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


# Another rate


def test_a_trained_model_hears_at_half_the_rate(tmp_path, capsys):
    """Tones of ten pitches: whoever isn't told the rate takes each for another."""
    home = tmp_path / "data"
    tiny_files.spoken_digits(home / "free-spoken-digit-dataset" / "recordings", takes=16)

    def said(*words):
        assert command_line.main([*map(str, words), "--data", str(home)]) == 0
        return capsys.readouterr().out

    said("train", "digits", "--quiet", "--epochs=12", "--out", tmp_path,
         "--set=task=spoken_digits", "--set=task.length=200", "--set=augment=none",
         "--set=dt_min=0.001", "--set=dt_max=0.1", "--set=depth=1", "--set=H=16",
         "--set=P=32", "--set=blocks=1", "--set=batch_size=20", "--set=dropout=0",
         "--set=bidirectional=false", "--set=learning_rate=0.02")
    run = tmp_path / "digits-seed0"

    def accuracy(*words):
        lines = said("evaluate", run, "--split=test", *words).splitlines()
        return float({line.split()[1]: line.split()[2] for line in lines}["accuracy"])

    half = "--set=task.decimate=plain"
    whole, told, not_told = accuracy(), accuracy(half), accuracy(half, "--rate=1")
    assert accuracy(half, "--rate=2") == told       # as the task says
    # Held for longer, a tone is a little dimmer: some of 150 may change. At the
    # wrong rate all pitches are twice as high, and eight of ten are another digit's.
    assert whole > 0.9 and told > whole - 0.1
    assert not_told < 0.5


# Where data comes from


def test_what_is_made_here_is_not_fetched(tmp_path, capsys):
    here = [name for name in tasks.names()
            if command_line.comes(name) in ("generated", "in the package")]
    for name in here:
        words = [] if name == "digits" else ["--set=task.counts=1,1,1"]
        assert command_line.main(["data", name, "--data", str(tmp_path), *words]) == 0
        assert "nothing to fetch" in capsys.readouterr().out.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [] and len(here) == 14


@pytest.mark.parametrize("name, options, how", [
    ("pixels", {}, "fetched"), ("pixels", {"source": "digits"}, "in the package"),
    ("pathfinder", {"source": "files"}, "by hand"), ("listops", {}, "generated"),
    ("listops", {"source": "files"}, "by hand"), ("characters", {}, "fetched"),
    ("characters", {"file": "book.txt"}, "by hand"), ("ett", {}, "fetched"),
    ("ecl", {}, "by hand"), ("text", {}, "fetched"), ("mails", {}, "by hand")])
def test_how_data_comes(name, options, how):
    assert command_line.comes(name, options) == how


def test_what_is_there_is_said_to_be(tmp_path, capsys):
    with tiny_files.everything(tmp_path / "data") as home:
        assert command_line.main(["data", "cifar10", "--data", str(home),
                                  "--set=task.per_class=2"]) == 0
    assert f"data is kept in {home}" in capsys.readouterr().out
