"""Every mistake is refused, with a message that says what is needed."""

import jax
import numpy as np
import pytest

from annotated_ssm.state_space import (
    causal_convolution, discretize, discretize_diagonal, kernel_naive, recurrence)

A, B, C, u = np.eye(3), np.ones(3), np.ones(3), np.ones(8)

CASES = [
    (discretize, (np.ones((3, 2)), B, 0.1), r"A has shape \(3, 2\).*square"),
    (discretize, (np.ones(3), B, 0.1), r"A has shape \(3,\).*square"),
    (discretize, (A, np.ones(4), 0.1), r"B has shape \(4,\); need \(3,\)"),
    (discretize, (A, B, 0.0), r"dt is 0.0; need finite numbers > 0"),
    (discretize, (A, B, -0.1), r"dt is -0.1"),
    (discretize, (A, B, np.nan), r"dt is nan"),
    (discretize, (A, B, np.inf), r"dt is inf"),
    (discretize, (A, B, 1j), r"dt is 1j"),
    (discretize, (A, B, 1e60), r"dt is 1e\+60; .* range of float32"),
    (discretize, (1e30 * A, B, 1e30), r"dt times A or B is beyond the range of f"),
    (discretize_diagonal, (C, B, 1e-60), r"dt is 1e-60; .* range of float32"),
    (discretize, (A, B, 0.1, "gbt", np.ones(3) / 2), r"alpha is \[0.5 0.5 0.5\]"),
    (discretize, (A, B, 0.1, "gbt", 0.5j), r"alpha is 0.5j; need a number"),
    (recurrence, (A, B, C, 1j, u), r"D is 1j; need real numbers"),
    (discretize, (A, B, np.ones(3)), r"dt has shape \(3,\)"),
    (discretize, (A, B, 0.1, "tustin"), r"method is 'tustin'; need one of"),
    (discretize, (A, B, 0.1, "gbt", 1.5), r"alpha is 1.5; need a number from 0"),
    (discretize, (A, B, 0.1, "zoh", 0.3), r"alpha belongs to method 'gbt'"),
    (discretize_diagonal, (A, B, 0.1), r"Λ has shape \(3, 3\); need \(P,\)"),
    (discretize_diagonal, (C, np.ones((2, 3)), 0.1), r"B has shape \(2, 3\)"),
    (discretize_diagonal, (C, B, np.ones(2)), r"dt has shape \(2,\)"),
    (discretize_diagonal, (C, B, np.array([0.1, 0, 0.1])), r"dt is .*> 0"),
    (discretize_diagonal, (C, B, 0.1, "exact"), r"method is 'exact'"),
    (recurrence, (np.ones((3, 2)), B, C, 0.0, u), r"A_bar has shape \(3, 2\)"),
    (recurrence, (A, np.ones(2), C, 0.0, u), r"B_bar has shape \(2,\)"),
    (recurrence, (A, B, np.ones((3, 2)), 0.0, u), r"C has shape \(3, 2\)"),
    (recurrence, (A, B, C, 0.0, np.ones((8, 2))), r"u has shape .*need \(L\)"),
    (recurrence, (A, np.ones((3, 2)), C, np.ones(2), u), r"need \(L, 2\)"),
    (recurrence, (A, B, C, 0.0, u * 1j), r"u has dtype complex128; need real"),
    (recurrence, (A, B, C, np.ones(2), u), r"D has shape \(2,\)"),
    (recurrence, (A, B, np.ones((2, 3)), 0.0, u), r"D has shape \(\); need \(2,\)"),
    (recurrence, (A, B, C, 0.0, u, np.ones(2)), r"x0 has shape \(2,\)"),
    (kernel_naive, (A, B, C, 0), r"L is 0; need a whole number ≥ 1"),
    (kernel_naive, (A, B, np.ones(2), 4), r"C has shape \(2,\)"),
    (causal_convolution, (u, np.ones((8, 2))), r"K has shape \(8, 2\) and u \(8,\)"),
    (causal_convolution, (np.ones((8, 2)), np.ones((8, 3))), r"K has shape"),
    (causal_convolution, (u, u * 1j), r"K is complex; need real"),
    (causal_convolution, (np.ones(0), u), r"u has 0 samples"),
    (causal_convolution, (u, np.ones(0)), r"K 0; need at least 1"),
]


@pytest.mark.parametrize("function, arguments, message", CASES)
def test_mistake(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


def test_a_traced_step_is_not_looked_at():
    assert jax.jit(lambda dt: discretize(A, B, dt)[0])(0.1).shape == (3, 3)
