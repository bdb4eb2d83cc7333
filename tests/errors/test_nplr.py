"""Every mistake is refused in words that name it."""

import numpy as np
import pytest

from annotated_ssm.nplr import discretize_dplr, dplr, nplr


@pytest.mark.parametrize("measure, N, words", [
    ("legx", 8, "measure is 'legx'; need one of"),
    ("legs", 0, "N is 0; need at least 1"),
    ("fout", 5, "N is 5; need an even number"),
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
    ({"dt": 0.0}, "dt is 0.0; need a positive step"),
    ({"dt": -1.0}, "dt is -1.0; need a positive step"),
    ({"dt": float("nan")}, "dt is nan; need a positive step"),
])
def test_discretize_dplr(change, words):
    Λ, P, B, _ = dplr("legs", 8)
    arguments = {"Λ": Λ, "P": P, "B": B, "dt": 0.1, "Q": None} | change
    with pytest.raises(ValueError, match=words):
        discretize_dplr(**arguments)
