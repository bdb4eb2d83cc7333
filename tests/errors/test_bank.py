"""Every mistake is refused in words that name the argument."""

import re

import jax
import numpy as np
import pytest

from annotated_ssm import bank, s4d

P = s4d.initialize(jax.random.key(0), 3, 8)
SYSTEM = dict(zip(("Λ", "B", "C", "D", "dt"), map(np.asarray, s4d.system(P))))
U = np.ones((2, 6, 3), np.float32)
HOLE = np.array([True, False, True, True, False, False])
STATE = np.zeros((2, 3, 4), np.complex64)

SHARED = [
    (dict(method="euler"), "method is 'euler'; need one of"),
    (dict(rate=0.0), "rate is 0.0; need one number > 0, finite"),
    (dict(rate=np.ones(2)), "need one number > 0, finite"),
    (dict(D=np.ones((3, 3))), "D has shape (3, 3); need (H,), real"),
    (dict(D=np.ones(3) + 1j), "D has shape (3,); need (H,), real"),
    (dict(C=np.ones((3, 8))), "C has shape (3, 8); need (H, M) = (3, 4)"),
    (dict(B=np.ones(5)), "B has shape (5,); need (M,) or (H, M)"),
    (dict(B=np.ones((2, 4))), "don't agree on the number H of features"),
    (dict(dt=np.full(2, 0.1)), "don't agree on the number H of features"),
    (dict(dt=np.array([0.1, 0.0, 0.1])), "need finite numbers > 0"),
]


@pytest.mark.parametrize("change, words", SHARED + [
    (dict(u=U[..., :2]), "u has shape (2, 6, 2); need H = 3 features last"),
    (dict(u=U[0, 0]), "u has shape (3,); need (L, H) or (batch, L, H)"),
    (dict(u=U + 1j), "u has dtype complex64; need real numbers"),
    (dict(bidirectional=True), "C has shape (3, 4); need (H, 2M) = (3, 8)"),
    (dict(mode="scan"), "mode is 'scan'; need one of"),
    (dict(mode="convolution", steps=np.ones(6)), "one kernel has one step"),
    (dict(steps=-np.ones(6)), "steps contains -1.0; need intervals ≥ 0"),
    (dict(steps=np.full(6, np.nan)), "steps contains nan; need"),
    (dict(steps=1j * np.ones(6)), "steps is complex; need real numbers"),
    (dict(steps=np.ones(5)), "steps has shape (5,); need (6,) or (2, 6)"),
    (dict(u=U[0], steps=np.ones((2, 6))), "steps has shape (2, 6); need (6,)"),
    (dict(mask=np.ones(5, bool)), "mask has shape (5,); need"),
    (dict(mask=np.ones(6)), "mask has dtype float64; need bool"),
    (dict(mask=HOLE), "mask has True after False; need a prefix"),
    (dict(mask=np.stack([~HOLE, HOLE])), "mask has True after False"),
    (dict(x0=STATE[0]), "x0 has shape (3, 4); need (2, 3, 4)"),
])
def test_apply_ssm(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        bank.apply_ssm(**SYSTEM | {"u": U} | change)


@pytest.mark.parametrize("change, words", SHARED + [
    (dict(u_k=U), "u_k has shape (2, 6, 3); need (H,) or (batch, H)"),
    (dict(u_k=U[0, :2, :2]), "u_k has shape (2, 2); need H = 3 features last"),
    (dict(x=STATE[0]), "x has shape (3, 4); need (2, 3, 4) with u_k (2, 3)"),
    (dict(step=np.ones(3)), "step has shape (3,); need () or (2,)"),
    (dict(step=-1.0), "step contains -1.0; need intervals ≥ 0"),
])
def test_step(change, words):
    arguments = SYSTEM | {"u_k": U[:, 0], "x": STATE} | change
    with pytest.raises(ValueError, match=re.escape(words)):
        bank.step(**arguments)
