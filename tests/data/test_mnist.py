"""The real MNIST, fetched over the network; run by `make test-data`."""

import numpy as np

from annotated_ssm import datasets, tasks

TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def check(data):
    assert data["train_images"].shape == (60_000, 28, 28)
    assert data["test_images"].shape == (10_000, 28, 28)
    assert all(array.dtype == np.uint8 for array in data.values())
    assert np.bincount(data["train_labels"]).tolist() == TRAIN
    assert np.bincount(data["test_labels"]).tolist() == TEST
    assert data["train_labels"][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data["test_labels"][:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert data["train_images"][0].sum() == 27_525
    assert abs(data["train_images"].mean() / 255 - 0.13066) < 5e-6


def test_fetched_once_and_for_all():
    check(datasets.load_mnist())
    check(datasets.load_mnist(download=False))


def test_fallback_gives_the_same_contents(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "MNIST_MIRRORS", (tmp_path.as_uri() + "/",))
    check(datasets.load_mnist(tmp_path / "cache"))


def test_task():
    task = tasks.get("mnist")
    assert [len(s) for s in (task.train, task.validation, task.test)] == [
        54_000, 6_000, 10_000]
    assert task.train.u.shape[1:] == (task.length, task.features) == (784, 1)
    assert np.bincount(task.validation.y).tolist() == [600] * 10
    assert np.bincount(task.test.y).tolist() == TEST
    assert tasks.baseline_accuracies(task)["linear"] > 0.83
