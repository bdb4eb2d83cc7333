"""Steps and samples turned around within the valid prefix, against loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm.sequences import (backward_steps, check_mask, check_rate,
                                     check_steps, reverse_prefix)

few = settings(derandomize=True, deadline=None, max_examples=20)


@st.composite
def batches(draw):
    """Rows of numbers that all differ, and a length from 0 to L for each."""
    L, rows = draw(st.integers(0, 5)), 2    # few shapes: each is compiled
    lengths = draw(st.lists(st.integers(0, L), min_size=rows, max_size=rows))
    z = np.arange(rows * L, dtype=np.float32).reshape(rows, L) + 1
    return z, np.array(lengths, np.int32)


def rolled_naive(steps, length):
    """What each sample of one row finds when it is reached from the next one."""
    out = steps.copy()
    for k in range(length):
        out[k] = steps[k + 1] if k + 1 < length else steps[0]
    return out


def reversed_naive(z, length):
    out = z.copy()
    for k in range(length):
        out[k] = z[length - 1 - k]
    return out


@few
@given(batches())
def test_both_are_the_loops(batch):
    z, lengths = batch
    rows = list(zip(z, lengths))
    np.testing.assert_array_equal(
        backward_steps(z, lengths),
        np.reshape([rolled_naive(*row) for row in rows], z.shape))
    pairs = np.stack([z, -z], -1)
    np.testing.assert_array_equal(
        reverse_prefix(pairs, lengths),
        np.reshape([reversed_naive(p, n) for p, n in zip(pairs, lengths)],
                   pairs.shape))


@few
@given(batches())
def test_twice_turned_around_is_not_turned_at_all(batch):
    z, lengths = batch[0][..., None], batch[1]
    np.testing.assert_array_equal(
        reverse_prefix(reverse_prefix(z, lengths), lengths), z)
    np.testing.assert_array_equal(reverse_prefix(reverse_prefix(z)), z)


@few
@given(batches())
def test_rolled_as_often_as_it_is_long_is_not_rolled_at_all(batch):
    z, lengths = batch
    for row, n in zip(z, lengths):
        rolled = row
        for _ in range(n):
            rolled = backward_steps(rolled, n)
        np.testing.assert_array_equal(rolled, row)


@few
@given(batches())
def test_a_second_reversal_of_time_gives_the_forward_steps(batch):
    """Seen from the end, the backward steps are the forward ones: both ways."""
    z, lengths = batch

    def seen_from_the_end(s):
        return reverse_prefix(backward_steps(s, lengths)[..., None],
                              lengths)[..., 0]

    np.testing.assert_array_equal(seen_from_the_end(seen_from_the_end(z)), z)


@few
@given(batches())
def test_the_whole_is_the_prefix_of_full_length(batch):
    z, L = batch[0], batch[0].shape[-1]
    np.testing.assert_array_equal(backward_steps(z), backward_steps(z, L))
    np.testing.assert_array_equal(reverse_prefix(z[..., None]),
                                  reverse_prefix(z[..., None], L))


@few
@given(batches())
def test_a_row_alone_and_rows_that_share_their_samples(batch):
    z, lengths = batch
    for row, n in zip(z, lengths):
        np.testing.assert_array_equal(backward_steps(row, int(n)),
                                      rolled_naive(row, n))
    np.testing.assert_array_equal(
        backward_steps(z[0], lengths),
        np.reshape([rolled_naive(z[0], n) for n in lengths], z.shape))
    np.testing.assert_array_equal(
        reverse_prefix(z[0][:, None], lengths)[..., 0],
        np.reshape([reversed_naive(z[0], n) for n in lengths], z.shape))


def test_more_axes_in_front():
    z = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    lengths = np.array([[0, 1, 2], [3, 4, 2]])
    expected = [[rolled_naive(*p) for p in zip(*q)] for q in zip(z, lengths)]
    np.testing.assert_array_equal(backward_steps(z, lengths), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_dtypes_stay(dtype):
    z = np.ones((5, 2), dtype)
    for length in None, 3:
        assert backward_steps(z[:, 0], length).dtype == dtype
        assert reverse_prefix(z, length).dtype == dtype
    assert reverse_prefix(z > 0, 3).dtype == bool
    assert reverse_prefix(z + 1j, 3).dtype == np.complex64


def test_compiled_and_mapped_they_are_the_same():
    z = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    lengths = np.array([0, 2, 5])
    for f, z in (backward_steps, z), (reverse_prefix, z[..., None]):
        np.testing.assert_array_equal(jax.jit(f)(z, lengths), f(z, lengths))
        np.testing.assert_array_equal(jax.vmap(f)(z, lengths), f(z, lengths))


def test_a_length_that_is_too_long_while_tracing_gives_no_number():
    assert np.isnan(jax.jit(reverse_prefix)(np.ones((3, 1)), 5)).any()
    assert np.isnan(jax.jit(backward_steps)(np.ones(3), 5)).any()


def test_gradients_arrive_at_the_samples_they_came_from():
    weights = jnp.arange(1.0, 6)
    g = jax.grad(lambda s: weights @ backward_steps(s, 3))(jnp.ones(5))
    np.testing.assert_array_equal(g, [3, 1, 2, 4, 5])
    g = jax.grad(lambda z: weights @ reverse_prefix(z, 3)[:, 0])(
        jnp.ones((5, 1)))
    np.testing.assert_array_equal(g[:, 0], [3, 2, 1, 4, 5])


@pytest.mark.parametrize("mask", [
    np.ones(4, bool), np.zeros(4, bool), np.arange(4) < 2, np.ones((0,), bool),
    np.arange(4) < np.array([[0], [3], [4]])])
def test_prefixes_are_masks(mask):
    check_mask(mask, (mask.shape,))
    check_mask(jnp.asarray(mask), ((9,), mask.shape))


@pytest.mark.parametrize("steps", [
    np.zeros(3), np.ones((2, 3)), np.arange(3), np.ones(0), np.float32(1)])
def test_intervals_are_steps(steps):
    check_steps("steps", jnp.asarray(steps), (np.shape(steps),))


@pytest.mark.parametrize("rate", [1, 2.0, np.float32(0.5), np.array(3.0)])
def test_factors_are_rates(rate):
    check_rate(rate)
    check_rate(jnp.asarray(rate))


def test_unknown_values_pass_while_tracing():
    def f(steps, mask, rate):
        check_steps("steps", steps, ((2,),))
        check_mask(mask, ((2,),))
        check_rate(rate)
        return steps

    jax.jit(f)(-np.ones(2), np.array([False, True]), -1.0)
