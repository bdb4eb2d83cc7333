"""Generators: numbers that stay, problems whose answers follow from their input."""

import hashlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import signals, tasks
from annotated_ssm import generators as g
from annotated_ssm.generators import Stream

EPS = np.finfo(float).eps

GENERATORS = {
    "copying": g.copying,
    "selective": partial(g.copying, scattered=True),
    "reverse": partial(g.copying, reverse=True),
    "adding": partial(g.adding, length=100),
    "recall": g.recall,
    "induction": g.induction,
    "delay": partial(signals.delay, length=64, lag=10, cycles=8),
    "reconstruct": partial(signals.reconstruct, length=64),
    "mackey_glass": partial(signals.mackey_glass, length=50),
}
each_generator = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)


def digest(example):
    """What the bytes of all arrays are, and their shapes and types."""
    parts = [(a.dtype.str, a.shape, a.tobytes()) for a in example if a is not None]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


# The stream


def test_stream_never_changes():
    # Written down: a change here changes every generated data set.
    stream = Stream(0)
    assert stream.words(2).tolist() == [11749869230777074271, 4976686463289251617]
    assert stream.uniform(2).tolist() == [0.04097352393619469, 0.016527635528529094]
    assert stream.integers(0, 10, 6).tolist() == [8, 9, 6, 7, 5, 9]
    assert stream.permutation(5).tolist() == [1, 3, 4, 0, 2]
    normal = [-0.6005856610193151, -0.6129097470620699]
    assert np.abs(stream.normal(2) - normal).max() <= 4 * EPS


def test_stream_takes_the_high_bits_of_a_word():
    for word, value in ((0, 0.0), (2**11 - 1, 0.0), (2**11, 2.0**-53),
                        (2**63, 0.5), (2**64 - 1, 1 - 2.0**-53)):
        stream = Stream(0)
        stream.words = lambda *shape: np.full(shape, word, np.uint64)
        assert stream.uniform(1)[0] == value
        for m in (1, 3, 10, 2**31 + 1, 2**32):
            # exact in whole numbers; the product is rounded, never up to m
            exact = (word >> 11) * m >> 53
            assert stream.integers(-5, m - 5, 1)[0] + 5 in (exact, min(exact + 1, m - 1))
            assert stream.integers(-5, m - 5, 1)[0] < m - 5


def test_stream_normal_is_box_and_muller():
    u = Stream(4).uniform(2, 50)
    expected = np.sqrt(-2 * np.log(1 - u[0])) * np.cos(2 * np.pi * u[1])
    # 1 − u is exact; log1p and log differ by a rounding or two
    assert np.abs(Stream(4).normal(50) - expected).max() <= 40 * EPS


def test_stream_permutation_is_that_of_tasks():
    for seed in (0, 3, 2**32 - 1):
        assert np.array_equal(Stream(seed).permutation(40), tasks.shuffled(40, seed))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3), st.integers(0, 4),
       st.integers(-9, 9), st.integers(1, 30))
def test_stream_shapes_and_ranges(seed, size, low, width):
    shape = (2, size)
    stream = Stream(*seed)
    u, z, i = (stream.uniform(*shape), stream.normal(*shape),
               stream.integers(low, low + width, *shape))
    assert u.shape == z.shape == i.shape == shape
    assert np.all((0 <= u) & (u < 1)) and np.isfinite(z).all()
    assert i.dtype == np.int64 and np.all((low <= i) & (i < low + width))
    assert np.array_equal(np.sort(stream.permutation(size)), np.arange(size))
    assert stream.uniform().shape == stream.normal().shape == ()


def test_stream_goes_on_where_it_ended():
    one, two = Stream(8), Stream(8)
    assert np.array_equal(one.words(7), np.concatenate([two.words(3), two.words(4)]))


def test_streams_of_other_seeds_differ():
    seeds = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0, 0)]
    assert len({Stream(*seed).words(4).tobytes() for seed in seeds}) == len(seeds)


def test_integers_are_equally_likely():
    counts = np.bincount(Stream(9).integers(0, 7, 70_000), minlength=7)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(70_000 * 6 / 49)


# What all generators have in common


@each_generator
def test_same_seed_same_bytes_other_seed_other_bytes(make):
    assert digest(make(Stream(5), 20)) == digest(make(Stream(5), 20))
    assert digest(make(Stream(5), 20)) != digest(make(Stream(6), 20))


@each_generator
def test_shapes_and_types(make):
    for n in (0, 3):
        u, y, scored = make(Stream(1), n)
        assert u.shape[0] == y.shape[0] == n
        if u.ndim == 2:
            assert u.dtype == y.dtype == np.int32 and u.min(initial=0) >= 0
        else:
            assert u.dtype == y.dtype == np.float32 and u.ndim == 3
        if scored is None:
            assert y.shape == (n,)
        else:
            assert scored.dtype == bool and scored.shape == u.shape[:2]
            assert y.shape[:2] == u.shape[:2] and scored.any(axis=1).all()


@each_generator
def test_splits_share_no_input(make):
    parts = g.splits(make, (30, 8, 12), 3)
    assert [len(p.u) for p in parts] == [30, 8, 12]
    rows = [row.tobytes() for p in parts for row in p.u]
    assert len(set(rows)) == 50
    again = g.splits(make, (30, 8, 12), 3)
    assert [digest(p) for p in parts] == [digest(p) for p in again]
    other = g.splits(make, (30, 8, 12), 4)
    assert [digest(p) for p in parts] != [digest(p) for p in other]


def test_splits_of_a_small_problem_are_all_its_inputs():
    # 16 inputs, of which 50 draws repeat many: without the check sets overlap
    make = partial(g.copying, symbols=4, memorize=2, wait=1)
    parts = g.splits(make, (10, 3, 3), 0)
    rows = np.concatenate([p.u[:, :2] for p in parts])
    assert sorted(map(tuple, rows.tolist())) == [
        (a, b) for a in range(1, 5) for b in range(1, 5)]
    for p in parts:     # an answer stays with its input
        assert np.array_equal(p.y[:, -2:], p.u[:, :2])


def test_splits_may_be_empty():
    parts = g.splits(g.adding, (0, 0), 0)
    assert [p.u.shape for p in parts] == [(0, 1000, 2)] * 2 and parts[0].scored is None


def test_exact_generators_never_change():
    # Whole numbers, and sums, products and quotients: the same bytes everywhere.
    assert {name: digest(GENERATORS[name](Stream(0), 5))[:16] for name in EXPECTED} == (
        EXPECTED)


EXPECTED = {
    "copying": "82f01b3f95fed15e",
    "selective": "cb8ceee1b308693a",
    "reverse": "4ca481968c2174cd",
    "adding": "8467e4fdce9bdf43",
    "recall": "712b7fcbbb0ba0c9",
    "induction": "288e9794f222b1c3",
    "mackey_glass": "4488a91f72f08a96",
}


# Each problem, solved


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 9), st.integers(0, 30),
       st.booleans(), st.booleans())
def test_copying_is_solved_by_a_list(seed, symbols, memorize, wait, scattered, reverse):
    u, y, scored = g.copying(Stream(seed), 20, symbols=symbols, memorize=memorize,
                             wait=wait, scattered=scattered, reverse=reverse)
    assert u.shape == (20, wait + 2 * memorize)
    for row, answer, where in zip(u.tolist(), y.tolist(), scored.tolist()):
        kept = [t for t in row if 1 <= t <= symbols]
        kept = kept[::-1] if reverse else kept
        assert len(kept) == memorize
        assert [a for a, w in zip(answer, where) if w] == kept
        assert all(a == 0 for a, w in zip(answer, where) if not w)
        assert [t == symbols + 1 for t in row] == where
    if not scattered:
        assert np.all(u[:, :memorize] > 0) and not u[:, memorize:-memorize].any()


def test_copying_scatters_over_all_places():
    u = g.copying(Stream(2), 4000, memorize=3, wait=9, scattered=True).u
    counts = (u[:, :12] > 0).sum(0)     # each place is taken with 3/12
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(4000 * 3 / 16)


def test_copying_loss_of_forgetting():
    _, y, scored = g.copying(Stream(3), 50, symbols=8, memorize=10, wait=100)
    guess = np.where(scored, 1 / 8, 1.0)    # a blank for sure, or an even bet
    assert np.all((y > 0) == scored)
    assert abs(-np.log(guess).mean() - 10 * np.log(8) / 120) < 100 * EPS
    counts = np.bincount(y[scored], minlength=9)[1:]
    assert np.abs(counts - 62.5).max() < 5 * np.sqrt(500 * 7 / 64)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 60))
def test_adding_is_solved_by_a_sum(seed, length):
    u, y, scored = g.adding(Stream(seed), 30, length=length)
    number, mark = u[..., 0], u[..., 1]
    assert scored is None and np.all((0 <= number) & (number < 1))
    assert np.all(mark[:, :length // 2].sum(1) == 1)
    assert np.all(mark[:, length // 2:].sum(1) == 1) and np.all(mark * (1 - mark) == 0)
    exact = (number.astype(float) * mark).sum(1)
    assert np.array_equal(exact.astype(np.float32), y)


def test_adding_chance():
    u, y, _ = g.adding(Stream(4), 20_000, length=20)
    error = (y.astype(float) - 1) ** 2
    assert abs(error.mean() - 1 / 6) < 5 * np.sqrt(7 / 180 / 20_000)
    places = np.argmax(u[..., 1], axis=1)
    assert np.abs(np.bincount(places) - 2000).max() < 5 * np.sqrt(20_000 * 0.09)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9), st.integers(1, 12))
def test_recall_is_solved_by_a_dictionary(seed, keys, values, pairs):
    u, y, scored = g.recall(Stream(seed), 30, keys=keys, values=values, pairs=pairs)
    assert u.shape == (30, 2 * pairs + 2) and np.all(u[:, -2] == keys + values)
    assert scored.sum() == 30 and scored[:, -1].all()
    for row, answer in zip(u.tolist(), y.tolist()):
        table = {}
        for key, value in zip(row[:-2:2], row[1:-2:2]):
            assert 0 <= key < keys <= value < keys + values
            assert table.setdefault(key, value) == value
        assert answer[-1] == table[row[-1]] and answer[:-1] == row[1:]


def test_recall_chance():
    u, y, scored = g.recall(Stream(5), 8000, keys=6, values=4, pairs=5)
    counts = np.bincount(y[scored] - 6, minlength=4)
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(8000 * 3 / 16)
    # of the different keys that came, each is asked equally often
    two = np.array([len(set(row)) == 2 for row in u[:, :-2:2].tolist()])
    first = u[two, -1] == u[two, 0]
    assert abs(first.mean() - 0.5) < 5 * np.sqrt(0.25 / two.sum())


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(3, 50))
def test_induction_is_solved_by_a_search(seed, symbols, length):
    u, y, scored = g.induction(Stream(seed), 30, symbols=symbols, length=length)
    assert u.shape == (30, length) and scored.sum() == 30 and scored[:, -1].all()
    for row, answer in zip(u.tolist(), y.tolist()):
        assert row.count(symbols) == 2 and row[-1] == symbols
        assert answer[-1] == row[row.index(symbols) + 1] < symbols
        assert answer[:-1] == row[1:]


def test_induction_chance():
    u, y, scored = g.induction(Stream(6), 8000, symbols=4, length=10)
    counts = np.bincount(y[scored], minlength=4)
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(8000 * 3 / 16)
    places = np.bincount((u == 4).argmax(axis=1), minlength=8)
    assert len(places) == 8 and np.abs(places - 1000).max() < 5 * np.sqrt(8000 * 7 / 64)


# Signals


@pytest.mark.parametrize("length, cycles", [(64, 1), (64, 31), (65, 32), (3, 1)])
def test_band_limited_is_the_sum_of_waves(length, cycles):
    v = signals.band_limited(Stream(7), 4, length, cycles)
    a, b = Stream(7).normal(2, 4, cycles)
    angle = 2 * np.pi * np.outer(np.arange(1, cycles + 1), np.arange(length)) / length
    waves = (a @ np.cos(angle) + b @ np.sin(angle)) / np.sqrt(cycles)
    # angles up to 2πJ are rounded, then sums of 2J terms of size about 2
    assert np.abs(v - waves).max() <= 2 * np.pi * cycles * EPS * 10 * np.sqrt(cycles)
    beyond = np.fft.rfft(v)[:, cycles + 1:]
    assert np.abs(beyond).max(initial=0) <= length * 10 * EPS
    assert np.abs(v.mean(axis=1)).max() <= 10 * EPS


def test_band_limited_variance_and_correlation():
    n, length, cycles = 20_000, 32, 5
    v = signals.band_limited(Stream(8), n, length, cycles)
    assert np.abs((v**2).mean(0) - 1).max() < 5 * np.sqrt(2 / n)
    for m in (1, 4, 9):
        rho = np.cos(2 * np.pi * np.arange(1, cycles + 1) * m / length).mean()
        spread = 5 * np.sqrt((1 + rho**2) / n)
        assert np.abs((v[:, m:] * v[:, :-m]).mean(0) - rho).max() < spread


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(8, 60), st.data())
def test_delay_is_solved_by_a_queue(seed, length, data):
    lag = data.draw(st.integers(0, length - 1))
    u, y, scored = signals.delay(Stream(seed), 3, length=length, lag=lag, cycles=3)
    queue, answers = [0.0] * lag, []
    for sample in u[0, :, 0].tolist():
        queue.append(sample)
        answers.append(queue.pop(0))
    assert y[0, :, 0].tolist() == answers
    assert scored.tolist() == [[k >= lag for k in range(length)]] * 3


@pytest.mark.parametrize("length", [8, 30, 64])
def test_reconstruct_is_solved_by_a_list(length):
    u, y, scored = signals.reconstruct(Stream(9), 5, length=length, cycles=1)
    half = length // 2
    assert np.array_equal(u[:, :half], y[:, half:])
    assert not u[:, half:].any() and not y[:, :half].any()
    assert scored[:, half:].all() and not scored[:, :half].any()


def test_reconstruct_chance():
    _, y, scored = signals.reconstruct(Stream(10), 500, length=128, cycles=8)
    assert abs(np.mean(y[scored].astype(float) ** 2) - 1) < 5 / np.sqrt(8 * 500)


def mackey_glass_oracle(past, steps, h):
    """The bilinear rule for all of the equation, one step at a time."""
    x = list(past)
    m = len(past) - 1
    for _ in range(steps):
        production = [0.2 * z / (1 + z**10) for z in (x[-1 - m], x[-m])]
        x.append(((1 - 0.05 * h) * x[-1] + h / 2 * sum(production)) / (1 + 0.05 * h))
    return np.array(x[m + 1:])


@pytest.mark.parametrize("m, steps", [(1, 9), (17, 5), (17, 17), (17, 100), (3, 0)])
def test_mackey_glass_path_is_the_bilinear_rule(m, steps):
    past = 0.8 + 0.5 * Stream(m).uniform(m + 1, 2)
    path = signals.mackey_glass_path(past, steps, 0.5)
    assert path.shape == (steps, 2)
    for column in range(2):
        expected = mackey_glass_oracle(past[:, column], steps, 0.5)
        # |f'| ≤ 0.41: a rounding grows 1 + 8.5·0.41 times a delay, 6 delays
        assert np.abs(path[:, column] - expected).max(initial=0) <= 1e4 * EPS


def test_mackey_glass_path_in_two_pieces():
    past = 0.8 + 0.5 * Stream(1).uniform(18, 3)
    whole = signals.mackey_glass_path(past, 90, 1.0)
    first = signals.mackey_glass_path(past, 37, 1.0)
    second = signals.mackey_glass_path(np.concatenate([past, first])[-18:], 53, 1.0)
    assert np.array_equal(np.concatenate([first, second]), whole)


def test_mackey_glass_path_is_of_second_order():
    def end(s):
        past = np.full((17 * s + 1, 1), 1.2)
        return signals.mackey_glass_path(past, 40 * s, 1 / s)[-1, 0]
    change = np.abs(np.diff([end(s) for s in (16, 32, 64, 128)]))
    assert np.abs(change[:-1] / change[1:] - 4).max() < 0.05


def test_mackey_glass_answers_are_what_comes():
    u, y, scored = signals.mackey_glass(Stream(2), 3, length=120, ahead=15, washout=30)
    assert np.array_equal(y[:, :-15], u[:, 15:]) and scored.all()
    start = 1.1 + 0.2 * Stream(2).uniform(3)
    path = signals.mackey_glass_path(np.tile(start, (171, 1)), 1650, 0.1)
    assert np.array_equal(u[:, :, 0], (path[309:1509:10] - 1).T.astype(np.float32))


def test_mackey_glass_future_is_in_its_past():
    u, y, _ = signals.mackey_glass(Stream(3), 4, length=200, ahead=15, substeps=1)
    past = u[:, 100:118, 0].T.astype(float) + 1
    onward = signals.mackey_glass_path(past, 15, 1.0)[-1] - 1
    # one delay: |f'| ≤ 0.41 for 15 days amplifies single precision by 7 at most
    assert np.abs(onward - y[:, 117, 0]).max() <= 8 * 2.0**-24


def test_mackey_glass_series_differ():
    u = signals.mackey_glass(Stream(4), 4, length=1000).u[..., 0]
    assert np.abs(np.corrcoef(u) - np.eye(4)).max() < 0.9
    assert np.all((-1 < u) & (u < 1)) and np.all(u.std(axis=1) > 0.1)
