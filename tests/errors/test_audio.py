"""What the readers of sound say when something is wrong."""

import struct

import numpy as np
import pytest

from annotated_ssm import audio, resampling

GOOD = audio.write_wav(np.zeros(10, np.float32), 8000)


def chunk(kind, body):
    return kind + struct.pack("<I", len(body)) + body


def wav(code=1, channels=1, bits=16, block=2, body=bytes(4)):
    form = struct.pack("<HHIIHH", code, channels, 8000, 16_000, block, bits)
    return b"RIFF" + bytes(4) + b"WAVE" + chunk(b"fmt ", form) + chunk(b"data", body)


@pytest.mark.parametrize("data, message", [
    (b"", "begins with b'': a WAV file begins with RIFF"),
    (b"OggS" + bytes(50), "begins with b'OggS"),
    (b"RIFF" + bytes(4) + b"AVI " + bytes(50), "begins with b'RIFF.*AVI '"),
    (GOOD[:-1], "is cut off: its chunk b'data' announces 20 bytes, and 19 follow"),
    (GOOD[:30], "is cut off: its chunk b'fmt ' announces 16 bytes, and 10 follow"),
    (GOOD[:36], r"has no chunk b'data', only \[b'fmt '\]"),
    (GOOD[:12], r"has no chunk b'fmt ', only \[\]"),
    (GOOD[:12] + chunk(b"fmt ", bytes(14)) + GOOD[36:], "b'fmt ' of 14 bytes"),
    (wav(code=3, bits=32, block=4), "holds format 3 with 32 bits: format 1"),
    (wav(code=0x55), "holds format 85 with 16 bits"),
    (wav(code=0xFFFE), "holds format 65534"),
    (wav(bits=12), "holds format 1 with 12 bits"),
    (wav(bits=64, block=8), "with 64 bits"),
    (wav(channels=0, block=0), "has 4 bytes in blocks of 0 for 0 channels"),
    (wav(block=3, body=bytes(6)), "has 6 bytes in blocks of 3 for 1 channels"),
    (wav(body=bytes(3)), "has 3 bytes in blocks of 2")])
def test_read_wav(data, message):
    with pytest.raises(ValueError, match=f"the WAV data .*{message}"):
        audio.read_wav(data)


def test_read_wav_names_the_file(tmp_path):
    (tmp_path / "x.wav").write_bytes(GOOD[:-3])
    with pytest.raises(ValueError, match="x.wav is cut off"):
        audio.read_wav(tmp_path / "x.wav")


@pytest.mark.parametrize("samples, bits, message", [
    ([0.0, 1.0], 16, r"samples has values from 0.0 to 1.0: .* \[−1, 1\)"),
    ([-1.5], 16, "samples has values from -1.5"), ([np.nan], 16, "from nan to nan"),
    ([0.0], 12, "bits is 12: 8, 16, 24 or 32 is needed")])
def test_write_wav(samples, bits, message):
    with pytest.raises(ValueError, match=message):
        audio.write_wav(np.array(samples), 8000, bits)


def fsdd(folder, name="3_ada_0.wav", data=GOOD):
    (folder / "recordings").mkdir(exist_ok=True)
    (folder / "recordings" / name).write_bytes(data)
    return folder


def test_fsdd(tmp_path):
    with pytest.raises(ValueError, match="has no recordings/DIGIT_SPEAKER_INDEX.wav"):
        audio.load_fsdd(fsdd(tmp_path, "three.wav"))
    for data, message in [
            (audio.write_wav(np.zeros(10), 16_000), "1 channels at 16000 Hz: one at 8"),
            (audio.write_wav(np.zeros((9, 2)), 8000), "has 2 channels at 8000 Hz"),
            (GOOD[:-1], "is cut off")]:
        with pytest.raises(ValueError, match=f"3_ada_0.wav .*{message}"):
            audio.load_fsdd(fsdd(tmp_path, data=data))
    data = audio.load_fsdd(fsdd(tmp_path))
    with pytest.raises(ValueError, match="speaker is 'bo': there is ada"):
        audio.fsdd_split(data, "bo")


@pytest.mark.parametrize("options, message", [
    (dict(split="valid"), "split is 'valid': train, validation or test is needed"),
    (dict(words=("yes", "hello")), r"words has \['hello'\]: need words of"),
    (dict(words=("_background_noise_",)), "words has .*background")])
def test_speech_commands_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        audio.load_speech_commands(tmp_path, **options)


def test_speech_commands(tmp_path):
    (tmp_path / "validation_list.txt").write_text("")
    with pytest.raises(ValueError, match="lacks validation_list.txt or testing_list"):
        audio.load_speech_commands(tmp_path)
    (tmp_path / "testing_list.txt").write_text("")
    with pytest.raises(ValueError, match="has no train clips of these words"):
        audio.load_speech_commands(tmp_path)
    (tmp_path / "yes").mkdir()
    (tmp_path / "yes" / "a.wav").write_bytes(GOOD)
    with pytest.raises(ValueError, match="a.wav has 1 channels at 8000 Hz: one at 16"):
        audio.load_speech_commands(tmp_path)


@pytest.mark.parametrize("options, message", [
    (dict(attenuation=40), "attenuation is 40: at least 50 dB"),
    (dict(attenuation=np.nan), "attenuation is nan"),
    (dict(passed=1.0), "passed is 1.0: it needs to be between 0 and 1"),
    (dict(passed=0), "passed is 0")])
def test_half_band(options, message):
    with pytest.raises(ValueError, match=message):
        resampling.half_band(**options)
