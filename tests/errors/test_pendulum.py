"""What the pendulum functions say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import pendulum as p


@pytest.mark.parametrize("make", [p.pendulum, p.stored])
@pytest.mark.parametrize("arguments, message", [
    (dict(n_train=-1), "n_train is -1; need a whole number ≥ 0"),
    (dict(n_validation=1.5), "n_validation is 1.5; need a whole number ≥ 0"),
    (dict(n_test="3"), "n_test is 3; need a whole number ≥ 0"),
    (dict(seed=-7), "seed is -7; need a whole number ≥ 0"),
])
def test_arguments(make, arguments, message, tmp_path, monkeypatch):
    monkeypatch.setenv("ANNOTATED_SSM_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=message):
        make(**dict(n_train=1, n_validation=1, n_test=1) | arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [p.sequences, p.interpolation])
@pytest.mark.parametrize("arguments, message", [
    ((-2, 0), "n is -2; need a whole number ≥ 0"),
    ((2,), r"seed is \(\)"),
    ((2, -1), r"seed is \(-1,\)"),
])
def test_films(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(*arguments)


@pytest.mark.parametrize("changes, message", [
    (dict(frames=0), "frames is 0; need a whole number ≥ 1"),
    (dict(spacing=0.0), "spacing is 0.0; need a number of seconds > 0"),
    (dict(spacing=float("nan")), "spacing is nan; need a number of seconds > 0"),
    (dict(h=-1e-4), "h is -0.0001; need a number of seconds > 0"),
])
def test_simulation(changes, message):
    with pytest.raises(ValueError, match=message):
        p.simulate(np.zeros(2), p.Stream(0), **changes)


@pytest.mark.parametrize("factors", [
    np.ones((2, 49)), np.ones((3, 50)), np.full((2, 50), 1.5), np.full((2, 50), -0.1),
    np.full((2, 50), np.nan)])
def test_remix(factors):
    clean = np.zeros((2, 50, 576), np.uint8)
    with pytest.raises(ValueError, match=r"factors has .*; need (\(2, 50\)|0 to 1)"):
        p.remix(clean, factors, 0)


@pytest.mark.parametrize("damage", [
    lambda data: data[:300], lambda data: b"", lambda data: b"not a zip file",
    lambda data: data[:len(data) // 2] + bytes(30) + data[len(data) // 2 + 30:],
    lambda data: data[:200] + bytes(60) + data[260:]])
def test_damaged_file(damage, tmp_path):
    p.stored(1, 1, 1, directory=tmp_path)
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{path.name} can't be read .*; delete it"):
        p.stored(1, 1, 1, directory=tmp_path)


def test_a_file_that_lacks_something(tmp_path):
    p.stored(1, 1, 1, directory=tmp_path)
    (path,) = tmp_path.rglob("*.npz")
    arrays = dict(np.load(path))
    del arrays["test_times"]
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="can't be read .*test_times"):
        p.stored(1, 1, 1, directory=tmp_path)
