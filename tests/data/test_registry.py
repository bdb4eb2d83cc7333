"""Registered tasks on real files, from the folder in ANNOTATED_SSM_DATA."""

import numpy as np
import pytest

from annotated_ssm import audio, resampling, tasks

SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")


@pytest.fixture(scope="module")
def digits():
    return tasks.get("spoken_digits")


def test_official_split_of_spoken_digits(digits):
    sizes = [len(s) for s in (digits.train, digits.validation, digits.test)]
    assert sizes == [2400, 300, 300]   # 2,700 for training, a part of it to choose by
    for split, each in ((digits.train, 240), (digits.validation, 30), (digits.test, 30)):
        assert np.bincount(split.y).tolist() == 10 * [each]
        assert split.u.shape[1:] == (4096, 1)
    data = audio.load_fsdd(download=False)
    _, test = audio.fsdd_split(data)
    assert np.array_equal(digits.test.y, data.labels[test])


def test_a_quarter_of_the_clips_is_cut():
    task = tasks.get("spoken_digits", mask=True)
    parts = (task.train, task.validation, task.test)
    cut = np.concatenate([split.mask.all(axis=1) for split in parts])
    assert 0.24 < cut.mean() < 0.25


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_unknown_voices(speaker):
    task = tasks.get("spoken_digits", split="speaker", speaker=speaker)
    sizes = [len(s) for s in (task.train, task.validation, task.test)]
    assert sizes == [2000, 500, 500]


def test_known_voices_are_easier_than_unknown_ones(digits):
    """What averages of spectra reach, far above the classes' 10 %."""
    known = digits.rivals["mean spectrum"](digits.train, digits.test)["accuracy"]
    unknown = [t.rivals["mean spectrum"](t.train, t.test)["accuracy"] for t in (
        tasks.get("spoken_digits", split="speaker", speaker=s) for s in SPEAKERS)]
    # An accuracy of 300 has a standard error below 3 points, one of 500 below 2.3.
    assert known > 0.5 and np.mean(unknown) < known - 3 * 0.03


@pytest.mark.parametrize("decimate", ["plain", "filtered"])
def test_half_the_rate(digits, decimate):
    task = tasks.get("spoken_digits", decimate=decimate)
    assert task.test_rate == 2 and task.test.u.shape == (300, 2048, 1)
    assert task.train.u.shape == (2400, 4096, 1)
    expected = resampling.decimate(digits.test.u[..., 0], decimate == "filtered")
    assert np.array_equal(task.test.u[..., 0], expected)


@pytest.mark.parametrize("look_back, ridge", [
    (24, 0.0296), (48, 0.0282), (96, 0.0263), (168, 0.0263), (336, 0.0260)])
def test_forecasts_of_the_oil_temperature(look_back, ridge):
    """Measured once by another program, which chose its penalty by validation."""
    task = tasks.get("ett", look_back=look_back)
    assert len(task.validation) == len(task.test) == 2857
    scores = tasks.baseline_scores(task, "test")
    assert round(scores["persistence"]["mse"], 4) == 0.0343
    assert round(scores["a day ago"]["mse"], 4) == 0.0458
    assert abs(scores["ridge"]["mse"] - ridge) < 0.0002
