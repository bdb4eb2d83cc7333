"""Every mistake is refused in words that name it."""

import jax
import numpy as np
import pytest

from annotated_ssm.fast_cauchy import (cauchy_sums_fast, dplr_kernel_fast,
                                       order_for)
from annotated_ssm.nplr import dplr

STEP_AND_LENGTH = [
    ({"L": 0}, "L is 0; need a whole number ≥ 1"),
    ({"L": 2.5}, "L is 2.5; need a whole number"),
    ({"L": True}, "L is True; need a whole number"),
    ({"dt": 0.0}, "dt is 0.0; need a positive step"),
    ({"dt": -1.0}, "dt is -1.0; need a positive step"),
    ({"dt": np.ones(4)}, r"dt has shape \(4,\); need one number"),
    ({"tol": 0.0}, "tol is 0.0; need a number from 1e-15 to 0.1"),
    ({"tol": 0.5}, "tol is 0.5; need a number from"),
    ({"tol": np.nan}, "tol is nan; need a number from"),
]


@pytest.mark.parametrize("change, words", [
    *STEP_AND_LENGTH,
    ({"Λ": np.ones((2, 2))}, r"Λ has shape \(2, 2\); need \(M,\)"),
    ({"v": np.ones(3)}, r"v has shape \(3,\); need \(..., 4\), as Λ"),
    ({"v": np.ones(())}, r"v has shape \(\); need \(..., 4\), as Λ"),
])
def test_cauchy_sums_fast(change, words):
    given = {"v": np.ones((2, 4)), "Λ": dplr("legs", 8)[0], "dt": 0.1, "L": 100}
    with pytest.raises(ValueError, match=words):
        cauchy_sums_fast(**given | change)


@pytest.mark.parametrize("change, words", [
    *STEP_AND_LENGTH,
    ({"Λ": np.ones((2, 2))}, r"Λ has shape \(2, 2\); need \(M,\)"),
    ({"C": np.ones(3)}, r"C has shape \(3,\); need \(4,\), as Λ"),
    ({"P": np.ones(4)}, r"P has shape \(4,\); need \(r, 4\)"),
    ({"B": np.ones(3)}, "don't fit: need"),
    ({"Q": np.ones((2, 4))}, "don't fit: need"),
    ({"C_tilde": False}, r"takes C̃ = .*to_C_tilde"),
    ({"Λ": np.array([0, -1 + 1j, -1 + 2j, -1 + 3j])}, "eigenvalue 0, a pole at"),
])
def test_dplr_kernel_fast(change, words):
    Λ, P, B, _ = dplr("legs", 8)
    given = {"Λ": Λ, "P": P, "B": B, "C": B, "dt": 0.1, "L": 100, "C_tilde": True}
    with pytest.raises(ValueError, match=words):
        dplr_kernel_fast(**given | change)


@pytest.mark.parametrize("tol", [1e-16, 0.2, -1.0])
def test_order_for(tol):
    with pytest.raises(ValueError, match="tol is .*; need a number from 1e-15"):
        order_for(tol)
