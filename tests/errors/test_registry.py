"""What the registered tasks say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import audio, problems, rivals, tasks
from annotated_ssm.splits import Split


@pytest.mark.parametrize("name", tasks.names())
def test_an_option_that_there_is_not(name):
    with pytest.raises(ValueError, match=f"option is 'nonsense': {name} takes permut"):
        tasks.get(name, nonsense=1)


@pytest.mark.parametrize("name", ["listops", "pathfinder", "pathx", "mails",
                                  "retrieval", "weather", "ecl"])
def test_files_that_are_not_there(tmp_path, name):
    options = {"source": "files"} if name in ("listops", "pathfinder", "pathx") else {}
    with pytest.raises(FileNotFoundError, match="is not in .* which needs"):
        tasks.get(name, tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name, options, message", [
    ("pathfinder", {"size": 33}, "size is 33: one of 32, 64, 128, 256 is needed"),
    ("pathfinder", {"source": "web"}, "source is 'web': one of 'generated', 'files'"),
    ("pathfinder", {"counts": (-1, 1, 1)}, "n is -1"),
    ("listops", {"source": "web"}, "source is 'web': one of 'generated', 'files'"),
    ("pixels", {"source": "x"}, "source is 'x': one of 'digits', 'mnist', 'fashion"),
    ("mnist", {"per_class": 0}, "per_class is 0: at least 1 is needed"),
    ("speech_commands", {"words": 20}, "words is 20: one of 10, 35 is needed"),
    ("speech_commands", {"decimate": "half"}, "decimate is 'half': one of None, 'plain'"),
    ("spoken_digits", {"split": "random"}, "split is 'random': one of 'official', 'sp"),
    ("spoken_digits", {"decimate": True}, "decimate is True: one of None, 'plain', 'f"),
    ("spoken_digits", {"length": 0}, "length is 0: at least 1 is needed"),
    ("text", {"percent": 100}, "percent is 100: 0 to 99 is needed"),
    ("mails", {"percent": 50}, "percent is 50: 0 to 49 is needed"),
    ("wikitext", {"level": "line"}, "level is 'line': one of 'word', 'char' is needed"),
    ("pendulum", {"times": "never"}, "times is 'never': one of 'steps', 'ignored', 'a"),
    ("ett", {"file": "ETTh3"}, "file is 'ETTh3': one of 'ETTh1', 'ETTh2', 'ETTm1'"),
    ("copying", {"counts": (5, 5, -1)}, "counts is -1"),
    ("delay", {"lag": 2000}, "lag is 2000"),
])
def test_options_out_of_range(tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        tasks.get(name, tmp_path, **options)


def test_speakers(tmp_path):
    for who in ("ada", "bo"):
        for take in range(6):
            path = tmp_path / "recordings" / f"0_{who}_{take}.wav"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(audio.write_wav(np.zeros(9, np.float32), 8000))
    with pytest.raises(ValueError, match="speakers are .*: at least three are needed"):
        tasks.get("spoken_digits", tmp_path, split="speaker", speaker="ada")
    (tmp_path / "recordings" / "0_cy_0.wav").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match="speaker is 'eve': one of 'ada', 'bo', 'cy'"):
        tasks.get("spoken_digits", tmp_path, split="speaker", speaker="eve")
    with pytest.raises(ValueError, match="speaker is 'ada': split='speaker' is needed"):
        tasks.get("spoken_digits", tmp_path, speaker="ada")


def split(length=8):
    return Split(np.zeros((4, length, 1), np.float32), np.arange(4, dtype=np.int32) % 2)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_rate_of_the_test(rate):
    with pytest.raises(ValueError, match="test_rate is .*: a number > 0 is needed"):
        problems.Task("x", split(), split(), split(), 1, 2, 8, "accuracy", "",
                      test_rate=rate)


def test_length_at_another_rate():
    with pytest.raises(ValueError, match="test has sequences of 8 samples: .* says 4"):
        problems.Task("x", split(), split(), split(), 1, 2, 8, "accuracy", "",
                      test_rate=2)
    task = problems.Task("x", split(), split(), split(4), 1, 2, 8, "accuracy", "",
                         test_rate=2)
    assert tasks.baseline_accuracies(task)["majority class"] == 0.5
    with pytest.raises(ValueError, match="split is 'test', which x has at another rate"):
        tasks.baseline_scores(task, "test")


def test_one_of():
    with pytest.raises(ValueError, match="size is 3: one of 1, 2 is needed"):
        problems.one_of("size", 3, (1, 2))


def test_no_seed():
    with pytest.raises(ValueError, match=r"seed is \(\): it needs integers ≥ 0"):
        problems.shuffled(3)


def test_bigram_without_answers():
    u = np.zeros((2, 3), np.int32)
    none = Split(u, u, scored=np.zeros((2, 3), bool))
    with pytest.raises(ValueError, match="examples has no answer that counts"):
        rivals.bigram(none, none, 1, 1)
