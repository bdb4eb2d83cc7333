"""Converters refuse what is not the peer's layer, by name."""

import numpy as np
import pytest

from annotated_ssm import converters

H, P, M, S = 3, 4, 4, 3


def s5(**changes):
    return {"Lambda_re": -np.ones(P), "Lambda_im": np.ones(P), "B": np.ones((P, H, 2)),
            "C": np.ones((H, P, 2)), "D": np.ones(H), "log_step": np.zeros((P, 1)),
            **changes}


def torch_s5(**changes):
    return {"Lambda": -np.ones(P) + 1j, "B": np.ones((P, H, 2)),
            "C": np.ones((H, P)) + 0j, "D": np.ones(H), "log_step": np.zeros(P),
            **changes}


def annotated_s4(**changes):
    return {"Lambda_re": -np.ones((P, H)), "Lambda_im": np.ones((P, H)),
            "P": np.ones((P, H)) + 0j, "B": np.ones((P, H)) + 0j,
            "C": np.ones((P, H, 2)), "D": np.ones((1, H)),
            "log_step": np.zeros((1, H)), **changes}


def annotated_s4d(**changes):
    return {"A_re": -np.ones((P, H)), "A_im": np.ones((P, H)),
            "C": np.ones((P, H, 2)), "D": np.ones((1, H)),
            "log_step": np.zeros((1, H)), **changes}


def small(**changes):
    changes = {name.replace("kernel_", "kernel."): a for name, a in changes.items()}
    return {"D": np.ones(H), "kernel.C": np.ones((H, M, 2)),
            "kernel.log_dt": np.zeros(H), "kernel.log_A_real": np.zeros((H, M)),
            "kernel.A_imag": np.ones((H, M)), **changes}


def complete(**changes):
    changes = {name.replace("kernel_", "kernel."): a for name, a in changes.items()}
    return {"D": np.ones((1, H)), "kernel.C": np.ones((1, H, M, 2)),
            "kernel.B": np.ones((1, S, M, 2)), "kernel.A_real": np.zeros((S, M)),
            "kernel.A_imag": np.ones((S, M)), "kernel.inv_dt": np.zeros((H, 1)),
            **changes}


def discretax(**changes):
    return {"C": np.ones((H, M)) + 0j, "log_a_real": np.zeros((H, M)),
            "A_imag": np.ones((H, M)), "log_dt": np.zeros(H), **changes}


def without(params, name):
    return {key: a for key, a in params.items() if key != name}


FROM = {"s5": converters.from_s5, "s5_pytorch": converters.from_s5_pytorch,
        "annotated_s4": lambda p: converters.from_annotated_s4(p, 8),
        "annotated_s4d": converters.from_annotated_s4d,
        "s4d": converters.from_state_spaces_s4d,
        "s4": converters.from_state_spaces_s4,
        "discretax": converters.from_discretax_s4d}


@pytest.mark.parametrize("name, params, message", [
    # names
    ("s5", without(s5(), "C"), r"^params has no C; need the names B, C, D, "),
    ("s5", s5(C1=np.ones((H, P, 2))), "^params has no C2; need"),
    ("s5", s5(E=np.ones(P)), "^params has E as well; need only the names"),
    ("s5_pytorch", without(torch_s5(), "B"), "^params has no B; need the names B, C"),
    ("annotated_s4", without(annotated_s4(), "Lambda_re"), "has no Lambda_re;"),
    ("annotated_s4", annotated_s4(Ct=np.ones((1, P))), "^params has Ct as well;"),
    ("s4d", small(output=np.ones(3)), "^params has output as well;"),
    ("s4", complete(kernel_l_kernel=np.int64(0)), "^params has no kernel.P;"),
    ("discretax", discretax(D=np.ones(H)), "^params has D as well;"),
    # shapes
    ("s5", s5(D=np.ones(P)), r"^D has shape \(4,\); need \(H\) with P = 4, H = 3$"),
    ("s5", s5(log_step=np.zeros(P)), r"^log_step has shape \(4,\); need \(P, 1\)"),
    ("s5", s5(B=np.ones((P, H))), r"^B has shape \(4, 3\); need \(P, H, 2\) with P"),
    ("s5", s5(C=np.ones((H, 3 * P, 2))), r"^C has 12 columns; need P = 4, or 2P = 8"),
    ("s5", s5(Lambda_re=-np.ones((P, 1))),
     r"^Lambda_re has shape \(4, 1\); need \(P\) with any sizes$"),
    ("annotated_s4d", annotated_s4d(D=np.ones(H)), r"^D has shape \(3,\); need \(1, H"),
    ("s4d", small(kernel_A_imag=np.ones((H, 5))),
     r"^kernel.A_imag has shape \(3, 5\); need \(H, M\) with H = 3, M = 4"),
    ("s4d", complete(kernel_inv_dt=np.zeros((H, M))),
     r"^kernel.inv_dt has shape \(3, 4\); need \(H, 1\)"),
    ("s4d", complete(kernel_C=np.ones((2, H, M, 2))),
     "^kernel.C has 2 channels; need 1: two are a bidirectional layer"),
    ("s4d", complete(kernel_A_real=np.zeros((2, M)), kernel_A_imag=np.ones((2, M)),
                     kernel_B=np.ones((1, 2, M, 2))),
     "^kernel.A_real is for 2 systems; need a divisor of H = 3$"),
    # real or complex
    ("s5", s5(D=np.ones(H) + 0j), "^D has dtype complex128; need real numbers$"),
    ("s5_pytorch", torch_s5(Lambda=-np.ones(P)),
     "^Lambda has dtype float64; need complex numbers$"),
    ("annotated_s4", annotated_s4(P=np.ones((P, H))), "^P has dtype float64; need comp"),
    ("annotated_s4", annotated_s4(P=np.ones((P, H, 2))),
     r"^P has shape \(4, 3, 2\); need \(N, H\) with N = 4, H = 3$"),
    ("s5", s5(D=np.array(["a"] * H)), "^D has dtype <U1; need real numbers$"),
    # numbers
    ("s5", s5(D=np.array([1, np.nan, np.inf])), "^D has 2 numbers that are not finite"),
    ("s5", s5(Lambda_re=np.array([-1, 0, 0.5, -2])),
     r"^Lambda_re has 2 of 4 numbers ≥ 0, the largest 0\.5; need Re λ < 0"),
    ("s5_pytorch", torch_s5(Lambda=np.array([-1, 1, -1, -2]) + 1j),
     "^Lambda has 1 of 4 numbers ≥ 0, the largest 1;"),
])
def test_what_is_no_layer_of_the_peer(name, params, message):
    with pytest.raises(ValueError, match=message):
        FROM[name](params)


def test_options():
    with pytest.raises(ValueError, match="^method is 'euler'"):
        converters.from_s5(s5(), method="euler")
    with pytest.raises(ValueError, match="^method is 'dss'"):
        converters.from_state_spaces_s4d(complete(), method="dss")
    with pytest.raises(ValueError, match="^dt_transform is 'relu', one of 'exp'"):
        converters.from_state_spaces_s4d(complete(), dt_transform="relu")
    with pytest.raises(ValueError, match="^method is 'bilinear' and dt_transform 'exp'"):
        converters.from_state_spaces_s4d(small(), method="bilinear")
    with pytest.raises(ValueError, match="^L is 0"):
        converters.from_annotated_s4(annotated_s4(), 0)
    with pytest.raises(ValueError, match=r"^prefix is 'b\.', .* need one of a\.D$"):
        converters.under({"a.D": 1}, "b.")


def test_a_conversion_that_float32_cannot_hold():
    rng = np.random.default_rng(0)
    p = annotated_s4(Lambda_re=np.zeros((P, H)), Lambda_im=np.zeros((P, H)),
                     P=50 * rng.normal(size=(P, H)) + 0j, C=rng.normal(size=(P, H, 2)),
                     log_step=np.full((1, H), -9.0))
    with pytest.raises(ValueError, match=r"^L is 1, for which C in float32 gives C̃ "
                                         r"back with an error of \d+% \(the condition "
                                         r"of I − Ā\^L is up to \de\+\d+\)"):
        converters.from_annotated_s4(p, 1)
    layer, _ = converters.from_annotated_s4(p, 1, true_C=False)
    assert layer.C_tilde == 1


def test_a_conversion_that_no_precision_can_hold():
    p = {**complete(), "kernel.P": np.zeros((1, S, M, 2)),
         "kernel.l_kernel": np.int64(1), "kernel.A_real": np.full((S, M), -60.0),
         "kernel.A_imag": np.zeros((S, M)), "kernel.inv_dt": np.full((H, 1), -9.0)}
    with pytest.raises(ValueError, match="an error of inf%"):
        converters.from_state_spaces_s4(p)
