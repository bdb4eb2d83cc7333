"""What the Pathfinder functions say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import pathfinder as p
from annotated_ssm.generators import Stream


@pytest.mark.parametrize("make", [p.pathfinder, p.stored])
@pytest.mark.parametrize("arguments, message", [
    (dict(n=3, size=48), "size is 48; need one of 16, 32, 64, 128, 256"),
    (dict(n=3, size="32"), "size is '32'; need one of 16"),
    (dict(n=-1, size=16), "n is -1; need a whole number ≥ 0"),
    (dict(n=2.5, size=16), "n is 2.5; need a whole number ≥ 0"),
    (dict(n=1, size=16, start=-4), "start is -4; need a whole number ≥ 0"),
    (dict(n=1, size=16, seed=-2), "seed is -2; need a whole number ≥ 0"),
])
def test_arguments(make, arguments, message, tmp_path, monkeypatch):
    monkeypatch.setenv("ANNOTATED_SSM_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=message):
        make(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_block(tmp_path):
    with pytest.raises(ValueError, match="block is 0; need a whole number ≥ 1"):
        p.stored(1, 16, directory=tmp_path, block=0)


@pytest.mark.parametrize("changes", [
    dict(distance=40), dict(count=60), dict(padding=8), dict(band=8)])
def test_rules_without_room(changes, monkeypatch):
    monkeypatch.setattr(p, "RESTARTS", 3)
    rules = p.SIZES[16]._replace(**changes)
    with pytest.raises(ValueError, match="rules is .* need room for two snakes: "
                                         "none was found in 3 tries"):
        p.draw(rules, Stream(0))


@pytest.mark.parametrize("damage", [
    lambda data: data[:200], lambda data: b"", lambda data: b"not a zip file",
    lambda data: data[:len(data) // 2] + bytes(30) + data[len(data) // 2 + 30:],
    lambda data: data[:120] + bytes(40) + data[160:]])
def test_damaged_file(damage, tmp_path):
    options = dict(directory=tmp_path, block=2)
    p.stored(2, 16, **options)
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{path.name} can't be read .*; delete it"):
        p.stored(2, 16, **options)
    path.unlink()
    assert len(p.stored(2, 16, **options).labels) == 2


@pytest.mark.parametrize("lacking", ["labels", "owners"])
def test_a_file_that_lacks_something(lacking, tmp_path):
    p.stored(1, 16, directory=tmp_path, block=1)
    (path,) = tmp_path.rglob("*.npz")
    arrays = dict(np.load(path))
    del arrays[lacking]
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=f"can't be read .*{lacking}"):
        p.stored(1, 16, directory=tmp_path, block=1)


def test_a_file_that_holds_something_else(tmp_path):
    p.stored(2, 16, directory=tmp_path, block=2)
    (path,) = tmp_path.rglob("*.npz")
    arrays = dict(np.load(path))
    np.savez(path, **arrays | {"images": arrays["images"][:1]})
    with pytest.raises(ValueError, match=r"images of shape \(1, 16, 16\); need "
                                         r"\(2, 16, 16\): delete it"):
        p.stored(2, 16, directory=tmp_path, block=2)
