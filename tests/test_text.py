"""Vocabularies, masks, the published text files, streams and mails."""

import json
import shutil
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import mails, streams, text


def test_the_vocabulary_is_ordered_by_frequency():
    v = text.build_vocabulary(["bbba", "aac", "d"], min_freq=1)
    assert v.symbols == (*text.SPECIAL, "a", "b", "c", "d") and len(v) == 7
    assert text.build_vocabulary(["bbba", "aac", "d"], 3).symbols[3:] == ("a", "b")
    assert text.build_vocabulary([]).symbols == text.SPECIAL


def test_symbols_can_be_bytes_words_or_numbers():
    assert text.build_vocabulary([b"ab", b"b"]).symbols[3:] == (98, 97)
    words = text.build_vocabulary([["the", "<unk>", "cat"], ["the"]])
    assert words.symbols[3:] == ("the", "cat")
    assert words.encode(["<unk>", "dog", "the"], eos=False).tolist() == [1, 1, 3]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.text(alphabet="abcxyz", max_size=20), st.integers(1, 12), st.booleans())
def test_encoding_cuts_and_keeps_the_end(letters, length, eos):
    v = text.build_vocabulary(["abc"])
    ids = v.encode(letters, length, eos)
    assert ids.dtype == np.int32 and len(ids) == min(len(letters) + eos, length)
    kept = letters[:length - eos]
    expected = [v.ids.get(c, text.UNK) for c in kept] + [text.EOS] * eos
    assert ids.tolist() == expected
    back = v.decode(ids)
    assert back == [c if c in "abc" else "<unk>" for c in kept] + ["<eos>"] * eos


def test_every_byte_has_a_number():
    data = bytes(range(256))
    ids = text.BYTES.encode(data, eos=False)
    assert ids.tolist() == list(range(3, 259)) and len(text.BYTES) == 259
    assert bytes(text.BYTES.decode(ids)) == data


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), max_size=5), st.integers(0, 3))
def test_padding_is_on_the_right_and_the_mask_a_prefix(lengths, more):
    sequences = [np.full(n, 7 + i, np.int32) for i, n in enumerate(lengths)]
    for length in (None, max(lengths, default=0) + more):
        ids, mask = text.pad(sequences, length)
        assert ids.shape == mask.shape and ids.shape[0] == len(lengths)
        assert ids.shape[1] == (max(lengths, default=0) if length is None else length)
        assert mask.sum(1).tolist() == lengths
        assert not (mask[:, 1:] & ~mask[:, :-1]).any()
        assert (ids[~mask] == text.PAD).all()
        for row, real, sequence in zip(ids, mask, sequences):
            assert np.array_equal(row[real], sequence)


def test_listops_tokens():
    source = "( ( ( ( [SM 8 ) ( ( ( [MED 3 ) 1 ) ] ) ) 5 ) ] )"
    assert text.listops_tokens(source) == ["[SM", "8", "[MED", "3", "1", "X", "5", "X"]


def write_listops(folder):
    folder.mkdir(parents=True)
    rows = {"train": [("( ( ( [MAX 3 ) 4 ) ] )", 4), ("7", 7)],
            "val": [("( ( ( [MIN 3 ) 4 ) ] )", 3)], "test": [("0", 0)]}
    for name, table in rows.items():
        lines = ["Source\tTarget", *(f"{s}\t{t}" for s, t in table)]
        (folder / f"basic_{name}.tsv").write_text("\n".join(lines) + "\n")


def write_aan(folder):
    folder.mkdir(parents=True)
    for name in ("train", "eval", "test"):
        (folder / f"new_aan_pairs.{name}.tsv").write_text(
            f"1.0\t7\t8\tb'{name} \"quoted'\tb'second\\n'\n0.0\t1\t2\tb'x'\tb'y'\n")


@pytest.mark.parametrize("kind", ["folder", "gztar"])
def test_listops_and_aan_from_the_release(tmp_path, kind):
    write_listops(tmp_path / "lra_release" / "listops-1000")
    write_aan(tmp_path / "lra_release" / "tsv_data")
    if kind == "gztar":
        packed = shutil.make_archive(str(tmp_path / "p"), "gztar", tmp_path,
                                     "lra_release")
        shutil.rmtree(tmp_path / "lra_release")
        shutil.move(packed, tmp_path / "lra_release.gz")
    listops = text.load_listops(tmp_path)
    assert listops["train"][0] == [["[MAX", "3", "4", "X"], ["7"]]
    assert {k: v[1].tolist() for k, v in listops.items()} == {
        "train": [4, 7], "validation": [3], "test": [0]}
    aan = text.load_aan(tmp_path)
    # Quotes mean nothing in these files, and texts stay as they stand there.
    assert aan["validation"][0][0] == ("b'eval \"quoted'", "b'second\\n'")
    assert aan["test"][1].tolist() == [1, 0]
    assert text.load_aan(tmp_path, length=3)["train"][0][0] == ("b't", "b's")


@pytest.mark.parametrize("kind", ["folder", "gztar"])
def test_imdb(tmp_path, kind):
    for split in ("train", "test"):
        for opinion in ("pos", "neg", "unsup"):
            folder = tmp_path / "aclImdb" / split / opinion
            folder.mkdir(parents=True)
            for i in (0, 2, 10):
                (folder / f"{i}_7.txt").write_text(f"{split} {opinion} {i} é",
                                                   encoding="utf-8")
    (tmp_path / "aclImdb" / "train" / "labeledBow.feat").write_text("no review")
    path = tmp_path / "aclImdb"
    if kind == "gztar":
        path = shutil.make_archive(str(tmp_path / "p"), kind, tmp_path, "aclImdb")
    for split, (reviews, labels) in text.load_imdb(path).items():
        assert labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert reviews == [f"{split} {o} {i} é" for o in ("neg", "pos")
                           for i in (0, 2, 10)]


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_wikitext(tmp_path, kind):
    parts = {"train": " \n = T = \n the cat \n the <unk> \n",
             "valid": " a cat \n\n", "test": " the end"}
    folder = tmp_path / "wikitext-103"
    folder.mkdir()
    for name, content in parts.items():
        (folder / f"wiki.{name}.tokens").write_text(content, encoding="utf-8")
    if kind == "zip":
        shutil.make_archive(str(tmp_path / "wikitext-103-v1"), "zip", tmp_path,
                            "wikitext-103")
        shutil.rmtree(folder)
    stream = streams.load_wikitext(tmp_path, download=False)
    decode = stream.vocabulary.decode
    assert decode(stream.train) == ["<eos>", "=", "T", "=", "<eos>", "the", "cat",
                                    "<eos>", "the", "<unk>", "<eos>"]
    assert decode(stream.validation) == ["<unk>", "cat", "<eos>", "<eos>"]
    assert decode(stream.test) == ["the", "<unk>", "<eos>"]
    assert all(part.dtype == np.int32 for part in stream[:3])


@pytest.mark.parametrize("n", [0, 1, 19, 20, 100, 12_345])
def test_split_text(n):
    data = np.random.default_rng(n).integers(0, 256, n, dtype=np.uint8).tobytes()
    parts = streams.split_text(data)
    assert b"".join(part.tobytes() for part in parts) == data
    assert [len(p) for p in parts] == [n * 90 // 100, n * 95 // 100 - n * 90 // 100,
                                       n - n * 95 // 100]


def test_enwik8_zipped_or_not(tmp_path):
    data = bytes(range(200))
    (tmp_path / "enwik8").write_bytes(data)
    plain = streams.load_enwik8(tmp_path)
    with zipfile.ZipFile(tmp_path / "enwik8.zip", "w") as archive:
        archive.write(tmp_path / "enwik8", "enwik8")
    (tmp_path / "enwik8").unlink()
    for a, b in zip(plain, streams.load_enwik8(tmp_path), strict=True):
        assert np.array_equal(a, b)
    (tmp_path / "any.txt").write_bytes(data)
    assert len(streams.load_enwik8(tmp_path / "any.txt")[0]) == 180


# Mails


@pytest.mark.parametrize("mail, body", [
    (b"A: b\n\nbody\n\nmore", b"body\n\nmore"), (b"A: b\r\n\r\nbody", b"body"),
    (b"A: b\nno body", b""), (b"\n\nbody", b"body"), (b"", b"")])
def test_strip_header(mail, body):
    assert mails.strip_header(mail) == body


def duplicates_naive(texts, threshold, words=5):
    """All pairs, exact sets: the judge."""
    sets, repeats = [], []
    for item in texts:
        parts = item.lower().split()
        groups = {tuple(parts[i:i + words])
                  for i in range(max(len(parts) - words + 1, 1))}
        near = any(len(groups & other) >= threshold * len(groups | other)
                   for other, gone in zip(sets, repeats) if not gone)
        sets.append(groups)
        repeats.append(near)
    return repeats


@pytest.mark.parametrize("seed", range(4))
def test_near_duplicates_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    names = np.array([a + b for a in "bcdfgk" for b in ("a", "e", "on", "ui")])
    texts = []
    for _ in range(12):   # families: a text and copies with more and more changes
        base = names[rng.integers(0, len(names), 120)]
        for changes in (0, 1, 2, 5, 40):
            copy = base.copy()
            copy[rng.choice(120, changes, replace=False)] = "zz"
            texts.append(" ".join(copy).encode())
    texts = [texts[i] for i in rng.permutation(len(texts))]
    got = mails.near_duplicates(texts, 0.7)
    # Of some hundred near pairs, one in 5,000 is missed.
    assert got.tolist() == duplicates_naive(texts, 0.7)
    assert 10 < got.sum() < 50


def test_numbers_and_case_make_no_difference():
    texts = [b"Call 555 1234 now and win big prizes today",
             b"call 556 999 NOW and win big  prizes\ntoday", b"something else"]
    assert mails.near_duplicates(texts).tolist() == [False, True, False]
    assert mails.near_duplicates([b"", b"", b" \n"]).tolist() == [False, True, True]


def test_the_last_word_counts():
    texts = [b"a b c d e f", b"a b c d e g", b"a b c d e"]   # 1 of 3, and 1 of 2
    assert not mails.near_duplicates(texts, 0.51).any()
    assert mails.near_duplicates(texts, 0.5).tolist() == [False, False, True]


def test_every_order_of_equal_texts_keeps_the_first():
    texts = [b"one two three four five six"] * 5
    assert mails.near_duplicates(texts).tolist() == [False] + 4 * [True]


@pytest.mark.parametrize("kind", ["folder", "gztar"])
def test_mails(tmp_path, kind):
    bodies = {"easy-ham-1/a": b"see you at noon", "easy-ham-2/b": b"see you at noon",
              "hard-ham-1/c": b"", "spam-1/d": b"buy this thing at once",
              "spam-2/e": b"an offer for you alone"}
    for name, body in bodies.items():
        path = tmp_path / "package" / "data" / f"{name}.txt"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"From: x\nList-Id: y\n\n" + body)
        path.with_suffix(".json").write_text(json.dumps({"group": name}))
    path = tmp_path / "package"
    if kind == "gztar":
        path = shutil.make_archive(str(tmp_path / "p"), kind, tmp_path, "package")
    got = mails.load_mails(path)
    assert got.names == ("easy-ham-1/a.txt", "spam-1/d.txt", "spam-2/e.txt")
    assert got.labels.tolist() == [0, 1, 1]
    assert got.texts[1] == bodies["spam-1/d"]
    everything = mails.load_mails(path, headers=True, duplicates=True)
    assert len(everything.texts) == 5
    assert all(item.startswith(b"From: x") for item in everything.texts)
