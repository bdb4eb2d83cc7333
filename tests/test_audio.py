"""WAV files, spoken digits, Speech Commands, and half the rate."""

import io
import itertools
import shutil
import struct
import wave

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import audio, resampling

BITS = (8, 16, 24, 32)


def chunk(kind, body):
    return kind + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def riff(*chunks):
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def form(code=1, channels=1, rate=8000, bits=16, block=None, extra=b""):
    block = channels * bits // 8 if block is None else block
    return chunk(b"fmt ", struct.pack("<HHIIHH", code, channels, rate, rate * block,
                                      block, bits) + extra)


@pytest.mark.parametrize("bits, raw, values", [
    (8, bytes([0, 127, 128, 255]), [-1, -1 / 128, 0, 127 / 128]),
    (16, struct.pack("<4h", -2**15, -1, 0, 2**15 - 1),
     [-1, -(2.0**-15), 0, 1 - 2.0**-15]),
    (24, b"\x00\x00\x80" + b"\xff\xff\xff" + bytes(3) + b"\xff\xff\x7f",
     [-1, -(2.0**-23), 0, 1 - 2.0**-23]),
    (32, struct.pack("<4i", -2**31, -2**30, 0, 2**31 - 1),
     [-1, -0.5, 0, 1 - 2.0**-24])])
def test_known_bytes(bits, raw, values):
    sound = audio.read_wav(riff(form(bits=bits), chunk(b"data", raw)))
    assert sound.samples[:, 0].tolist() == values and sound.rate == 8000
    assert sound.samples.dtype == np.float32 and sound.samples.max() < 1


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.sampled_from(BITS), st.integers(1, 3), st.integers(0, 9),
       st.integers(0, 2**16))
def test_there_and_back_is_exact_on_the_levels(bits, channels, n, seed):
    levels = np.random.default_rng(seed).integers(
        -2**(min(bits, 24) - 1), 2**(min(bits, 24) - 1), (n, channels))
    samples = (levels / 2.0**(min(bits, 24) - 1)).astype(np.float32)
    back = audio.read_wav(audio.write_wav(samples, 16_000, bits))
    assert np.array_equal(back.samples, samples) and back.rate == 16_000


@pytest.mark.parametrize("bits, channels", list(itertools.product(BITS, (1, 2))))
def test_pythons_wave_module_reads_the_same_bytes(bits, channels):
    samples = np.random.default_rng(0).uniform(-1, 0.99, (51, channels))
    data = audio.write_wav(samples, 11_025, bits)
    with wave.open(io.BytesIO(data)) as theirs:
        assert theirs.getparams()[:4] == (channels, bits // 8, 11_025, 51)
        frames = theirs.readframes(51)
    assert chunk(b"data", frames) == data[36:]
    assert struct.unpack_from("<I", data, 4)[0] == len(data) - 8
    nearest = np.abs(audio.read_wav(data).samples - samples)
    assert nearest.max() <= 2.0**-bits + 2.0**-25   # half a level, half a rounding


def test_pythons_wave_module_writes_what_is_read(tmp_path):
    levels = np.arange(-50, 50, dtype="<i2").reshape(50, 2)
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setparams((2, 2, 48_000, 0, "NONE", ""))
        file.writeframes(levels.tobytes())
    sound = audio.read_wav(tmp_path / "x.wav")
    assert np.array_equal(sound.samples * 2**15, levels) and sound.rate == 48_000


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_chunks_in_any_order(order):
    parts = [form(), chunk(b"data", struct.pack("<3h", 1, 2, 3)),
             chunk(b"LIST", b"odd"), chunk(b"fact", bytes(4))]
    sound = audio.read_wav(riff(*(parts[i] for i in order)))
    assert (sound.samples[:, 0] * 2**15).tolist() == [1, 2, 3]


def test_extensible_pcm():
    extra = struct.pack("<HHI", 22, 24, 4) + struct.pack("<H", 1) + bytes(14)
    data = riff(form(0xFFFE, bits=24, extra=extra), chunk(b"data", b"\0\0\x40"))
    assert audio.read_wav(data).samples.tolist() == [[0.5]]


def test_no_samples():
    sound = audio.read_wav(riff(form(channels=2), chunk(b"data", b"")))
    assert sound.samples.shape == (0, 2)


def clip(value, n, rate=8000):
    return audio.write_wav(np.full(n, value, np.float32), rate)


@pytest.fixture
def digits(tmp_path):
    """Two speakers, digits 0 and 9, takes 0 … 11; the length tells the take."""
    folder = tmp_path / "free-spoken-digit-dataset-master" / "recordings"
    folder.mkdir(parents=True)
    for digit, speaker, take in itertools.product((0, 9), ("jo", "bo"), range(12)):
        (folder / f"{digit}_{speaker}_{take}.wav").write_bytes(
            clip((digit + 1) / 16, 100 + take))
    (folder.parent / "README.md").write_text("recordings/0_jo_0.wav")
    return folder.parent


@pytest.mark.parametrize("kind", ["folder", "zip", "gztar"])
def test_fsdd(tmp_path, digits, kind):
    path = digits if kind == "folder" else shutil.make_archive(
        str(tmp_path / "packed"), kind, tmp_path, digits.name)
    data = audio.load_fsdd(path, download=False)
    assert data.clips.shape == (48, 111) and data.clips.dtype == np.float32
    assert data.labels.tolist() == 24 * [0] + 24 * [9]
    assert data.speakers.tolist() == 2 * (12 * ["bo"] + 12 * ["jo"])
    assert data.indices.tolist() == 4 * list(range(12))   # 2 before 10
    for i in range(48):
        length = data.lengths[i]
        assert length == 100 + data.indices[i]
        assert (data.clips[i, :length] == (data.labels[i] + 1) / 16).all()
        assert not data.clips[i, length:].any()


def test_fsdd_splits(digits):
    data = audio.load_fsdd(digits)
    train, test = audio.fsdd_split(data)
    assert len(test) == 4 * 5 and len(train) == 4 * 7
    assert data.indices[test].max() == 4 and data.indices[train].min() == 5
    for speaker in ("bo", "jo"):
        train, test = audio.fsdd_split(data, speaker)
        assert set(data.speakers[test]) == {speaker}
        assert speaker not in data.speakers[train]
        assert sorted([*train, *test]) == list(range(48))


@pytest.fixture
def commands(tmp_path):
    """Three words; a clip's value tells which one it is."""
    folder = tmp_path / "speech_commands_v0.02"
    self = {"go": {"a_0": 0.1, "b_0": 0.2, "c_0": 0.3}, "bed": {"a_1": 0.4, "d_0": 0.5},
            "visual": {"e_0": 0.6}, "_background_noise_": {"pink": 0.9}}
    for word, clips in self.items():
        (folder / word).mkdir(parents=True)
        for name, value in clips.items():
            n = 16_000 if name[0] in "ae" else 12_000 if name[0] == "b" else 20_000
            (folder / word / f"{name}.wav").write_bytes(clip(value, n, 16_000))
    (folder / "validation_list.txt").write_text("go/b_0.wav\n")
    (folder / "testing_list.txt").write_text("bed/d_0.wav\ngo/c_0.wav\n")
    return folder


@pytest.mark.parametrize("kind", ["folder", "gztar", "zip"])
def test_speech_commands(tmp_path, commands, kind):
    path = commands if kind == "folder" else shutil.make_archive(
        str(tmp_path / "packed"), kind, commands)
    expected = {"train": ["bed/a_1.wav", "go/a_0.wav", "visual/e_0.wav"],
                "validation": ["go/b_0.wav"], "test": ["bed/d_0.wav", "go/c_0.wav"]}
    values = {"train": [0.4, 0.1, 0.6], "validation": [0.2], "test": [0.5, 0.3]}
    for split, names in expected.items():
        got = audio.load_speech_commands(path, split, download=False)
        assert list(got.names) == names
        assert [audio.WORDS[label] for label in got.labels] == [
            name.split("/")[0] for name in names]
        assert got.clips.shape == (len(names), 16_000)
        assert np.allclose(got.clips[:, 11_999], values[split], atol=2.0**-16)
        short = got.lengths < 16_000
        assert (got.lengths[short] == 12_000).all()
        assert not got.clips[short, 12_000:].any()
        assert got.clips[~short, -1].all()


def test_speech_commands_of_some_words(commands):
    got = audio.load_speech_commands(commands, "train", ("visual", "go"), 100)
    assert got.names == ("visual/e_0.wav", "go/a_0.wav")
    assert got.labels.tolist() == [0, 1] and got.clips.shape == (2, 100)
    ten = audio.load_speech_commands(commands, "test", audio.TEN_WORDS)
    assert ten.names == ("go/c_0.wav",) and ten.labels.tolist() == [9]


def test_the_words():
    assert len(set(audio.WORDS)) == 35 and sorted(audio.WORDS) == list(audio.WORDS)
    assert len(set(audio.TEN_WORDS)) == 10 and set(audio.TEN_WORDS) < set(audio.WORDS)


# Half the rate


def response(taps, omega):
    n = np.arange(len(taps)) - len(taps) // 2
    return np.cos(np.outer(omega, n)) @ taps   # symmetric: real


@pytest.mark.parametrize("attenuation", [60.0, 70.0, 90.0])
@pytest.mark.parametrize("passed", [0.6, 0.8, 0.9])
def test_the_filter_keeps_its_promises(attenuation, passed):
    taps = resampling.half_band(attenuation, passed)
    assert len(taps) % 2 and np.array_equal(taps, taps[::-1])
    assert abs(taps.sum() - 1) < 1e-15 * len(taps)
    stop = response(taps, np.linspace(np.pi / 2, np.pi, 20_001))
    kept = response(taps, np.linspace(0, passed * np.pi / 2, 20_001))
    # Kaiser's rules are fits, good to about a decibel.
    assert 20 * np.log10(np.abs(stop).max()) < -attenuation + 1.5
    assert np.abs(kept - 1).max() < 1.2 * 10**(-attenuation / 20) * 2


def test_the_default_stops_sixty_decibels():
    stop = response(resampling.half_band(), np.linspace(np.pi / 2, np.pi, 50_001))
    assert 20 * np.log10(np.abs(stop).max()) < -60


@pytest.mark.parametrize("length", [0, 1, 2, 99, 100, 16_000])
def test_decimation_is_filtering_then_dropping(length):
    clips = np.random.default_rng(length).standard_normal((2, 3, length))
    taps = resampling.half_band()
    got = resampling.decimate(clips)
    assert got.shape == (2, 3, -(-length // 2)) and got.dtype == clips.dtype
    for i, j in itertools.product(range(2), range(3)):
        full = np.convolve(clips[i, j], taps) if length else np.zeros(len(taps))
        expected = full[len(taps) // 2:][:length:2]
        # A sum of 80 products of numbers of size 1 and below.
        assert np.abs(got[i, j] - expected).max(initial=0) < 80 * 2.0**-52
    assert np.array_equal(resampling.decimate(clips, antialias=False),
                          clips[..., ::2])


def test_tones_below_stay_and_tones_above_go():
    k = np.arange(4000)
    inside = slice(100, -100)
    for low in (0.0, 0.1, 0.25, 0.4):
        tone = np.cos(np.pi * low * k)
        assert np.abs(resampling.decimate(tone) - tone[::2])[inside].max() < 1e-3
    for high in (0.5, 0.6, 0.8, 1.0):
        tone = np.cos(np.pi * high * k)
        assert np.abs(resampling.decimate(tone))[inside].max() < 1e-3
        assert np.abs(resampling.decimate(tone, False))[inside].max() > 0.99


def test_single_precision_stays():
    clips = np.random.default_rng(0).standard_normal((2, 500)).astype(np.float32)
    got = resampling.decimate(clips)
    assert got.dtype == np.float32
    assert np.abs(got - resampling.decimate(clips.astype(float))).max() < 80 * 2.0**-23
