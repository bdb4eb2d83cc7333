"""Every refusal of S4 says which argument, what it was and what is needed."""

import jax
import numpy as np
import pytest

from annotated_ssm import s4

H, M = 2, 4
Λ = -0.5 + 1j * np.arange(1, M + 1)
P, B, C = np.ones((1, M), complex), np.ones(M, complex), np.ones((H, M), complex)
GOOD = dict(Λ=Λ, P=P, B=B, C=C, D=np.ones(H), dt=np.full(H, 0.1),
            u=np.ones((5, H)))


@pytest.mark.parametrize("change, message", [
    ({"Λ": np.ones((3, M)) + 0j}, r"Λ has shape \(3, 4\)"),
    ({"P": np.ones(M)}, r"P has shape \(4,\); need \(r, M\)"),
    ({"Q": np.ones((2, M))}, r"Q has shape \(2, 4\)"),
    ({"B": np.ones(3)}, r"B has shape \(3,\)"),
    ({"C": np.ones((H, 3))}, r"C has shape \(2, 3\); need \(H, M\)"),
    ({"bidirectional": True}, r"C has shape \(2, 4\); need \(H, 2M\)"),
    ({"D": np.ones((H, 1))}, r"D has shape \(2, 1\)"),
    ({"dt": np.ones(3)}, r"dt has shape \(3,\)"),
    ({"dt": -0.1}, r"dt is -0.1; need finite numbers > 0"),
    ({"u": np.ones((5, 3))}, r"u has shape \(5, 3\); need H = 2"),
    ({"u": np.ones(5)}, r"u has shape \(5,\)"),
    ({"u": np.ones((5, H)) * 1j}, "u has dtype complex"),
    ({"method": "tustin"}, "method is 'tustin'"),
    ({"mode": "scan"}, "mode is 'scan'"),
    ({"kernel_method": "magic"}, "method is 'magic'"),
    ({"rate": 0.0}, "rate is 0.0"),
    ({"steps": -np.ones(5)}, "steps contains -1"),
    ({"steps": np.ones(4)}, r"steps has shape \(4,\)"),
    ({"steps": np.ones(5), "mode": "convolution"}, "mode is 'convolution'"),
    ({"steps": np.ones(5), "method": "zoh"}, "method is 'zoh'"),
    ({"mask": np.array([True, False, True, True, True])}, "True after False"),
    ({"mask": np.ones(5)}, "mask has dtype float64"),
    ({"x0": np.zeros((H, 3))}, r"x0 has shape \(2, 3\); need \(2, 4\)"),
    ({"C_tilde": 4}, "C_tilde is 4: need .* at most so many samples"),
    ({"C_tilde": 5, "x0": np.zeros((H, M))}, "C_tilde is 5"),
    ({"C_tilde": 5, "mode": "recurrence"}, "C_tilde is 5"),
    ({"C_tilde": 5, "rate": 2.0}, "C_tilde is 5"),
    ({"C_tilde": 5, "method": "zoh"}, "C_tilde is 5"),
])
def test_apply_ssm(change, message):
    with pytest.raises(ValueError, match=message):
        s4.apply_ssm(**GOOD | change)


@pytest.mark.parametrize("change, message", [
    ({"u_k": np.ones(3)}, r"u_k has shape \(3,\); need H = 2"),
    ({"u_k": np.ones((2, 2, 2))}, r"u_k has shape \(2, 2, 2\)"),
    ({"x": np.zeros((H, 3))}, r"x has shape \(2, 3\)"),
    ({"step": np.ones(2)}, r"step has shape \(2,\)"),
    ({"step": -1.0}, "step contains -1"),
])
def test_step(change, message):
    given = {k: v for k, v in GOOD.items() if k != "u"}
    given |= dict(u_k=np.ones(H), x=np.zeros((H, M)))
    with pytest.raises(ValueError, match=message):
        s4.step(**given | change)


@pytest.mark.parametrize("H, N, options, message", [
    (0, 8, {}, "H is 0"), (2, 7, {}, "N is 7"), (2, 0, {}, "N is 0"),
    (2, 8, {"measure": "legz"}, "measure is 'legz'"),
    (2, 8, {"dt_min": 0.2, "dt_max": 0.1}, "dt_min, dt_max"),
])
def test_initialize(H, N, options, message):
    with pytest.raises(ValueError, match=message):
        s4.initialize(jax.random.key(0), H, N, **options)
