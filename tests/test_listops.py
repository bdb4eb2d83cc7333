"""ListOps: random expressions, two ways to their values, the official file."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import listops as lo
from annotated_ssm.generators import Stream

SMALL = dict(max_depth=5, above=20, below=200)


def oracle(words):
    """The value by Python's own parser: brackets become calls."""
    call = {"[MIN": "min(", "[MAX": "max(", "[MED": "median(", "[SM": "last_digit("}
    source = "".join(call.get(w, ")," if w == "]" else f"{w},") for w in words.split())
    functions = dict(median=lambda *v: int(np.median(v)),
                     last_digit=lambda *v: sum(v) % 10, min=lambda *v: int(np.min(v)),
                     max=lambda *v: int(np.max(v)))
    return eval(source, functions)[0]


expression = st.recursive(
    st.integers(0, 9).map(str),
    lambda inner: st.tuples(st.sampled_from(["[MIN", "[MAX", "[MED", "[SM"]),
                            st.lists(inner, min_size=1, max_size=5)).map(
        lambda node: f"{node[0]} {' '.join(node[1])} ]"),
    max_leaves=40)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(expression)
def test_recursion_stack_and_python_agree(words):
    tokens = lo.tokenize(words)
    assert lo.text(tokens) == words
    value = oracle(words)
    assert lo.evaluate(tokens) == value == lo.evaluate_naive(lo.parse(tokens))


@pytest.mark.parametrize("words, value", [
    ("7", 7), ("[MED 1 2 ]", 1), ("[MED 9 8 ]", 8), ("[MED 3 1 2 ]", 2),
    ("[MED 1 2 7 8 ]", 4), ("[SM 9 9 9 ]", 7), ("[SM 5 5 ]", 0), ("[MIN 4 ]", 4),
    ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9), ("[MAX 1 [MIN 2 3 ] 4 ]", 4),
    ("[MAX 1 [MIN 2 3 4 ] ]", 2)])
def test_values(words, value):
    tokens = lo.tokenize(words)
    assert lo.evaluate(tokens) == lo.evaluate_naive(lo.parse(tokens)) == value


def test_vocabulary():
    assert len(lo.TOKENS) == len(set(lo.TOKENS)) == 16 and lo.TOKENS[0] == "<pad>"
    assert [lo.TOKENS[d + 1] for d in range(10)] == list("0123456789")


@settings(derandomize=True, deadline=None, max_examples=100)
@given(expression)
def test_binary_text_is_left_nested(words):
    def nested(tree):
        if isinstance(tree, int):
            return str(tree)
        joined = lo.TOKENS[tree[0]]
        for part in [*map(nested, tree[1]), "]"]:
            joined = f"( {joined} {part} )"
        return joined
    tokens = lo.tokenize(words)
    assert lo.binary_text(tokens) == nested(lo.parse(tokens))
    assert np.array_equal(lo.tokenize(lo.binary_text(tokens)), tokens)


def test_official_example():
    assert lo.binary_text(lo.tokenize("[MAX 3 4 ]")) == "( ( ( [MAX 3 ) 4 ) ] )"


# Random trees


def moments(max_depth, max_args=10):
    """Mean and variance of the length, from the law of total variance."""
    k = np.arange(2, max_args + 1)
    mean, variance = 1.0, 0.0
    for _ in range(max_depth - 1):
        inner = 2 + k.mean() * mean
        spread = k.mean() * variance + k.var() * mean**2
        gap = inner - 1
        mean, variance = 1 + lo.OPERATE * gap, (
            lo.OPERATE * spread + lo.OPERATE * (1 - lo.OPERATE) * gap**2)
    return mean, variance


@pytest.mark.parametrize("max_depth, max_args", [(1, 10), (2, 2), (3, 5), (5, 10)])
def test_lengths_have_the_moments_of_the_grammar(max_depth, max_args):
    n = 20_000
    mean, variance = moments(max_depth, max_args)
    rows = lo.grow(Stream(max_depth), n, max_depth=max_depth, max_args=max_args,
                   above=0, below=10**6)
    assert len(rows) == n
    assert abs(np.mean([len(r) for r in rows]) - mean) <= 5 * np.sqrt(variance / n)
    stream = Stream(7)
    naive = [len(lo.grow_naive(stream, max_depth, max_args)) for _ in range(1000)]
    assert abs(np.mean(naive) - mean) <= 5 * np.sqrt(variance / 1000)


def shapes(tree, depth=1):
    """(depth, number of arguments) of each node; 0 for digits."""
    if isinstance(tree, int):
        yield depth, 0
        return
    yield depth, len(tree[1])
    for child in tree[1]:
        yield from shapes(child, depth + 1)


def test_trees_are_those_of_the_grammar():
    rows = lo.grow(Stream(1), 30_000, max_depth=4, above=0, below=10**6)
    nodes = np.array([s for row in rows for s in shapes(lo.parse(row))])
    depth, arguments = nodes.T
    assert depth.max() == 4 and not arguments[depth == 4].any()
    for d in (1, 2, 3):
        here = arguments[depth == d]
        n = len(here)
        assert abs(np.mean(here > 0) - 0.25) < 5 * np.sqrt(0.1875 / n)
        counts = np.bincount(here[here > 0], minlength=11)
        operators = counts.sum()
        assert counts[:2].sum() == 0 and len(counts) == 11
        assert np.abs(counts[2:] - operators / 9).max() < 5 * np.sqrt(operators / 9)
    codes = np.bincount(np.concatenate(rows), minlength=16)
    for part in (codes[1:11], codes[11:15]):
        assert np.abs(part - part.mean()).max() < 5 * np.sqrt(part.mean())
    assert codes[0] == 0 and codes[15] == codes[11:15].sum()


@pytest.mark.parametrize("above, below", [(0, 50), (20, 60), (100, 102), (10, 11)])
def test_bounds_only_select(above, below):
    # A tree that withers must not disturb its neighbours: compare by structure
    # of what is kept, whose tokens all have to be valid.
    rows = lo.grow(Stream(2), 5000, max_depth=6, above=above, below=below)
    lengths = [len(row) for row in rows]
    assert all(above < length < below for length in lengths)
    for row in rows:
        lo.parse(row)
    everything = lo.grow(Stream(3), 20_000, max_depth=6, above=0, below=10**6)
    share = np.mean([above < len(row) < below for row in everything])
    tolerance = 5 * np.sqrt(share * (1 - share) * (1 / 5000 + 1 / 20_000))
    assert abs(len(rows) / 5000 - share) <= tolerance


def test_official_sizes_and_baselines():
    train, test = lo.splits((1200, 600), 5)
    lengths = np.array([len(r) for r in train.rows + test.rows])
    assert 500 < lengths.min() and lengths.max() < 2000
    # references: 6,000 expressions of another program, from the same grammar
    assert abs(lengths.mean() - 1037) < 5 * lengths.std() * np.sqrt(1 / 1800 + 1 / 6000)
    for baseline, known in ((lo.majority_baseline, 0.170),
                            (lo.root_operator_baseline, 0.368)):
        spread = np.sqrt(known * (1 - known) * (1 / 600 + 1 / 6000))
        assert abs(baseline(train, test) - known) < 5 * spread
    kept = len(lo.grow(Stream(6), 20_000)) / 20_000
    assert abs(kept - 0.0835) < 5 * np.sqrt(0.0835 / 20_000)


# Sets


def test_same_seed_same_sets_other_seed_others():
    one, two, other = (lo.splits((40, 10, 10), *seed, **SMALL)
                       for seed in ((1,), (1,), (2,)))
    as_bytes = lambda sets: [([r.tobytes() for r in s.rows], s.y.tobytes())
                             for s in sets]
    assert as_bytes(one) == as_bytes(two) != as_bytes(other)
    whole, = lo.splits((60,), 1, **SMALL)
    assert [r.tobytes() for r in whole.rows] == [
        r.tobytes() for s in one for r in s.rows]


def test_sets_never_change():
    # Written down: a test set that moves is no test set.
    small, = lo.splits((2,), 0, max_depth=3, max_args=3, above=4, below=12)
    assert [lo.text(row) for row in small.rows] == ["[SM 2 3 0 ]", "[MIN 5 7 2 ]"]


def test_sets_share_no_expression():
    # short expressions repeat: without the check the sets would overlap
    tiny = dict(max_depth=2, max_args=2, above=2, below=5)
    rows = lo.grow(Stream(0), 4096, **tiny)
    assert len({r.tobytes() for r in rows}) < len(rows)
    sets = lo.splits((300, 50, 50), 0, **tiny)     # all there are: 4 · 10 · 10
    assert len({r.tobytes() for s in sets for r in s.rows}) == 400
    for s in sets:
        assert [lo.evaluate(r) for r in s.rows] == s.y.tolist()


def test_padded():
    part, = lo.splits((30,), 3, **SMALL)
    u, mask = lo.padded(part.rows, 200)
    assert u.shape == mask.shape == (30, 200) and u.dtype == np.int32
    for i, row in enumerate(part.rows):
        assert np.array_equal(u[i, :len(row)], row) and not u[i, len(row):].any()
        assert mask[i].tolist() == [True] * len(row) + [False] * (200 - len(row))
    assert lo.padded([], 5)[0].shape == (0, 5)


def test_baselines_by_hand():
    words = "[MAX 1 2 ]", "[MAX 2 2 ]", "[MAX 3 1 ]", "[MIN 4 5 ]"
    rows = [lo.tokenize(w) for w in words]
    train = lo.Expressions(rows, np.array([2, 2, 3, 4], np.int32))
    test = lo.Expressions([rows[0], rows[3], lo.tokenize("[SM 1 1 ]"), rows[2]],
                          np.array([2, 4, 2, 3], np.int32))
    assert lo.majority_baseline(train, test) == 0.5
    assert lo.root_operator_baseline(train, test) == 0.5


def test_file_round_trip(tmp_path):
    part, = lo.splits((50,), 4, **SMALL)
    path = tmp_path / "basic_train.tsv"
    lo.write_tsv(path, part)
    lines = path.read_text().splitlines()
    assert lines[0] == "Source\tTarget" and len(lines) == 51
    again = lo.read_tsv(path)
    assert np.array_equal(again.y, part.y)
    assert all(np.array_equal(a, b) for a, b in zip(again.rows, part.rows))
    assert [p.name for p in tmp_path.iterdir()] == ["basic_train.tsv"]


def test_a_file_is_whole_or_absent(tmp_path):
    bad = lo.Expressions([lo.tokenize("[MAX 1 2 ]"), lo.tokenize("]")],
                         np.array([2, 0], np.int32))
    with pytest.raises(IndexError):
        lo.write_tsv(tmp_path / "x.tsv", bad)
    assert list(tmp_path.iterdir()) == []


def test_official_lines_are_read(tmp_path):
    path = tmp_path / "basic_test.tsv"
    path.write_bytes(b"Source\tTarget\r\n"
                     b"( ( ( ( [MED 6 ) 3 ) ( ( ( [SM 9 ) 4 ) ] ) ) ] )\t3\r\n")
    rows, y = lo.read_tsv(path)
    assert lo.text(rows[0]) == "[MED 6 3 [SM 9 4 ] ]" and y.tolist() == [3]
