"""Every mistake is refused in words that name it."""

import numpy as np
import pytest

from annotated_ssm.nplr import (
    discretize_dplr, dplr, nplr, step, woodbury)


@pytest.mark.parametrize("measure, N, words", [
    ("legx", 8, "measure is 'legx', one of .* is needed"),
    ("legs", 0, "N is 0, at least 1 is needed"),
    ("fout", 5, "N is 5, the Fourier measure needs an even N"),
])
def test_nplr(measure, N, words):
    with pytest.raises(ValueError, match=words):
        nplr(measure, N)


def test_half_states_need_an_even_size():
    with pytest.raises(ValueError, match="N is 7; need an even number"):
        dplr("legs", 7)
    assert dplr("legs", 7, conj_sym=False)[0].shape == (7,)


@pytest.mark.parametrize("change, words", [
    ({"P": np.ones(4)}, r"P has shape \(4,\); need \(r, 4\)"),
    ({"P": np.ones((1, 5))}, r"P has shape \(1, 5\); need \(r, 4\)"),
    ({"Q": np.ones((2, 4))}, "don't fit: need"),
    ({"B": np.ones(3)}, "don't fit: need"),
    ({"dt": float("inf")}, "dt is inf; need a positive step"),
    ({"dt": 0.1j}, "dt is 0.1j; need a positive step"),
    ({"dt": np.ones(1)}, "need a positive step, one finite number"),
    ({"dt": np.ones(4)}, "need a positive step, one finite number"),
    ({"dt": 0.0}, "dt is 0.0; need a positive step"),
    ({"dt": -1.0}, "dt is -1.0; need a positive step"),
    ({"dt": float("nan")}, "dt is nan; need a positive step"),
])
def test_discretize_dplr(change, words):
    Λ, P, B, _ = dplr("legs", 8)
    arguments = {"Λ": Λ, "P": P, "B": B, "dt": 0.1, "Q": None} | change
    with pytest.raises(ValueError, match=words):
        discretize_dplr(**arguments)


@pytest.mark.parametrize("N", [2.5, "4", None, 4.0])
def test_a_size_is_a_whole_number(N):
    with pytest.raises(ValueError, match="N is .*whole number"):
        dplr("legs", N)


@pytest.mark.parametrize("position, array", [
    (0, np.ones(1)), (0, np.float64(2)), (1, np.ones((1, 3))), (1, np.ones(2)),
    (2, np.ones((2, 2))), (3, np.ones(1)), (3, np.ones((2, 2)))])
def test_woodbury_broadcasts_nothing(position, array):
    arguments = [np.ones(2), np.ones((1, 2)), np.ones((1, 2)), np.ones(2)]
    arguments[position] = array
    with pytest.raises(ValueError, match="don't fit: need"):
        woodbury(*arguments)


@pytest.mark.parametrize("x, u_k", [
    (np.zeros(3), 1.0), (np.zeros((4, 4)), 1.0), (np.zeros(4), np.ones(4))])
def test_a_step_broadcasts_nothing(x, u_k):
    Λ, P, B, _ = dplr("legs", 8)
    with pytest.raises(ValueError, match=r"need \(4,\) and one number"):
        step(discretize_dplr(Λ, P, B, 0.1), x, u_k)
