"""Models refuse unknown options and shapes that don't fit, by name."""

import functools

import numpy as np
import pytest
from flax import nnx

from annotated_ssm.interface import Identity
from annotated_ssm.layers import S5
from annotated_ssm.models import Backbone, SequenceClassifier, pool

U = np.zeros((2, 6, 3), np.float32)


def classifier(layer=Identity, **options):
    return SequenceClassifier(3, 2, 4, 2, layer, rngs=nnx.Rngs(0), **options)


@pytest.mark.parametrize("name", ["norm", "glu", "pool"])
def test_unknown_options(name):
    with pytest.raises(ValueError, match=f"{name} is 'group', one of '"):
        classifier(**{name: "group"})


def test_unknown_pooling():
    with pytest.raises(ValueError, match="pool is 'max', one of 'mean', 'last'"):
        pool(U, how="max")


def test_shape_of_u():
    model = classifier()
    with pytest.raises(ValueError, match=r"u has shape \(2, 6, 2\).*features = 3"):
        model(U[..., :2])
    with pytest.raises(ValueError, match=r"u has shape \(6, 3\)"):
        model(U[0])
    with pytest.raises(ValueError, match=r"\(batch, features\)"):
        model.step(U, model.init_state(2))


def test_one_state_a_block():
    stack = Backbone(3, 4, 2, Identity, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="states has 1 entries.*2 blocks"):
        stack(U, states=stack.init_state(2)[:1])


def test_bidirectional_does_not_stream():
    model = classifier(functools.partial(S5, P=4, bidirectional=True))
    with pytest.raises(ValueError, match="from both ends"):
        model.init_state(2)


@pytest.mark.parametrize("mask, words", [
    (np.ones(5, bool), r"mask has shape \(5,\); need \(6,\) or \(2, 6\)"),
    (np.ones((1, 6), bool), r"mask has shape \(1, 6\)"),
    (np.ones((2, 1), bool), r"mask has shape \(2, 1\)"),
    (np.ones(6, np.float32), "mask has dtype float32; need bool"),
    (np.arange(6) > 2, "mask has True after False"),
])
def test_masks_are_not_broadcast_before_they_are_checked(mask, words):
    for run in (classifier(), lambda u, mask: pool(u, mask, "last")):
        with pytest.raises(ValueError, match=words):
            run(U, mask=mask)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5, float("nan")])
def test_dropout_is_a_fraction(dropout):
    with pytest.raises(ValueError, match=f"dropout is {dropout}, a fraction"):
        classifier(dropout=dropout)


@pytest.mark.parametrize("name, position", [
    ("features", 0), ("classes", 1), ("H", 2), ("depth", 3)])
@pytest.mark.parametrize("size", [0, -1, 1.5, "2"])
def test_sizes_are_whole_numbers(name, position, size):
    sizes = [3, 2, 4, 2]
    sizes[position] = size
    with pytest.raises(ValueError, match=f"^{name} is {size!r}, a whole number"):
        SequenceClassifier(*sizes, Identity, rngs=nnx.Rngs(0))
