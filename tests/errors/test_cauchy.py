"""Every mistake is refused in words that name it."""

import numpy as np
import pytest

from annotated_ssm.cauchy import (METHODS, METHODS_C_TILDE, dplr_kernel,
                                  from_C_tilde, to_C_tilde)
from annotated_ssm.nplr import dplr

CHANGES = [
    ({"Λ": np.ones((2, 2))}, r"Λ has shape \(2, 2\); need \(M,\)"),
    ({"C": np.ones(3)}, r"C has shape \(3,\); need \(4,\), as Λ"),
    ({"P": np.ones(4)}, r"P has shape \(4,\); need \(r, 4\)"),
    ({"Q": np.ones((2, 4))}, "don't fit: need"),
    ({"L": 0}, "L is 0; need a whole number ≥ 1"),
    ({"L": 2.5}, "L is 2.5; need a whole number"),
    ({"L": True}, "L is True; need a whole number"),
    ({"dt": 0.0}, "dt is 0.0; need a positive step"),
    ({"dt": -1.0}, "dt is -1.0; need a positive step"),
    ({"dt": np.ones(4)}, r"dt has shape \(4,\); need one number"),
]


def arguments():
    Λ, P, B, _ = dplr("legs", 8)
    return {"Λ": Λ, "P": P, "B": B, "C": B, "dt": 0.1, "L": 8}


@pytest.mark.parametrize("change, words", [
    *CHANGES, ({"B": np.ones(3)}, "don't fit: need"),
    ({"method": "fast"}, "method is 'fast'; need 'auto' or one of"),
])
def test_dplr_kernel(change, words):
    with pytest.raises(ValueError, match=words):
        dplr_kernel(**arguments() | change)


@pytest.mark.parametrize("convert", [to_C_tilde, from_C_tilde])
@pytest.mark.parametrize("change, words", CHANGES)
def test_conversions(convert, change, words):
    given = arguments() | change
    del given["B"]
    with pytest.raises(ValueError, match=words):
        convert(**given)


@pytest.mark.parametrize("method", METHODS)
def test_the_true_C_is_asked_for(method):
    with pytest.raises(ValueError, match="takes the true C.*from_C_tilde"):
        dplr_kernel(**arguments(), method=method, C_tilde=True)


@pytest.mark.parametrize("method", METHODS_C_TILDE)
def test_C_tilde_is_asked_for(method):
    with pytest.raises(ValueError, match=r"takes C̃ = .*to_C_tilde"):
        dplr_kernel(**arguments(), method=method)


def test_an_eigenvalue_on_a_node():
    Λ, P, B, _ = dplr("fout", 8)
    with pytest.raises(ValueError, match="eigenvalue 0, a pole at the node"):
        dplr_kernel(Λ, P, B, B, 0.1, 8, C_tilde=True)
    assert dplr_kernel(Λ, P, B, B, 0.1, 8).shape == (8,)
