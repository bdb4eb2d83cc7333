"""What splits, windows, metrics and rivals say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import metrics, rivals
from annotated_ssm.splits import Split, Windows

TOKENS, CLASSES = np.zeros((3, 4), np.int32), np.zeros((3, 4), np.int32)
HALF = np.tile(np.arange(4) < 2, (3, 1))


@pytest.mark.parametrize("arguments, message", [
    (dict(u=np.zeros((3, 3, 4), np.int32)), r"u has shape \(3, 3, 4\): pairs of tok"),
    (dict(u=np.zeros(3, np.int32)), r"u has shape \(3,\): \(n, L, F\) is needed, or"),
    (dict(u=np.zeros((3, 2, 4), np.int32), mask=HALF), r"mask has shape \(3, 4\): "
     r"u needs \(3, 2, 4\)"),
    (dict(mask=np.zeros((3, 5), bool)), r"mask has shape \(3, 5\): u needs \(3, 4\)"),
    (dict(y=CLASSES[:2]), r"y has shape \(2, 4\): u holds 3 examples"),
    (dict(scored=HALF[:, :2]), r"scored has shape \(3, 2\), y \(3, 4\): both need"),
    (dict(scored=HALF, y=CLASSES[:, 0]), r"scored has shape \(3, 4\), y \(3,\)"),
    (dict(scored=~HALF, mask=HALF), "scored is True where mask is False"),
])
def test_split(arguments, message):
    with pytest.raises(ValueError, match=message):
        Split(**dict(u=TOKENS, y=CLASSES) | arguments)


SERIES, TEXT = np.zeros((20, 2)), np.zeros(20, np.int32)


@pytest.mark.parametrize("values, arguments, message", [
    (np.zeros(20), {}, r"values has shape \(20,\), float64: \(N,\) tokens or"),
    (np.zeros((20, 2), int), {}, r"values has shape \(20, 2\), int64"),
    (SERIES, dict(length=0), "length is 0: a whole number ≥ 1 is needed"),
    (SERIES, dict(length=None), "length is None: a whole number"),
    (SERIES, dict(stride=0), "stride is 0: a whole number"),
    (SERIES, dict(horizon=1.5), "horizon is 1.5: a whole number"),
    (SERIES, dict(horizon=5), "horizon is 5: a window of 5 samples has room for 4"),
    (SERIES, dict(length=20), "values has 20 samples: a window needs 21"),
    (SERIES, dict(length=21, horizon=2), "values has 20 samples: a window needs 21"),
    (SERIES, dict(horizon=2, targets=(2,)), r"targets, known are \(2,\), .* 0 to 1"),
    (SERIES, dict(horizon=2, known=(-1,)), "channels from 0 to 1 are needed"),
    (SERIES, dict(relative=True), "known and relative need a horizon"),
    (SERIES, dict(known=(1,)), "known and relative need a horizon"),
    (SERIES, dict(horizon=2, once=True), "once is for windows without a horizon"),
    (TEXT, dict(horizon=2), "values holds tokens: horizon, .* are for numbers"),
    (TEXT, dict(targets=(0,)), "values holds tokens"),
])
def test_windows(values, arguments, message):
    with pytest.raises(ValueError, match=message):
        Windows(values, **dict(length=5) | arguments)


def test_metric():
    with pytest.raises(ValueError, match="kind is 'x': one of classification, tok"):
        metrics.check_metric("x", "loss")
    with pytest.raises(ValueError, match="metric is 'mse': a tokens task needs one"):
        metrics.check_metric("tokens", "mse")


def test_nothing_to_score():
    nothing = Split(TOKENS, CLASSES, scored=np.zeros((3, 4), bool))
    with pytest.raises(ValueError, match="split has no answer that counts"):
        metrics.summary("tokens", {"count": 0.0, "loss": 0.0, "accuracy": 0.0})
    with pytest.raises(ValueError, match="examples has no answer that counts"):
        rivals.unigram(Split(TOKENS, CLASSES), nothing, 3)


def test_rivals_for_numbers():
    with pytest.raises(ValueError, match="examples has tokens: rivals for numbers"):
        rivals.forecasters(Split(TOKENS, np.zeros((3, 1))))
    uneven = np.arange(4) >= np.array([1, 2, 3])[:, None]
    u, y = np.zeros((3, 4, 1)), np.zeros((3, 4, 1))
    with pytest.raises(ValueError, match="examples has no common horizon"):
        rivals.forecasters(Split(u, y, scored=uneven))
    with pytest.raises(ValueError, match="examples has no common horizon"):
        rivals.forecasters(Split(u, y, scored=np.ones((3, 4), bool)))
