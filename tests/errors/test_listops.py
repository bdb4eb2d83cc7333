"""What the ListOps functions say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import listops as lo


@pytest.mark.parametrize("word", ["10", "[FIRST", "<pad>", "x", "X"])
def test_unknown_words(word):
    with pytest.raises(ValueError, match=f"text has the word '{word}'; need one of 0, 1"
                       .replace("[", r"\[")):
        lo.tokenize(f"[MAX 1 {word} ]")


@pytest.mark.parametrize("words", ["", "]", "[MAX 1", "1 2", "[MAX 1 ] ]", "[MAX 1 ] 2",
                                   "1 ]"])
def test_brackets_that_do_not_match(words):
    with pytest.raises(ValueError, match="tokens is .*; need one expression with matching"):
        lo.parse(lo.tokenize(words))


def test_an_empty_bracket():
    with pytest.raises(ValueError, match="need an argument in each bracket"):
        lo.parse(lo.tokenize("[MAX 1 [MIN ] ]"))


def test_padding_is_no_expression():
    with pytest.raises(ValueError, match="need one expression"):
        lo.parse(np.array([1, 0], np.int8))


@pytest.mark.parametrize("arguments, message", [
    (dict(counts=(3, -1)), "counts is -1; need a whole number ≥ 0"),
    (dict(max_depth=0), "max_depth is 0; need a whole number ≥ 1"),
    (dict(max_args=1), "max_args is 1; need a whole number ≥ 2"),
    (dict(above=-1), "above is -1; need a whole number ≥ 0"),
    (dict(above=5, below=6), "below is 6; need a whole number ≥ 7"),
    (dict(max_depth=1, above=0), "max_depth is 1, above 0, below 2000: nothing new in "
     "81920 trees after 10 expressions"),
])
def test_sets_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        lo.splits(arguments.pop("counts", (11,)), 0, **arguments)


def test_too_short_an_array():
    with pytest.raises(ValueError, match="length is 3; need at least 4"):
        lo.padded([lo.tokenize("[MAX 1 2 ]")], 3)


@pytest.mark.parametrize("content, message", [
    ("", "begins with ''; need the columns Source and Target"),
    ("a\tb\n", r"begins with 'a\\tb'; need the columns"),
    ("Source\tTarget\n[MAX 1 2 ]\n", "line 2: .* one tab"),
    ("Source\tTarget\n[MAX 1 2 ]\t2\n[MAX 1 ? ]\t1\n", r"line 3: text has the word '\?'"),
    ("Source\tTarget\n[MAX 1 2\t2\n", "line 2: tokens is .* matching brackets"),
    ("Source\tTarget\n[MED 1 2 ]\t2\n", "line 2: Target is '2'; need 1"),
])
def test_files(tmp_path, content, message):
    path = tmp_path / "x.tsv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        lo.read_tsv(path)
