"""Every refusal of the equivalence says what it was and what is needed."""

import numpy as np
import pytest

from annotated_ssm import equivalence

Λ, B, C = np.ones(4) + 0j, np.ones((4, 2)) + 0j, np.ones((2, 4)) + 0j


@pytest.mark.parametrize("name, arguments, message", [
    ("bank_of", (Λ[:3], B, 0.1), r"Λ and B have shapes \(3,\) and \(4, 2\); need"),
    ("bank_of", (Λ, B, np.ones(2)), r"dt has shape \(2,\); need \(\) or \(P,\)"),
    ("subsystems", (Λ, B, C[:, :3], 0.1, 2), r"C has shape \(2, 3\); need \(H, P\)"),
    ("subsystems", (Λ, B, C, 0.1, 3), "blocks is 3; need a divisor of P = 4"),
    ("subsystems", (Λ, B, C, 0.1, 0), "blocks is 0; need a whole number"),
    ("system_of", (Λ, B.T, C[0], 0.1), r"C has shape \(4,\); need \(H, M\)"),
    ("system_of", (Λ[:3], B.T, C, 0.1), r"Λ has shape \(3,\); need \(4,\) or"),
    ("system_of", (Λ, B, C, 0.1), r"B has shape \(4, 2\); need \(4,\) or \(2, 4\)"),
    ("system_of", (Λ, B.T, C, np.ones(4)), r"dt has shape \(4,\); need \(\) or \(2,\)"),
    ("stacked_output_matrix", (C[0], 2), r"C has shape \(4,\); need \(G, P\)"),
    ("stacked_output_matrix", (C, 0), "H is 0; need a whole number"),
    ("reflection", (0, 1j), "N is 0; need a whole number"),
    ("legs_response", (1.5, 1j), "n is 1.5; need a whole number"),
    ("normal_response", (4, 5, 1j), "n is 5; need at most N = 4"),
    ("legs_modes", (True,), "n is True; need a whole number"),
    ("normal_modes", (4, 5), "n is 5; need at most N = 4"),
    ("normal_modes", (5, 4), "N is 5; need an even number"),
    ("energy", (Λ, C[:, :3], 0, 1), r"μ and W have shapes \(4,\) and \(2, 3\)"),
    ("energy", (-Λ, C, 1, 1), "start and end are 1, 1; need start < end"),
])
def test_refusals(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(equivalence, name)(*arguments)


def test_energy_of_what_does_not_decay():
    with pytest.raises(ValueError, match="μ has a real part of 0.0"):
        equivalence.energy([0j], [[1.0]], 0, 1)
    with pytest.raises(ValueError, match="end are 0, inf"):
        equivalence.energy([-1.0], [[1.0]], 0, np.inf)
    assert abs(equivalence.energy([-1.0], [[1.0]], 0, 1)
               - (1 - np.exp(-2)) / 2) < 1e-15


def test_reflection_at_a_pole():
    with pytest.raises(ValueError, match="s holds one of −1 … −4"):
        equivalence.reflection(4, -1.0)
