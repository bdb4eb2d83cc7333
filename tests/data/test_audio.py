"""The real Free Spoken Digit Dataset, from the zip in ANNOTATED_SSM_DATA."""

import io
import os
import wave
import zipfile
from pathlib import Path

import numpy as np
import pytest

from annotated_ssm import audio, resampling
from annotated_ssm.datasets import sha256

SPEAKERS = ["george", "jackson", "lucas", "nicolas", "theo", "yweweler"]


@pytest.fixture(scope="module")
def fsdd():
    return audio.load_fsdd(download=False)


def test_the_file_is_the_one_that_would_be_fetched():
    path = Path(os.environ["ANNOTATED_SSM_DATA"], audio.FSDD_SOURCE.names[0])
    assert sha256(path.read_bytes()) == audio.FSDD_SOURCE.sha256


def test_everybody_says_each_digit_fifty_times(fsdd):
    assert len(fsdd.clips) == 3000 and np.unique(fsdd.speakers).tolist() == SPEAKERS
    assert np.bincount(fsdd.labels).tolist() == 10 * [300]
    keys = set(zip(fsdd.labels.tolist(), fsdd.speakers.tolist(), fsdd.indices.tolist()))
    assert keys == {(d, s, i) for d in range(10) for s in SPEAKERS for i in range(50)}


def test_the_splits(fsdd):
    train, test = audio.fsdd_split(fsdd)
    assert (len(train), len(test)) == (2700, 300)
    assert np.bincount(fsdd.labels[test]).tolist() == 10 * [30]
    for speaker in SPEAKERS:
        train, test = audio.fsdd_split(fsdd, speaker)
        assert (len(train), len(test)) == (2500, 500)


def test_samples_are_those_of_pythons_reader(fsdd):
    path = Path(os.environ["ANNOTATED_SSM_DATA"], audio.FSDD_SOURCE.names[0])
    with zipfile.ZipFile(path) as archive:
        names = {Path(n).name: n for n in archive.namelist() if n.endswith(".wav")}
        for i in range(0, 3000, 37):
            name = f"{fsdd.labels[i]}_{fsdd.speakers[i]}_{fsdd.indices[i]}.wav"
            with wave.open(io.BytesIO(archive.read(names[name]))) as clip:
                frames = clip.readframes(clip.getnframes())
            expected = np.frombuffer(frames, "<i2") / 2**15
            assert fsdd.lengths[i] == len(expected)
            assert np.array_equal(fsdd.clips[i, :len(expected)], expected)
            assert not fsdd.clips[i, len(expected):].any()


def test_speech_at_half_the_rate_loses_what_it_should(fsdd):
    """Below 80 % of the new half rate the spectrum stays, above it goes."""
    whole = np.concatenate([c[:n] for c, n in zip(fsdd.clips[:100], fsdd.lengths)])
    whole = whole[:len(whole) // 2 * 2].astype(float)
    half = resampling.decimate(whole)
    before, after = np.fft.rfft(whole), 2 * np.fft.rfft(half)
    kept = slice(0, int(0.8 * len(half) / 2))
    energy = np.sum(np.abs(before[kept])**2)
    assert np.sum(np.abs(after[kept] - before[kept])**2) < 1e-5 * energy
