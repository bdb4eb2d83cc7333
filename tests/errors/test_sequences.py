"""Every mistake is refused in words that name the argument."""

import re

import jax
import numpy as np
import pytest

from annotated_ssm.sequences import (backward_steps, check_mask, check_rate,
                                     check_steps, need, reverse_prefix)


def refused(words):
    return pytest.raises(ValueError, match=re.escape(words))


def test_need():
    need(True, "not said")
    with refused("u is 3; need 4"):
        need(False, "u is 3; need 4")


@pytest.mark.parametrize("steps, words", [
    (np.ones(3), "gaps has shape (3,); need (2,) or (5, 2)"),
    (1j * np.ones(2), "gaps is complex; need real numbers"),
    (np.array([1, -0.5]), "gaps contains -0.5; need intervals ≥ 0, finite"),
    (np.array([1, np.nan]), "gaps contains nan; need"),
    (np.array([1, np.inf]), "gaps contains inf; need"),
])
def test_steps(steps, words):
    with refused(words):
        check_steps("gaps", steps, ((2,), (5, 2)))


def test_steps_that_are_not_read_are_not_looked_at():
    steps, mask = np.array([1, 0.5, np.nan, -1]), np.array([1, 1, 0, 0], bool)
    check_steps("gaps", steps, ((4,),), mask)
    check_steps("gaps", np.stack([steps] * 2), ((2, 4),), mask)
    check_steps("gaps", steps, ((4,),), np.stack([mask, mask & False]))
    with refused("gaps contains nan; need"):
        check_steps("gaps", steps, ((4,),), np.stack([mask, mask | True]))
    # which of them are read isn't known here
    jax.jit(lambda m: check_steps("gaps", steps, ((4,),), m))(mask)


@pytest.mark.parametrize("rate, shown", [
    (0, "0"), (0.0, "0.0"), (-1.0, "-1.0"), (np.inf, "inf"), (np.nan, "nan"),
    (1j, "1j"), (np.ones(2), "array([1., 1.])")])
def test_rate(rate, shown):
    with refused(f"rate is {shown}; need one number > 0, finite"):
        check_rate(rate)


@pytest.mark.parametrize("mask, words", [
    (np.ones(3), "mask has dtype float64; need bool"),
    (np.ones(4, bool), "mask has shape (4,); need (3,) or (2, 3)"),
    (np.array([True, False, True]), "mask has True after False; need a prefix"),
    (np.array([False, False, True]), "mask has True after False"),
    (np.array([[True] * 3, [False, True, True]]), "(padding on the right)"),
])
def test_mask(mask, words):
    with refused(words):
        check_mask(mask, ((3,), (2, 3)))


def test_shapes_are_checked_while_tracing_too():
    with refused("steps has shape (2,); need (3,)"):
        jax.jit(lambda s: check_steps("steps", s, ((3,),)))(np.ones(2))
    with refused("mask has shape (2,); need (3,)"):
        jax.jit(lambda m: check_mask(m, ((3,),)))(np.ones(2, bool))
    with refused("need one number > 0, finite"):
        jax.jit(check_rate)(np.ones(2))


@pytest.mark.parametrize("length, words", [
    (6, "length contains 6; need 0 to L = 5"),
    (-1, "length contains -1; need 0 to L = 5"),
    (np.array([2, 7]), "length contains 7; need 0 to L = 5"),
    (2.0, "length has dtype float64; need integers"),
    (np.ones(5, bool), "length has dtype bool; need integers"),
    (np.array([1, 2, 3]), "length has shape (3,); need (2,), one for each row"),
])
@pytest.mark.parametrize("function, z", [
    (backward_steps, np.ones((2, 5))), (reverse_prefix, np.ones((2, 5, 3)))])
def test_length(function, z, length, words):
    with refused(words):
        function(z, length)


def test_axes():
    with refused("steps has shape (); need (..., L)"):
        backward_steps(1.0, 1)
    with refused("z has shape (4,); need (..., L, H)"):
        reverse_prefix(np.ones(4), 2)
    with refused("z has shape (4,); need (..., L, H)"):
        reverse_prefix(np.ones(4))
