"""Every mistake is refused in words that name the argument."""

import re

import jax
import numpy as np
import pytest

from annotated_ssm import s5

KEY = jax.random.key(0)


def system(H=3, P=4, **options):
    p = s5.initialize(KEY, H, P, **options)
    B, C = (np.asarray(p[k][..., 0] + 1j * p[k][..., 1]) for k in "BC")
    Λ = np.asarray(p["Lambda_re"] + 1j * p["Lambda_im"])
    return [Λ, B, C, np.asarray(p["D"]), np.exp(np.asarray(p["log_dt"]))]


@pytest.mark.parametrize("arguments, words", [
    (dict(P=5), "P/blocks is 5/1 = 5; need an even number"),
    (dict(P=6, blocks=2), "P/blocks is 6/2 = 3; need an even number"),
    (dict(P=5, conj_sym=False), "need an even number"),
    (dict(P=8, blocks=3), "blocks is 3; need a divisor of P = 8"),
    (dict(P=8, blocks=0), "blocks is 0; need a divisor"),
    (dict(init="hipo"), "init is 'hipo'; need one of"),
    (dict(H=0), "H is 0; need a whole number ≥ 1"),
    (dict(H=3.0), "H is 3.0; need a whole number ≥ 1"),
    (dict(P=8.0), "P is 8.0; need a whole number"),
    (dict(blocks=1.0), "blocks is 1.0; need a whole number"),
    (dict(dt_min=0.2), "dt_min, dt_max are 0.2, 0.1; need"),
])
def test_initialize(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        s5.initialize(KEY, **{"H": 3, "P": 8} | arguments)


def test_random_modes_need_a_key():
    with pytest.raises(ValueError, match="key is None; need one"):
        s5.initial_modes("skew", 4)


U = np.ones((2, 6, 3), np.float32)
HOLE = np.array([True, False, True, True, False, False])


@pytest.mark.parametrize("options, words", [
    (dict(u=U[..., :2]), "u has shape (2, 6, 2); need (L, 3) or (batch, L, 3)"),
    (dict(u=U[0, 0]), "u has shape (3,); need"),
    (dict(u=U + 1j), "u has dtype complex64; need real numbers"),
    (dict(method="euler"), "method is 'euler'; need one of"),
    (dict(steps=-np.ones(6)), "steps contains -1.0; need intervals ≥ 0"),
    (dict(steps=np.full(6, np.nan)), "steps contains nan; need"),
    (dict(steps=np.full(6, np.inf)), "steps contains inf; need"),
    (dict(steps=np.array([1, -1, 1, 1, 1, 1]), mask=np.arange(6) < 2),
     "steps contains -1.0; need intervals ≥ 0"),
    (dict(steps=np.array([1, 1, 1, np.nan, 1, 1]),    # one of the rows reads it
          mask=np.arange(6) < np.array([[2], [4]])), "steps contains nan; need"),
    (dict(steps=1j * np.ones(6)), "steps is complex; need real numbers"),
    (dict(steps=np.ones(5)), "steps has shape (5,); need (6,) or (2, 6)"),
    (dict(steps=np.ones((3, 6))), "steps has shape (3, 6); need"),
    (dict(u=U[0], steps=np.ones((2, 6))), "steps has shape (2, 6); need (6,)"),
    (dict(mask=np.ones(5, bool)), "mask has shape (5,); need"),
    (dict(mask=np.ones(6)), "mask has dtype float64; need bool"),
    (dict(mask=HOLE), "mask has True after False; need a prefix"),
    (dict(mask=np.stack([~HOLE, HOLE])), "mask has True after False"),
    (dict(rate=0.0), "rate is 0.0; need one number > 0"),
    (dict(rate=np.ones(2)), "need one number > 0"),
    (dict(rate=np.inf), "rate is inf; need one number > 0"),
    (dict(rate=1j), "rate is 1j; need one number > 0"),
    (dict(x0=np.zeros(2)), "x0 has shape (2,); need (2, 2)"),
    (dict(scan_method="magic"), "scan_method is 'magic'; need one of ('auto', 'seq"),
    (dict(scan_method="time_invariant", steps=np.ones(6)),
     "scan_method is 'time_invariant' with steps given"),
    (dict(scan_method=np.array("auto")), "scan_method is array"),
    (dict(scan_method=lambda a, b, x, reverse: b[:, :1]),
     "scan_method returns shape (6, 1, 2), dtype complex64; need those of b: (6, "),
    (dict(scan_method=lambda a, b, x, reverse: b.real),
     "dtype float32; need those of b"),
    (dict(scan_method=lambda a, b, x, reverse: None), "returns shape None"),
    (dict(chunk=0), "chunk is 0; need a whole number ≥ 1"),
    (dict(chunk=2.0), "chunk is 2.0; need a whole number"),
])
def test_apply_ssm(options, words):
    u = options.pop("u", U)
    with pytest.raises(ValueError, match=re.escape(words)):
        s5.apply_ssm(*system(), u, **options)


def test_bidirectional_shapes():
    one, two = system(), system(bidirectional=True)
    with pytest.raises(ValueError, match=re.escape(
            "C has shape (3, 2); need (H, 2P) = (3, 4) with bidirectional")):
        s5.apply_ssm(*one, U, bidirectional=True)
    with pytest.raises(ValueError, match=re.escape(
            "C has shape (3, 4); need (H, P) = (3, 2) with bidirectional")):
        s5.apply_ssm(*two, U)
    with pytest.raises(ValueError, match=re.escape(
            "x0 has shape (2, 2); need (2, 2, 2)")):
        s5.apply_ssm(*two, U, bidirectional=True, x0=np.zeros((2, 2)))


@pytest.mark.parametrize("index, array, words", [
    (0, np.zeros((2, 2)), "Λ and D have shapes (2, 2) and (3,)"),
    (1, np.zeros((3, 2)), "B has shape (3, 2); need (P, H) = (2, 3)"),
    (2, np.zeros((2, 3)), "C has shape (2, 3); need (H, P) = (3, 2)"),
    (4, np.ones(3), "dt has shape (3,); need (P,) = (2,)"),
    (3, np.float32(1), "Λ and D have shapes (2,) and ()"),
    (3, 1j * np.ones(3), "D is complex; need real numbers"),
    (4, -np.ones(2), "dt is [-1. -1.]; need finite numbers > 0"),
    (4, np.array([1, np.nan]), "dt is [ 1. nan]; need finite numbers > 0"),
    (4, 1j * np.ones(2), "dt is complex; need real numbers"),
])
def test_parameters(index, array, words):
    parameters = system()
    parameters[index] = array
    for steps in None, np.ones(6):   # two code paths, one answer
        with pytest.raises(ValueError, match=re.escape(words)):
            s5.apply_ssm(*parameters, U, steps=steps)
    with pytest.raises(ValueError, match=re.escape(words)):
        s5.step(*parameters, U[:, 0], np.zeros((2, 2)))


def test_the_shape_of_a_rate_is_checked_while_tracing_too():
    parameters = system()
    with pytest.raises(ValueError, match="need one number > 0"):
        jax.jit(lambda r: s5.apply_ssm(*parameters, U, rate=r))(np.ones(2))


@pytest.mark.parametrize("u_k, x, options, words", [
    (U[0, 0, :2], np.zeros(2), {}, "u_k has shape (2,); need (3,)"),
    (1j * U[0, 0], np.zeros(2), {}, "u_k has dtype complex64; need real"),
    (U[0, 0], np.zeros(2), dict(step=np.inf), "step contains inf; need"),
    (U[:, 0], np.zeros(2), {}, "x has shape (2,); need (2, 2)"),
    (U[0, 0], np.zeros(2), dict(step=-1.0), "step contains -1.0; need"),
    (U[0, 0], np.zeros(2), dict(step=np.ones(2)), "step has shape (2,); need"),
    (U[0, 0], np.zeros(2), dict(method="gbt"), "method is 'gbt'"),
    (U[0, 0], np.zeros(2), dict(rate=-1.0), "rate is -1.0"),
])
def test_step(u_k, x, options, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        s5.step(*system(), u_k, x, **options)


def test_step_knows_one_direction():
    with pytest.raises(ValueError, match=re.escape("C has shape (3, 4)")):
        s5.step(*system(bidirectional=True), U[0, 0], np.zeros(2))
