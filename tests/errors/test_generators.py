"""What the generators say when something is wrong."""

from functools import partial

import numpy as np
import pytest

from annotated_ssm import generators as g
from annotated_ssm import signals
from annotated_ssm.generators import Stream


@pytest.mark.parametrize("seed", [(), (-1,), (1.5,), (0, "a"), (0, -2), (2**32,)])
def test_seeds(seed):
    with pytest.raises(ValueError, match="seed is .* need one or more integers from 0"):
        Stream(*seed)


@pytest.mark.parametrize("low, high", [(0, 0), (3, 2), (0, 2**32 + 1)])
def test_empty_or_too_wide_a_range(low, high):
    with pytest.raises(ValueError, match=f"low is {low} and high is {high}; need"):
        Stream(0).integers(low, high, 3)


@pytest.mark.parametrize("make, arguments, message", [
    (g.copying, dict(n=-1), "n is -1; need a whole number ≥ 0"),
    (g.copying, dict(symbols=0), "symbols is 0; need a whole number ≥ 1"),
    (g.copying, dict(memorize=0), "memorize is 0; need a whole number ≥ 1"),
    (g.copying, dict(wait=-1), "wait is -1; need a whole number ≥ 0"),
    (g.copying, dict(wait=2.5), "wait is 2.5; need a whole number"),
    (g.adding, dict(n=-1), "n is -1"),
    (g.adding, dict(length=1), "length is 1; need a whole number ≥ 2"),
    (g.recall, dict(n=-1), "n is -1"),
    (g.recall, dict(keys=0), "keys is 0; need a whole number ≥ 1"),
    (g.recall, dict(values=0), "values is 0; need a whole number ≥ 1"),
    (g.recall, dict(pairs=0), "pairs is 0; need a whole number ≥ 1"),
    (g.induction, dict(n=-1), "n is -1"),
    (g.induction, dict(symbols=0), "symbols is 0; need a whole number ≥ 1"),
    (g.induction, dict(length=2), "length is 2; need a whole number ≥ 3"),
    (signals.delay, dict(n=-1), "n is -1"),
    (signals.delay, dict(lag=-1), "lag is -1; need a whole number ≥ 0"),
    (signals.delay, dict(lag=9, length=9, cycles=1), "lag is 9; need less than length 9"),
    (signals.delay, dict(cycles=0), "cycles is 0; need a whole number ≥ 1"),
    (signals.delay, dict(cycles=512), "cycles is 512; need less than half of length 1024"),
    (signals.reconstruct, dict(length=7), "length is 7; need an even number"),
    (signals.reconstruct, dict(length=4), "length is 2; need a whole number ≥ 3"),
    (signals.mackey_glass, dict(n=-1), "n is -1"),
    (signals.mackey_glass, dict(length=0), "length is 0; need a whole number ≥ 1"),
    (signals.mackey_glass, dict(ahead=-1), "ahead is -1; need a whole number ≥ 0"),
    (signals.mackey_glass, dict(tau=0), "tau is 0; need a whole number ≥ 1"),
    (signals.mackey_glass, dict(substeps=0), "substeps is 0; need a whole number ≥ 1"),
    (signals.mackey_glass, dict(washout=-1), "washout is -1; need a whole number ≥ 0"),
])
def test_sizes(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(Stream(0), **({"n": 2} | arguments))


def test_splits_of_too_few_inputs():
    make = partial(g.copying, symbols=2, memorize=2, wait=0)
    with pytest.raises(ValueError, match=r"counts is \(3, 2\); .* about 4 different"):
        g.splits(make, (3, 2), 0)
    with pytest.raises(ValueError, match="counts is -1; need a whole number ≥ 0"):
        g.splits(g.adding, (3, -1), 0)


def test_a_past_of_one_value():
    with pytest.raises(ValueError, match=r"past has shape \(1, 3\); need \(m \+ 1, n\)"):
        signals.mackey_glass_path(np.ones((1, 3)), 5, 1.0)
