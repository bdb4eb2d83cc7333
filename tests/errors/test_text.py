"""What the readers of text say when something is wrong."""

import zipfile

import numpy as np
import pytest

from annotated_ssm import mails, streams, text


@pytest.mark.parametrize("call, message", [
    (lambda: text.Vocabulary(("a", "b")), r"symbols begins with \('a', 'b'\)"),
    (lambda: text.Vocabulary((*text.SPECIAL, "a", "a")), "or has one twice"),
    (lambda: text.build_vocabulary(["a"], 0), "min_freq is 0: at least 1"),
    (lambda: text.BYTES.encode(b"a", 0), "length is 0: at least 1 is needed"),
    (lambda: text.BYTES.encode(b"a", -1, eos=False), "length is -1: at least 0"),
    (lambda: text.pad([np.zeros(5, np.int32)], 4), "length is 4, a sequence has 5"),
    (lambda: streams.split_text(b"a", (95, 5)), r"percent is \(95, 5\)"),
    (lambda: streams.split_text(b"a", (-1, 5)), r"percent is \(-1, 5\)"),
    (lambda: mails.near_duplicates([b"a"], 0), "threshold is 0, words is 5"),
    (lambda: mails.near_duplicates([b"a"], 0.5, 0), "threshold is 0.5, words is 0")])
def test_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def listops(folder, **files):
    for name in ("train", "val", "test"):
        content = files.get(name, "Source\tTarget\n1\t1\n")
        if content is not None:
            (folder / f"basic_{name}.tsv").write_text(content)
    return folder


@pytest.mark.parametrize("files, message", [
    (dict(val=None), r"lacks val of basic_\(train"),
    (dict(test="a\tb\n1\t1\n"), r"basic_test.tsv doesn't begin with the columns"),
    (dict(test=""), r"basic_test.tsv doesn't begin with the columns"),
    (dict(val="Source\tTarget\n1\t1\n1 2 3\n"),
     "basic_val.tsv, line 3: 1 fields between tabs, 2 are needed"),
    (dict(val="Source\tTarget\n1\tone\n"), "basic_val.tsv has the value 'one'"),
    (dict(val="Source\tTarget\n1\t10\n"), "basic_val.tsv has the value '10'")])
def test_listops(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        text.load_listops(listops(tmp_path, **files))


@pytest.mark.parametrize("content, message", [
    ("1.0\t1\t2\ta\n", "new_aan_pairs.eval.tsv, line 1: 4 fields .* 5 are needed"),
    ("2.0\t1\t2\ta\tb\n", "new_aan_pairs.eval.tsv has labels .*2.*: 0 and 1"),
    ("label\t1\t2\ta\tb\n", "new_aan_pairs.eval.tsv has labels .*label")])
def test_aan(tmp_path, content, message):
    for name in ("train", "eval", "test"):
        (tmp_path / f"new_aan_pairs.{name}.tsv").write_text(content)
    with pytest.raises(ValueError, match=message):
        text.load_aan(tmp_path)


def test_imdb(tmp_path):
    (tmp_path / "train" / "pos").mkdir(parents=True)
    (tmp_path / "train" / "pos" / "0_9.txt").write_text("good")
    with pytest.raises(ValueError, match="lacks reviews in train or test, pos or neg"):
        text.load_imdb(tmp_path)


def test_streams(tmp_path):
    (tmp_path / "wiki.train.tokens").write_text("a")
    with pytest.raises(ValueError, match="lacks valid, test of wiki"):
        streams.load_wikitext(tmp_path)
    with zipfile.ZipFile(tmp_path / "enwik8.zip", "w") as archive:
        archive.writestr("enwik9", "")
    with pytest.raises(ValueError, match="enwik8.zip has no file enwik8 in it"):
        streams.load_enwik8(tmp_path)


def test_mails(tmp_path):
    (tmp_path / "data" / "spam-1").mkdir(parents=True)
    with pytest.raises(ValueError, match="has no easy-ham-1/….txt or spam-1/….txt"):
        mails.load_mails(tmp_path)
