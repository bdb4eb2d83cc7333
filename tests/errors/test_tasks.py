"""What the task functions say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import tasks
from annotated_ssm.splits import Windows


def split(n=10, **extra):
    return tasks.Split(np.zeros((n, 4, 1), np.float32),
                       np.zeros(n, np.int32), **extra)


def test_unknown_task():
    with pytest.raises(ValueError, match="name is 'minst': there is digits, mnist"):
        tasks.get("minst")


@pytest.mark.parametrize("arguments, message", [
    (dict(batch_size=0), "batch_size is 0: it must be at least 1"),
    (dict(batch_size=2.5), "batch_size is 2.5: it must be .* a whole number"),
    (dict(batch_size=-3), "batch_size is -3: it must be at least 1"),
    (dict(batch_size=11, drop_last=True),
     "batch_size is 11: with drop_last it can be at most 10"),
    (dict(batch_size=5, start=3), "start is 3: the epoch has 2 batches"),
    (dict(batch_size=5, start=-1), "start is -1"),
    (dict(batch_size=5, epoch=-1), "epoch is -1: epochs are counted from 0"),
    (dict(batch_size=5, seed=-1), "seed is .*-1.*needs integers ≥ 0"),
])
def test_batches_at_the_call(arguments, message):
    # Without iterating: a generator would complain too late.
    with pytest.raises(ValueError, match=message):
        tasks.batches(split(), **({"seed": 0, "epoch": 0} | arguments))


def test_large_batch_without_drop_last_is_fine():
    assert [len(b) for b in tasks.batches(split(), 11, seed=0, epoch=0)] == [10]


@pytest.mark.parametrize("extra, message", [
    (dict(mask=np.ones((10, 3), bool)),
     r"mask has shape \(10, 3\): u needs \(10, 4\)"),
    (dict(mask=np.tile(np.arange(4) > 1, (10, 1))), "mask has True after False"),
    (dict(mask=np.ones((10, 4))), "mask .* is not bool"),
    (dict(steps=-np.ones((10, 4))), "steps has negative or infinite"),
    (dict(steps=np.full((10, 4), np.inf)), "steps has negative or infinite"),
    (dict(steps=np.full((10, 4), np.nan)), "steps has negative or infinite"),
    (dict(steps=np.array([[1, np.nan, 1, 1]] * 10),
          mask=np.tile(np.arange(4) < 2, (10, 1))), "steps has negative or infinite"),
    (dict(steps=np.ones((9, 4), np.float32)),
     r"steps has shape \(9, 4\): u needs \(10, 4\)"),
])
def test_split_shapes(extra, message):
    with pytest.raises(ValueError, match=message):
        split(**extra)


def test_steps_of_padding_are_not_looked_at():
    mask = np.tile(np.arange(4) < 2, (10, 1))
    assert len(split(steps=np.where(mask, 1.0, np.nan), mask=mask)) == 10


def test_split_targets():
    with pytest.raises(ValueError, match=r"y has shape \(3,\): u holds 10"):
        tasks.Split(np.zeros((10, 4, 1), np.float32), np.zeros(3, np.int32))


def test_permute_refuses_masks():
    masked = split(mask=np.ones((10, 4), bool))
    task = tasks.Task("padded", masked, masked, masked, 1, 2, 4, "accuracy", "")
    with pytest.raises(ValueError, match="task is 'padded', which has a mask"):
        tasks.permute(task, 0)


def test_permute_refuses_an_answer_for_each_sample():
    text = tasks.Split(np.zeros((3, 4), np.int32), np.zeros((3, 4), np.int32))
    task = tasks.Task("text", text, text, text, 5, 5, 4, "accuracy", "", "tokens", 5)
    with pytest.raises(ValueError, match="task is 'text', which has .* an answer"):
        tasks.permute(task, 0)


def test_stratified():
    with pytest.raises(ValueError, match=r"class 1 has 2 examples: .* need 3"):
        tasks.stratified(np.array([0, 0, 0, 1, 1]), (1, 2))
    with pytest.raises(ValueError, match="needs integers ≥ 0"):
        tasks.stratified(np.array([0, 0]), (-1,))


def test_baseline_split():
    task = tasks.get("digits")
    with pytest.raises(ValueError, match="split is 'train': validation or test"):
        tasks.baseline_accuracies(task, "train")


def test_split_needs_three_axes():
    with pytest.raises(ValueError, match=r"u has shape \(10, 4\): \(n, L, F\)"):
        tasks.Split(np.zeros((10, 4), np.float32), np.zeros(10, np.int32))


@pytest.mark.parametrize("y, message", [
    ([0, 1, 2, 3], "test has classes int64 from 0 to 3: integers from 0 to 2"),
    ([-1, 0, 1, 2], "test has classes int64 from -1 to 2"),
    ([0.0, 1.0, 2.0, 0.0], "test has classes float64"),
])
def test_a_class_that_the_task_does_not_have(y, message):
    good = split(4)
    bad = tasks.Split(good.u, np.array(y))
    with pytest.raises(ValueError, match=message):
        tasks.Task("x", good, good, bad, 1, 3, 4, "accuracy", "")


def test_an_option_that_a_task_does_not_have():
    with pytest.raises(ValueError, match="option is 'rate': digits takes permut"):
        tasks.get("digits", rate=0.5)


NUMBERS = tasks.Split(np.zeros((3, 4, 1), np.float32), np.zeros((3, 2), np.float32))
TEXT = tasks.Split(np.full((3, 4), 2), np.full((3, 4), 1))


@pytest.mark.parametrize("given, changes, message", [
    (TEXT, {"metric": "mse"}, "metric is 'mse': a tokens task needs one of accuracy"),
    (TEXT, {"kind": "text"}, "kind is 'text': one of classification, tokens, regr"),
    (TEXT, {"vocabulary": None}, "train has inputs int64: vocabulary says None"),
    (TEXT, {"vocabulary": 4}, "vocabulary is 4: features says 5"),
    (TEXT, {"features": 2, "vocabulary": 2}, "train has tokens int64 from 2 to 2"),
    (TEXT, {"classes": 1}, "train has classes int64 from 1 to 1: integers from 0 to 0"),
    (TEXT, {"length": 5}, "train has sequences of 4 samples: length says 5"),
    (TEXT, {"kind": "classification"}, r"answers of shape \(3, 4\): .* \(3,\)"),
    (NUMBERS, {"kind": "regression", "metric": "mse", "vocabulary": None,
               "features": 1}, r"answers of shape \(3, 2\): .* \(3, 5\) or \(3, 4, 5"),
    (NUMBERS, {}, "train has inputs float32: vocabulary says 5"),
    (tasks.Split(NUMBERS.u, np.full((3, 5), np.nan)),
     {"kind": "regression", "metric": "mse", "vocabulary": None, "features": 1},
     "train has answers float64, or some that are not finite"),
    (Windows(np.zeros((20, 1)), 4), {}, "train has inputs float64: vocabulary says 5"),
])
def test_a_task_that_does_not_fit_together(given, changes, message):
    settings = dict(features=5, classes=5, length=4, metric="accuracy",
                    description="", kind="tokens", vocabulary=5) | changes
    with pytest.raises(ValueError, match=message):
        tasks.Task("x", given, given, given, **settings)


def test_baseline_accuracies_of_numbers():
    task = tasks.Task("wave", NUMBERS, NUMBERS, NUMBERS, 1, 2, 4, "mse", "",
                      "regression")
    with pytest.raises(ValueError, match="task is 'wave', with numbers for answers"):
        tasks.baseline_accuracies(task)


def test_channels_of_a_task():
    with pytest.raises(ValueError, match="train has 1 channels: features says 2"):
        tasks.Task("x", *[split()] * 3, 2, 3, 4, "accuracy", "")
