"""Examples of every kind, windows, metrics, and rivals without memory."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import metrics, rivals
from annotated_ssm.splits import Examples, Split, Windows


@pytest.mark.parametrize("shape", [(6, 5), (6, 2, 5)])
def test_take_takes_every_field(shape):
    rng = np.random.default_rng(0)
    u = rng.integers(0, 9, shape)
    mask = np.broadcast_to(np.arange(5) < 4, shape)
    extra = dict(y=rng.integers(0, 9, (6, 5)), scored=np.tile(np.arange(5) < 2, (6, 1))
                 ) if len(shape) == 2 else dict(y=rng.integers(0, 2, 6))
    split = Split(u, mask=mask, steps=rng.uniform(size=shape), **extra)
    some, index = split.take([4, 1]), [4, 1]
    assert (len(some), some.length) == (2, 5)
    for name in ("u", "y", "mask", "steps", "scored"):
        value = getattr(split, name)
        if value is not None:
            assert np.array_equal(getattr(some, name), value[index])


def test_which_answers_count():
    u, mask = np.zeros((2, 3, 1), np.float32), np.array([[True] * 3, [True, False, False]])
    scored = np.array([[False, True, True], [True, False, False]])
    per_sample = np.zeros((2, 3), np.int32)
    assert Split(u, per_sample).counted() is None
    assert np.array_equal(Split(u, per_sample, mask).counted(), mask)
    assert np.array_equal(Split(u, per_sample, mask, scored=scored).counted(), scored)
    numbers = np.zeros((2, 3, 4), np.float32)
    assert np.array_equal(Split(u, numbers, mask).counted(), mask)
    for whole in (np.zeros(2, np.int32), np.zeros((2, 4), np.float32)):
        assert Split(u, whole, mask).counted() is None


@settings(derandomize=True, deadline=None, max_examples=60)
@given(N=st.integers(2, 60), length=st.integers(1, 20), stride=st.integers(1, 25))
def test_every_token_but_the_first_is_asked_once(N, length, stride):
    if N < length + 1:
        return
    stride = min(stride, length)
    windows = Windows(np.arange(N), length, stride, once=True)
    every = windows.take(np.arange(len(windows)))
    assert np.array_equal(every.y, every.u + 1)
    assert np.array_equal(np.sort(every.y[every.scored]), np.arange(1, N))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(N=st.integers(3, 60), length=st.integers(2, 20), stride=st.integers(1, 25),
       horizon=st.integers(1, 19))
def test_forecasts(N, length, stride, horizon):
    if N < length or horizon >= length:
        return
    series = np.arange(2.0 * N).reshape(N, 2) + 1
    windows = Windows(series, length, stride, horizon)
    assert (len(windows) - 1) * stride < N - length + stride
    for i in range(len(windows)):
        first = min(i * stride, N - length)
        one = windows.take([i])
        seen = length - horizon
        assert np.array_equal(one.u[0, :seen], series[first:first + seen])
        assert (one.u[0, seen:] == 0).all()
        assert np.array_equal(one.y[0], series[first:first + length])
        assert one.scored[0].tolist() == [False] * seen + [True] * horizon
    assert first == N - length      # the last window ends with the series


def test_windows_leave_the_series_alone():
    series = np.random.default_rng(0).normal(size=(30, 2))
    before = series.copy()
    Windows(series, 10, horizon=3, relative=True).take(np.arange(3))
    assert np.array_equal(series, before)
    assert isinstance(Windows(series, 10), Examples)


def test_relative_windows_do_not_see_the_level():
    series = np.random.default_rng(0).integers(0, 9, (30, 2)).astype(float)
    one, other = (Windows(series + level, 10, 5, horizon=3, known=(1,), targets=(0,),
                          relative=True).take(np.arange(5)) for level in (0, 100))
    assert np.array_equal(one.u[..., 0], other.u[..., 0])
    assert np.array_equal(one.y, other.y)
    assert np.array_equal(one.u[..., 1] + 100, other.u[..., 1])


# Metrics

def test_loss_of_tokens_agrees_with_optax():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4, 6, 5)).astype(np.float32)
    y, counted = rng.integers(0, 5, (4, 6)), rng.random((4, 6)) < 0.5
    each = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    np.testing.assert_allclose(metrics.loss("tokens", logits, y, counted),
                               each[counted].mean(), rtol=1e-6)
    score = metrics.summary("tokens", metrics.sums("tokens", logits, y, counted))
    np.testing.assert_allclose(score["loss"], each[counted].mean(), rtol=1e-6)
    np.testing.assert_allclose(score["perplexity"], np.exp(score["loss"]))
    assert score["accuracy"] == pytest.approx(
        (logits.argmax(-1) == y)[counted].mean(), rel=1e-6)


def test_metrics_of_numbers():
    rng = np.random.default_rng(0)
    out, y = rng.normal(size=(2, 4, 6, 3)).astype(np.float32)
    counted = rng.random((4, 6)) < 0.5
    score = metrics.summary("regression", metrics.sums("regression", out, y, counted))
    error = (out - y)[counted].astype(float)
    np.testing.assert_allclose(score["mse"], (error**2).mean(), rtol=1e-6)
    np.testing.assert_allclose(score["mae"], abs(error).mean(), rtol=1e-6)
    assert score["loss"] == score["mse"] and list(score) == ["loss", "mse", "mae"]
    np.testing.assert_allclose(metrics.loss("regression", out, y, counted),
                               score["loss"], rtol=1e-6)


@pytest.mark.parametrize("kind", ["tokens", "regression"])
def test_answers_that_do_not_count_have_no_influence(kind):
    rng = np.random.default_rng(0)
    out = jnp.asarray(rng.normal(size=(3, 4, 5)), jnp.float32)
    counted = np.arange(4) < np.array([4, 1, 0])[:, None]
    y = rng.integers(0, 5, (3, 4)) if kind == "tokens" else rng.normal(size=(3, 4, 5))
    bad = y.copy()
    bad[~counted] = -1 if kind == "tokens" else np.nan
    f = jax.value_and_grad(lambda o, y: metrics.loss(kind, o, y, counted))
    (one, slope), (other, slope_bad) = f(out, y), f(out, bad)
    assert one == other and np.array_equal(slope, slope_bad)
    assert (np.asarray(slope)[~counted] == 0).all()
    assert metrics.sums(kind, out, y, counted) == metrics.sums(kind, out, bad, counted)


def test_no_answer_no_loss():
    nothing = np.zeros((2, 3), bool)
    y = np.zeros((2, 3), np.int32)
    assert metrics.loss("tokens", jnp.ones((2, 3, 4)), y, nothing) == 0


# Rivals

def test_ridge_agrees_with_scikit_learn():
    from sklearn.linear_model import Ridge
    rng = np.random.default_rng(0)
    train, ask = (Split(rng.normal(size=(n, 7, 2)), rng.normal(size=(n, 3)))
                  for n in (300, 50))
    rule = rivals.forecasters(train, ridge=2.0)["ridge"]
    x, _, _ = rivals._questions(ask)
    expected = Ridge(alpha=2.0).fit(train.u.reshape(300, 14), train.y).predict(x)
    np.testing.assert_allclose(rule(x, None), expected, atol=1e-10)


def test_forecasters_see_what_is_known_and_nothing_else():
    rng = np.random.default_rng(0)
    series = rng.normal(size=(200, 2)).cumsum(axis=0)
    windows = Windows(series, 12, stride=1, horizon=3, targets=(1,))
    scores = rivals.forecast_scores(
        rivals.forecasters(windows, channels=(1,)), windows)
    starts = np.arange(189)
    steps = series[starts[:, None] + np.arange(9, 12), 1] - series[starts + 8, 1, None]
    np.testing.assert_allclose(scores["persistence"]["mse"], (steps**2).mean())
    np.testing.assert_allclose(scores["persistence"]["mae"], abs(steps).mean())
    assert scores["ridge"]["mse"] < scores["persistence"]["mse"] < scores["mean"]["mse"]


def test_rivals_of_an_answer_at_every_sample():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(20, 6, 2))
    mask = np.tile(np.arange(6) < 4, (20, 1))
    y = np.where(mask[..., None], 3 * u[..., :1] - u[..., 1:] + 2, np.nan)
    split = Split(u, y, mask)
    scores = rivals.forecast_scores(rivals.forecasters(split, (0,), 1e-9), split)
    assert scores["ridge"]["mse"] < 1e-15
    seen = y[mask]
    np.testing.assert_allclose(scores["mean"]["mse"], seen.var())
    np.testing.assert_allclose(scores["persistence"]["mse"],
                               ((seen - u[mask][:, :1])**2).mean())


def test_unigram_by_hand():
    train = Split(np.zeros((1, 4), np.int32), np.array([[0, 0, 1, -1]]),
                  scored=np.array([[True, True, True, False]]))
    asked = Split(np.zeros((1, 2), np.int32), np.array([[0, 2]]))
    score = rivals.unigram(train, asked, 3)
    p = np.array([3, 2, 1]) / 6
    np.testing.assert_allclose(score["loss"], -np.log(p[[0, 2]]).mean())
    np.testing.assert_allclose(score["perplexity"], 1 / np.sqrt(p[0] * p[2]))
    assert score["accuracy"] == 0.5
