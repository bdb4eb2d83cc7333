"""Every mistake is refused in words that name the argument."""

import re

import jax
import numpy as np
import pytest

from annotated_ssm import s4d

KEY = jax.random.key(0)
GOOD = dict(Λ=-np.ones(4) + 1j, B=np.ones(4), C=np.ones((3, 4)),
            dt=np.full(3, 0.1), L=8)


@pytest.mark.parametrize("init, N, words", [
    ("legz", 8, "init is 'legz'; need one of"),
    ("legs", 7, "N is 7; need an even number for init='legs'"),
    ("lin", 7, "N is 7; need an even number for init='lin'"),
    ("inv", 7, "N is 7; need an even number for init='inv'"),
    ("real", 0, "N is 0; need a whole number, at least 1"),
    ("lin", 2.0, "N is 2.0; need a whole number"),
])
def test_initial_eigenvalues(init, N, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        s4d.initial_eigenvalues(init, N)
    with pytest.raises(ValueError, match=re.escape(words)):
        s4d.initialize(KEY, 3, N, init)


@pytest.mark.parametrize("options, words", [
    (dict(H=0), "H is 0; need a whole number"),
    (dict(dt_min=0.2), "dt_min, dt_max are 0.2, 0.1; need"),
    (dict(dt_min=0.0), "dt_min, dt_max are 0.0, 0.1; need"),
])
def test_initialize(options, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        s4d.initialize(KEY, **{"H": 3, "N": 8} | options)


MISTAKES = [
    (dict(L=0), "L is 0; need a whole number, at least 1"),
    (dict(L=2.5), "L is 2.5; need a whole number"),
    (dict(dt=0.0), "dt is 0.0; need finite numbers > 0"),
    (dict(dt=-0.1), "dt is -0.1; need finite numbers > 0"),
    (dict(dt=np.nan), "dt is nan; need finite numbers > 0"),
    (dict(dt=np.array([0.1, np.inf, 0.1])), "need finite numbers > 0"),
    (dict(dt=np.full((3, 1), 0.1)), "dt has shape (3, 1); need () or (H,)"),
    (dict(dt=0.1j), "dt has shape (); need () or (H,), real"),
    (dict(dt=np.full(2, 0.1)), "don't agree on the number H of features"),
    (dict(Λ=-np.ones((2, 4)) + 0j), "don't agree on the number H"),
    (dict(Λ=np.ones((1, 3, 4))), "Λ has shape (1, 3, 4); need (M,) or (H, M)"),
    (dict(Λ=np.float64(1)), "Λ has shape (); need (M,) or (H, M)"),
]
PAIRS = [
    (dict(method="gbt"), "method is 'gbt'; need one of"),
    (dict(B=np.ones(3)), "B has shape (3,); need (M,) or (H, M) with the M = 4"),
    (dict(C=np.ones((3, 5))), "C has shape (3, 5); need (M,) or (H, M)"),
]


@pytest.mark.parametrize("kernel", [s4d.diagonal_kernel, s4d.diagonal_kernel_naive])
@pytest.mark.parametrize("change, words", MISTAKES + PAIRS)
def test_kernels(kernel, change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        kernel(**GOOD | change)


@pytest.mark.parametrize("function", [s4d.dss_kernel, s4d.dss_to_diagonal])
@pytest.mark.parametrize("change, words", MISTAKES + [
    (dict(form="sum"), "form is 'sum'; need one of"),
    (dict(w=np.ones((3, 5))), "C has shape (3, 5); need"),
])
def test_dss(function, change, words):
    arguments = {k: v for k, v in GOOD.items() if k not in "BC"} | {"w": GOOD["C"]}
    with pytest.raises(ValueError, match=re.escape(words)):
        function(**arguments | change)
