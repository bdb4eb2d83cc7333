"""The directory of a run: what is kept, and what is put right."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.checkpoints import Checkpoints


def tree(seed):
    rng = np.random.default_rng(seed)
    return {"key": jax.random.key(seed),
            "keys": jax.random.split(jax.random.key(seed, impl="rbg"), 3),
            "half": jnp.asarray(rng.normal(size=4), jnp.bfloat16),
            "nested": [jnp.asarray(rng.normal(size=(2, 3)), jnp.float32),
                       jnp.int32(seed), jnp.zeros((0, 2))]}


def raw(tree):
    return [np.asarray(jax.random.key_data(leaf)
                       if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
            for leaf in jax.tree.leaves(tree)]


@pytest.fixture
def keeper(tmp_path):
    keeper = Checkpoints(tmp_path / "run", {"seed": 1})
    yield keeper
    keeper.close()


def test_everything_comes_back_to_the_bit(keeper):
    saved, numbers = tree(1), {"third": 1 / 3, "none": None, "list": [0.1, -0.0]}
    keeper.save(3, saved, numbers)
    restored, read = keeper.restore(tree(2))
    assert read == numbers and str(read["list"]) == str(numbers["list"])
    for a, b in zip(raw(restored), raw(saved), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    assert jax.tree.map(lambda x: x.dtype, restored) == \
        jax.tree.map(lambda x: x.dtype, saved)


def test_nothing_saved_nothing_restored(keeper):
    assert keeper.restore(tree(0)) is None


def test_only_the_newest_is_kept_and_what_is_half_written_goes(keeper):
    for steps in (1, 2, 5):
        keeper.save(steps, tree(steps), {})
    folder = keeper.directory / "checkpoints"
    assert [p.name for p in folder.iterdir()] == ["5"]
    half = folder / "7.orbax-checkpoint-tmp"
    (half / "arrays").mkdir(parents=True)
    again = Checkpoints(keeper.directory, {"seed": 1})
    assert [p.name for p in folder.iterdir()] == ["5"]     # before it does anything
    assert again.restore(tree(0))[0]["nested"][1] == 5
    again.close()


def test_due(tmp_path):
    for seconds, due in ((0.0, True), (1e9, False)):
        keeper = Checkpoints(tmp_path / str(seconds), {}, seconds=seconds)
        assert keeper.due() == due
        keeper.close()


HISTORY = {"epoch": [0, 1, 2], "loss": [0.1 + 0.2, float("inf"), float("nan")]}
LINES = [{"epoch": 0, "loss": 0.1 + 0.2}, {"epoch": 1, "loss": None},
         {"epoch": 2, "loss": None}]


@pytest.mark.parametrize("change", [
    lambda path: None, lambda path: path.unlink(),
    lambda path: path.write_bytes(path.read_bytes()[:-3]),
    lambda path: path.write_bytes(path.read_bytes()[:4]),
    lambda path: path.write_bytes(path.read_bytes() * 2),
    lambda path: path.write_text("something else\n")])
def test_a_line_an_epoch_whatever_has_happened(keeper, change):
    path = keeper.directory / "metrics.jsonl"
    keeper.write_history({name: values[:2] for name, values in HISTORY.items()})
    change(path)
    keeper.write_history(HISTORY)
    assert [json.loads(line) for line in path.read_text().splitlines()] == LINES
