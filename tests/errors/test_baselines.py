"""Baselines refuse what they cannot do, by name."""

import jax
import numpy as np
import pytest
from flax import nnx

from annotated_ssm.attention import Attention, LinearAttention, rotate
from annotated_ssm.baselines import (LSSL, lssl_apply, lssl_initialize,
                                     lssl_kernel, lssl_step)
from annotated_ssm.recurrent import GRU, LSTM

U = np.zeros((2, 6, 8), np.float32)
ONES = np.ones(6, np.float32)
RNGS = nnx.Rngs(0)
LAYERS = [lambda **k: LSSL(8, 4, rngs=RNGS, **k), lambda: GRU(8, rngs=RNGS),
          lambda: LSTM(8, rngs=RNGS),
          lambda **k: Attention(8, capacity=6, rngs=RNGS, **k),
          lambda **k: LinearAttention(8, rngs=RNGS, **k)]


@pytest.mark.parametrize("make", LAYERS)
def test_inputs_states_and_masks(make):
    layer = make()
    with pytest.raises(ValueError, match=r"u has shape \(2, 6, 7\), "
                                         r"\(batch, L, H\) with H = 8"):
        layer(U[..., :7])
    with pytest.raises(ValueError, match=r"u_k has shape \(2, 6, 8\)"):
        layer.step(U, layer.init_state(2))
    with pytest.raises(ValueError, match="mask has True after False"):
        layer(U, mask=np.arange(6) != 3)
    wrong = jax.tree.map(lambda a: a[:1], layer.init_state(2))
    with pytest.raises(ValueError, match="^state has shape .* is needed"):
        layer(U, state=wrong)
    with pytest.raises(ValueError, match="^state has shape .* is needed"):
        layer.step(U[:, 0], wrong)


@pytest.mark.parametrize("make", LAYERS[2:])
def test_states_that_are_no_tuples(make):
    with pytest.raises(ValueError, match=r"^state is PyTreeDef\(\*\), .* needed, "
                                         "as from init_state"):
        make()(U, state=np.zeros((2, 8)))


@pytest.mark.parametrize("make", [
    LAYERS[1], LAYERS[2], lambda: LinearAttention(8, rotary=False, rngs=RNGS)])
def test_time_is_never_ignored(make):
    layer = make()
    with pytest.raises(ValueError, match="^steps are given; .*: need "):
        layer(U, ONES)
    with pytest.raises(ValueError, match="^steps are given; .*: need "):
        layer.step(U[:, 0], layer.init_state(2), 2.0)
    with pytest.raises(ValueError, match="^rate is 2.0, not 1; .*: need "):
        layer(U, rate=2.0)
    with pytest.raises(ValueError, match="not 1"):
        jax.jit(lambda rate: layer(U, rate=rate)[0])(1.0)


@pytest.mark.parametrize("make", [
    LAYERS[0], lambda: GRU(8, append_steps=True, rngs=RNGS), *LAYERS[3:]])
def test_steps_and_rates(make):
    layer = make()
    with pytest.raises(ValueError, match="steps contains -1.0; need intervals ≥ 0"):
        layer(U, -ONES)
    with pytest.raises(ValueError, match=r"steps has shape \(5,\)"):
        layer(U, ONES[:5])
    with pytest.raises(ValueError, match="rate is -1.0; need one number > 0"):
        layer(U, rate=-1.0)
    with pytest.raises(ValueError, match=r"step has shape \(3,\)"):
        layer.step(U[:, 0], layer.init_state(2), ONES[:3])


@pytest.mark.parametrize("make", [LAYERS[0], *LAYERS[3:]])
def test_both_directions_are_no_stream(make):
    layer, state = make(bidirectional=True), make().init_state(2)
    for act in (lambda: layer(U, state=state), lambda: layer.init_state(2),
                lambda: layer.step(U[:, 0], state)):
        with pytest.raises(ValueError, match="bidirectional layer"):
            act()


def test_a_full_cache():
    layer = Attention(8, capacity=7, rngs=RNGS)
    _, state = layer(U)
    _, state = layer.step(U[:, 0], state)
    text = (r"room for 7 samples \(capacity\) and 8 are needed; "
            "need a larger capacity")
    with pytest.raises(ValueError, match=text):
        layer.step(U[:, 0], state)
    with pytest.raises(ValueError, match="room for 7 .* and 12 are needed"):
        layer(np.concatenate([U, U], 1))


def test_sizes_and_names():
    for make in (LSTM, GRU, Attention):
        with pytest.raises(ValueError, match="H is 0, a whole number ≥ 1"):
            make(0, rngs=RNGS)
        with pytest.raises(ValueError, match="rngs is 0, an nnx.Rngs"):
            make(8, rngs=0)
    with pytest.raises(ValueError, match="N is 0, a whole number ≥ 1"):
        LSSL(4, 0, rngs=RNGS)
    with pytest.raises(ValueError, match="H is 12 and heads is 4; need H divis"):
        LinearAttention(12, rngs=RNGS)
    with pytest.raises(ValueError, match="capacity is 1.5"):
        Attention(8, capacity=1.5, rngs=RNGS)
    with pytest.raises(ValueError, match="chunk is 0"):
        LinearAttention(8, chunk=0, rngs=RNGS)
    with pytest.raises(ValueError, match="kernel_method is 'fast'; need one of"):
        LSSL(4, 4, kernel_method="fast", rngs=RNGS)
    with pytest.raises(ValueError, match="d, the features of a head, is 3"):
        rotate(np.zeros((1, 2, 1, 3), np.float32), np.zeros((1, 2), np.float32))


def test_dense_systems():
    p = lssl_initialize(jax.random.key(0), 3, 4)
    A, B, C, D = p["A"], p["B"], p["C"], p["D"]
    u, dt = np.zeros((5, 3), np.float32), np.full(3, 0.1, np.float32)
    with pytest.raises(ValueError, match="method is 'fft'; need one of"):
        lssl_kernel(A, B, C[0], 0.1, 5, method="fft")
    with pytest.raises(ValueError, match="dt_min, dt_max are 0.1, 0.01"):
        lssl_initialize(jax.random.key(0), 3, 4, dt_min=0.1, dt_max=0.01)
    for change, text in (
            ({"A": A[:3]}, r"A has shape \(3, 4\); need \(4, 4\) or \(3, 4, 4\)"),
            ({"B": B[:3]}, r"B has shape \(3,\); need \(4,\) or \(3, 4\)"),
            ({"C": C[:2]}, r"C has shape \(2, 4\); need \(3, 4\)"),
            ({"dt": dt[:2]}, r"dt has shape \(2,\); need \(\) or \(3,\)"),
            ({"dt": -dt}, "dt is .*; need finite numbers > 0"),
            ({"A": A * 1j}, "A has dtype complex64; need real numbers"),
            ({"u": u[:, :2]}, r"u has shape \(5, 2\); need \(5, 3\)"),
            ({"u": u[0]}, r"u has shape \(3,\); need \(L, H\)")):
        given = dict(A=A, B=B, C=C, D=D, dt=dt, u=u) | change
        with pytest.raises(ValueError, match=text):
            lssl_apply(**given)
    with pytest.raises(ValueError, match="mode is 'convolution' and steps"):
        lssl_apply(A, B, C, D, dt, u, steps=ONES[:5], mode="convolution")
    with pytest.raises(ValueError, match=r"x0 has shape \(3, 3\)"):
        lssl_step(A, B, C, D, dt, u[0], np.zeros((3, 3), np.float32))
    with pytest.raises(ValueError, match=r"step has shape \(2,\)"):
        lssl_step(A, B, C, D, dt, u[0], np.zeros((3, 4), np.float32),
                  step=ONES[:2])
