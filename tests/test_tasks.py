"""Tasks: splits that are fixed and disjoint, batches that can be repeated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import datasets, rivals, tasks
from annotated_ssm.splits import Windows


def small_split(n=10, length=4, **extra):
    u = np.arange(n * length, dtype=np.float32).reshape(n, length, 1)
    return tasks.Split(u, np.arange(n, dtype=np.int32), **extra)


@pytest.fixture(scope="module")
def digits():
    return tasks.get("digits")


def test_digits_are_what_the_description_says(digits):
    assert digits.name == "digits" and digits.metric == "accuracy"
    assert (digits.length, digits.features, digits.classes) == (64, 1, 10)
    for split, n in ((digits.train, 1257), (digits.validation, 180),
                     (digits.test, 360)):
        assert split.u.shape == (n, 64, 1) and split.u.dtype == np.float32
        assert split.y.shape == (n,) and split.y.dtype == np.int32
        assert split.mask is None and split.steps is None
        assert split.u.min() == 0 and split.u.max() == 1
    assert np.bincount(digits.validation.y).tolist() == [18] * 10
    assert np.bincount(digits.test.y).tolist() == [36] * 10
    assert np.bincount(digits.train.y).tolist() == [
        124, 128, 123, 129, 127, 128, 127, 125, 120, 126]


def test_digits_splits_are_disjoint_and_complete(digits):
    images, labels = datasets.load_digits()
    index = np.concatenate(tasks.stratified(labels, (18, 36)))
    assert np.array_equal(np.sort(index), np.arange(1797))
    whole = np.concatenate(
        [s.u for s in (digits.validation, digits.test, digits.train)])
    assert np.array_equal(whole * 16, images.reshape(-1, 64, 1)[index])
    answers = np.concatenate(
        [s.y for s in (digits.validation, digits.test, digits.train)])
    assert np.array_equal(answers, labels[index])


def test_digits_split_never_changes():
    # Written down: a test set that moves is no test set.
    _, labels = datasets.load_digits()
    sets = tasks.stratified(labels, (18, 36))
    assert [datasets.sha256(s.astype("<i4").tobytes())[:16] for s in sets] == [
        "9da3f5b66c5827ed", "e87fb88c29c704c0", "a0e0fa9f2eb14c33"]
    assert sets[1][:8].tolist() == [10, 14, 16, 28, 29, 33, 39, 50]


def test_pixels_are_read_row_by_row():
    images = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    u = tasks.pixel_sequences(images, 4)
    assert u[0, :, 0].tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert u.shape == (2, 6, 1) and u.dtype == np.float32


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(0, 50), st.integers(0, 2**40), st.integers(0, 1000))
def test_shuffled_is_a_permutation(n, seed, epoch):
    order = tasks.shuffled(n, seed, epoch)
    assert np.array_equal(np.sort(order), np.arange(n))
    assert np.array_equal(order, tasks.shuffled(n, seed, epoch))


def test_shuffled_never_changes():
    assert tasks.shuffled(10, 0).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]


def test_more_seeds_are_other_seeds():
    """Not as in one list of entropy, where zeros at its end make no difference."""
    seeds = [(5,), (5, 0), (5, 0, 0), (5, 1), (0, 5), (0,), (0, 0), (5, 0, 1), (1, 5)]
    assert len({tuple(tasks.shuffled(50, *seed)) for seed in seeds}) == len(seeds)
    for seed in (0, 5, 2**33):
        bits = np.random.PCG64(np.random.SeedSequence([seed])).random_raw(50)
        assert np.array_equal(tasks.shuffled(50, seed), np.argsort(bits))


def test_shuffled_is_uniform():
    counts = np.zeros((4, 4))
    for seed in range(4000):
        counts[np.arange(4), tasks.shuffled(4, seed)] += 1
    # Each cell is binomial(4000, 1/4), standard deviation 27.4.
    assert np.abs(counts - 1000).max() < 4.5 * 27.4


@settings(derandomize=True, deadline=None, max_examples=40)
@given(n=st.integers(0, 40), batch_size=st.integers(1, 45),
       seed=st.integers(0, 9), epoch=st.integers(0, 9),
       shuffle=st.booleans(), drop_last=st.booleans())
def test_every_example_once(n, batch_size, seed, epoch, shuffle, drop_last):
    if drop_last and batch_size > n:
        return
    split = small_split(n)
    got = list(tasks.batches(split, batch_size, seed=seed, epoch=epoch,
                             shuffle=shuffle, drop_last=drop_last))
    sizes = [len(batch) for batch in got]
    seen = np.concatenate([b.y for b in got]) if got else np.zeros(0, int)
    left = n % batch_size if drop_last else 0
    assert len(seen) == len(set(seen.tolist())) == n - left
    assert all(size == batch_size for size in sizes[:-1])
    assert not drop_last or all(size == batch_size for size in sizes)
    if not shuffle:
        assert np.array_equal(seen, np.arange(n - left))
    for batch in got:  # inputs stay with their targets
        assert np.array_equal(batch.u[:, 0, 0], 4 * batch.y)


def test_batches_are_a_function_of_seed_and_epoch():
    split = small_split(40)

    def order(seed, epoch):
        return np.concatenate([b.y for b in tasks.batches(
            split, 7, seed=seed, epoch=epoch)]).tolist()

    assert order(0, 0) == order(0, 0)
    different = {tuple(order(s, e)) for s in range(3) for e in range(3)}
    assert len(different) == 9


def test_batches_resume():
    split = small_split(23)
    whole = list(tasks.batches(split, 5, seed=1, epoch=2))
    for start in range(6):
        rest = list(tasks.batches(split, 5, seed=1, epoch=2, start=start))
        assert [b.y.tolist() for b in rest] == [
            b.y.tolist() for b in whole[start:]]


def test_batches_carry_mask_and_steps():
    n, length = 6, 4
    mask = np.arange(length) < np.arange(1, n + 1)[:, None]
    steps = np.arange(n * length, dtype=np.float32).reshape(n, length)
    split = small_split(n, length, mask=mask, steps=steps)
    for batch in tasks.batches(split, 4, seed=0, epoch=0):
        assert np.array_equal(batch.mask, mask[batch.y])
        assert np.array_equal(batch.steps, steps[batch.y])


def test_permutation_is_one_and_the_same(digits):
    permuted = tasks.get("digits", permutation=5)
    assert permuted.name == "digits-permuted-5"
    order = tasks.shuffled(64, 5)
    for name in ("train", "validation", "test"):
        before, after = getattr(digits, name), getattr(permuted, name)
        assert np.array_equal(after.u, before.u[:, order])
        assert np.array_equal(after.y, before.y)


def test_stratified_is_stratified():
    labels = np.repeat([0, 1, 2], [5, 7, 9])
    a, b, rest = tasks.stratified(labels, (2, 3), seed=4)
    assert np.bincount(labels[a]).tolist() == [2, 2, 2]
    assert np.bincount(labels[b]).tolist() == [3, 3, 3]
    assert np.bincount(labels[rest]).tolist() == [0, 2, 4][:3]
    assert np.array_equal(np.sort(np.concatenate([a, b, rest])), np.arange(21))


def test_baselines_on_points_whose_answer_is_known():
    # Two classes on a line, three examples against two.
    u = np.array([0, 1, 2, 8, 9], np.float32).reshape(5, 1, 1)
    train = tasks.Split(u, np.array([3, 3, 3, 7, 7], np.int32))
    ask = np.array([-5, 4, 5.5, 20], np.float32).reshape(4, 1, 1)
    assert rivals.majority_class(train, ask).tolist() == [3, 3, 3, 3]
    # The means are 1 and 8.5: the border is at 4.75.
    assert rivals.nearest_centroid(train, ask).tolist() == [3, 3, 7, 7]
    assert rivals.linear_classifier(train, ask).tolist() == [3, 3, 7, 7]


def test_linear_classifier_agrees_with_scikit_learn(digits):
    from sklearn.linear_model import RidgeClassifier
    x, ask = digits.train.u[..., 0], digits.validation.u[..., 0]
    expected = RidgeClassifier(alpha=1.0).fit(x, digits.train.y).predict(ask)
    got = rivals.linear_classifier(digits.train, digits.validation.u)
    assert np.array_equal(got, expected)


def test_nearest_centroid_agrees_with_scikit_learn(digits):
    from sklearn.neighbors import NearestCentroid
    x, ask = digits.train.u[..., 0], digits.validation.u[..., 0]
    expected = NearestCentroid().fit(x, digits.train.y).predict(ask)
    got = rivals.nearest_centroid(digits.train, digits.validation.u)
    assert np.array_equal(got, expected)


def test_baselines_do_not_see_the_order_of_samples(digits):
    permuted = tasks.permute(digits, 1)
    for split in ("validation", "test"):
        assert tasks.baseline_accuracies(digits, split) == \
            tasks.baseline_accuracies(permuted, split)


def test_baseline_accuracies_on_digits(digits):
    got = tasks.baseline_accuracies(digits)
    assert got == {"majority class": 0.1, "nearest centroid": 154 / 180,
                   "linear": 162 / 180}


# Other kinds of answers

def test_a_task_of_tokens():
    text = np.arange(401) % 7
    parts = [Windows(text[a:b], 10) for a, b in ((0, 201), (200, 301), (300, 401))]
    task = tasks.Task("text", *parts, 7, 7, 10, "perplexity", "", kind="tokens",
                      vocabulary=7)
    got = list(tasks.batches(task.train, 6, seed=0, epoch=0))
    assert [len(batch) for batch in got] == [6, 6, 6, 2]
    starts = np.sort(np.concatenate([batch.u[:, 0] for batch in got]))
    assert np.array_equal(starts, np.sort(text[:200:10]))
    for batch in got:
        assert np.array_equal(batch.y, (batch.u + 1) % 7)
    score = tasks.baseline_scores(task)["unigram"]
    assert set(score) == {"loss", "accuracy", "perplexity"}
    assert tasks.baseline_accuracies(task) == {"unigram": score["accuracy"]}


def test_baselines_of_texts_are_given_bags():
    """Class 1 has more of token 2, wherever it stands."""
    u = np.array([[0, 2, 1, 2], [2, 2, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1]] * 5)
    split = tasks.Split(u, np.array([1, 1, 0, 0] * 5, np.int32))
    task = tasks.Task("bags", split, split, split, 3, 2, 4, "accuracy", "",
                      vocabulary=3)
    assert tasks.baseline_accuracies(task) == {
        "majority class": 0.5, "nearest centroid": 1.0, "linear": 1.0}


def test_a_task_of_numbers():
    wave = np.sin(0.3 * np.arange(600))[:, None]
    parts = [Windows(wave[a:b], 20, stride=1, horizon=4)
             for a, b in ((0, 300), (300, 450), (450, 600))]
    task = tasks.Task("wave", *parts, 1, 1, 20, "mse", "", kind="regression")
    scores = tasks.baseline_scores(task, channels=(0,))
    assert set(scores) == {"mean", "ridge", "persistence"}
    assert scores["ridge"]["mse"] < 0.01 * scores["persistence"]["mse"]
    assert set(tasks.baseline_scores(task, "test")) == {"mean", "ridge"}


def test_options_reach_the_task():
    def named(data_dir=None, length=3, answer=0):
        split = tasks.Split(np.zeros((2, length, 1), np.float32),
                            np.full(2, answer, np.int32))
        return tasks.Task("named", split, split, split, 1, 9, length, "accuracy",
                          str(data_dir))

    tasks.TASKS["named"] = named
    try:
        task = tasks.get("named", "here", length=5, answer=7)
    finally:
        del tasks.TASKS["named"]
    assert (task.length, task.description) == (5, "here")
    assert task.test.y.tolist() == [7, 7]
