"""Layers refuse what they cannot do, by name."""

import jax
import numpy as np
import pytest
from flax import nnx

from annotated_ssm.interface import Identity, generate, log_decay
from annotated_ssm.layers import DSS, S4, S4D, S5
from annotated_ssm.models import SequenceClassifier

U = np.zeros((2, 6, 4), np.float32)


@pytest.fixture(scope="module")
def both():
    return S5(4, 4, bidirectional=True, rngs=nnx.Rngs(0))


@pytest.mark.parametrize("make", [lambda: S5(4, 4, rngs=nnx.Rngs(0)),
                                  lambda: Identity(4)])
def test_shape_of_u(make):
    layer = make()
    with pytest.raises(ValueError, match=r"u has shape \(2, 6, 3\), "
                                         r"\(batch, L, H\) with H = 4"):
        layer(U[..., :3])
    with pytest.raises(ValueError, match=r"u has shape \(6, 4\)"):
        layer(U[0])
    with pytest.raises(ValueError, match=r"u_k has shape \(2, 6, 4\), \(batch, H\)"):
        layer.step(U, layer.init_state(2))


@pytest.mark.parametrize("make, width", [(lambda: S5(4, 4, rngs=nnx.Rngs(0)), 2),
                                         (lambda: Identity(4), 0)])
def test_shape_of_the_state(make, width):
    layer = make()
    with pytest.raises(ValueError, match=rf"^state has shape \(3, {width}\), "
                                         rf"\(2, {width}\) is needed"):
        layer(U, state=np.zeros((3, width), np.complex64))


def test_shape_of_the_state_of_a_stream():
    layer = S5(4, 4, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"^state has shape \(2, 4\), \(2, 2\)"):
        layer.step(U[:, 0], np.zeros((2, 4), np.complex64))


@pytest.mark.parametrize("make", [lambda: S5(4, 4, rngs=nnx.Rngs(0)),
                                  lambda: Identity(4)])
def test_lists_are_as_good_as_arrays(make):
    layer = make()
    steps, mask = np.ones((2, 6), np.float32), np.arange(6) < [[4], [6]]
    y, state = layer(U + 1, steps, mask)
    y_list, state_list = layer((U + 1).tolist(), steps.tolist(), mask.tolist())
    np.testing.assert_array_equal(y_list, y)
    np.testing.assert_array_equal(state_list, state)
    y, state = layer.step(U[:, 0] + 1, state, 0.5)
    y_list, again = layer.step((U[:, 0] + 1).tolist(), state_list.tolist(), 0.5)
    np.testing.assert_array_equal(y_list, y)
    np.testing.assert_array_equal(again, state)


@pytest.mark.parametrize("sizes, words", [
    ((3.0, 4), "H is 3.0; need a whole number ≥ 1"),
    (("3", 4), "H is '3'; need a whole number"),
    ((0, 4), "H is 0; need a whole number ≥ 1"),
    ((3, 4.0), "P is 4.0; need a whole number"),
])
def test_sizes(sizes, words):
    with pytest.raises(ValueError, match=words):
        S5(*sizes, rngs=nnx.Rngs(0))


def test_sizes_of_the_identity():
    with pytest.raises(ValueError, match="H is 3.0, a whole number ≥ 1 is needed"):
        Identity(3.0)


@pytest.mark.parametrize("wrong", [0, None, jax.random.key(0)])
def test_a_seed_is_no_source_of_keys(wrong):
    with pytest.raises(ValueError, match="(?s)rngs is .*an nnx.Rngs is needed"):
        S5(4, 4, rngs=wrong)
    with pytest.raises(ValueError, match="(?s)rngs is .*an nnx.Rngs is needed"):
        SequenceClassifier(1, 2, 4, 1, Identity, rngs=wrong)


def test_bidirectional_does_not_stream(both):
    with pytest.raises(ValueError, match="from both ends.*run step by step"):
        both.step(U[:, 0], np.zeros((2, 2), np.complex64))
    with pytest.raises(ValueError, match="from both ends.*run as a stream"):
        both.init_state(2)
    _, state = both(U)
    with pytest.raises(ValueError, match="from both ends.*continue from a state"):
        both(U, state=state)


def test_growing_eigenvalue():
    with pytest.raises(ValueError, match="real_part must be ≤ 0.*0.25"):
        log_decay(np.array([-1.0, 0.25]))


def test_mask_that_is_no_prefix(both):
    mask = np.array([True, False, True, True, True, True])
    with pytest.raises(ValueError, match="mask"):
        both(U, mask=mask)


def test_odd_number_of_states():
    with pytest.raises(ValueError, match="P"):
        S5(4, 5, rngs=nnx.Rngs(0))


@pytest.mark.parametrize("chunk", [0, 2.5])
def test_a_chunk_is_checked_when_the_layer_is_built(chunk):
    with pytest.raises(ValueError, match=f"^chunk is {chunk}; need"):
        S5(4, 4, chunk=chunk, rngs=nnx.Rngs(0))


@pytest.mark.parametrize("option", ["method", "scan_method"])
def test_names_are_checked_when_the_layer_is_built(option):
    with pytest.raises(ValueError, match=f"^{option} is 'zohh', one of '"):
        S5(4, 4, rngs=nnx.Rngs(0), **{option: "zohh"})


@pytest.mark.parametrize("mask, words", [
    (np.ones(5, bool), r"mask has shape \(5,\); need \(6,\) or \(2, 6\)"),
    (np.ones(1, bool), r"mask has shape \(1,\)"),
    (np.ones((2, 1), bool), r"mask has shape \(2, 1\)"),
    (np.ones(6), "mask has dtype float64; need bool"),
    (np.arange(6) > 2, "mask has True after False"),
])
@pytest.mark.parametrize("layer", [S5(4, 4, rngs=nnx.Rngs(0)), Identity(4)])
def test_masks_are_refused_alike_by_every_layer(layer, mask, words):
    with pytest.raises(ValueError, match=words):
        layer(U, mask=mask)


BANKS = {"S4": lambda **o: S4(4, 4, rngs=nnx.Rngs(0), **o),
         "S4D": lambda **o: S4D(4, 4, rngs=nnx.Rngs(0), **o),
         "DSS": lambda **o: DSS(4, 4, rngs=nnx.Rngs(0), **o)}


@pytest.mark.parametrize("name", BANKS)
def test_banks_refuse_what_does_not_fit(name):
    layer, both = BANKS[name](), BANKS[name](bidirectional=True)
    state = np.zeros((2, 4, 3), np.complex64)
    with pytest.raises(ValueError, match=r"u has shape \(2, 6, 3\), .*H = 4"):
        layer(U[..., :3])
    with pytest.raises(ValueError, match=r"state has shape \(2, 4, 3\), \(2, 4, 2\)"):
        layer(U, state=state)
    with pytest.raises(ValueError, match=r"state has shape \(2, 4, 3\), \(2, 4, 2\)"):
        layer.step(U[:, 0], state)
    with pytest.raises(ValueError, match="mask has True after False"):
        layer(U, mask=np.arange(6) > 2)
    with pytest.raises(ValueError, match="steps"):
        layer(U, -np.ones(6))
    with pytest.raises(ValueError, match="rate"):
        layer(U, rate=-1.0)
    for call in (lambda: both.init_state(2), lambda: both.step(U[:, 0], state),
                 lambda: both(U, state=state)):
        with pytest.raises(ValueError, match="from both ends"):
            call()


@pytest.mark.parametrize("name", BANKS)
@pytest.mark.parametrize("options, words", [
    ({"method": "euler"}, "method is 'euler', one of"),
    ({"mode": "scan"}, "mode is 'scan', one of"),
    ({"dt_min": 0.0}, "dt_min"),
])
def test_banks_refuse_unknown_options(name, options, words):
    with pytest.raises(ValueError, match=words):
        BANKS[name](**options)


@pytest.mark.parametrize("make", [S4, S4D, DSS])
@pytest.mark.parametrize("sizes", [(0, 4), (3, 5), (3, 0), (2.5, 4), (3, 4.0), ("3", 4)])
def test_sizes_of_banks(make, sizes):
    wrong = "H" if not (hasattr(sizes[0], "__index__") and sizes[0]) else "N"
    with pytest.raises(ValueError, match=f"^{wrong} is "):
        make(*sizes, rngs=nnx.Rngs(0))


@pytest.mark.parametrize("options, words", [
    ({"form": "softplus"}, "form is 'softplus', one of 'exp', 'softmax'"),
    ({"form": "softmax"}, "length is None and form is 'softmax'"),
    ({"length": 8}, "length is 8 and form is 'exp'"),
    ({"form": "softmax", "length": 0}, "length is 0"),
    ({"form": "softmax", "length": 2.5}, "length is 2.5"),
    ({"init": "real"}, "init is 'real', one of"),
])
def test_options_of_dss(options, words):
    with pytest.raises(ValueError, match=words):
        BANKS["DSS"](**options)


@pytest.mark.parametrize("options, words", [
    ({"measure": "legz"}, "measure is 'legz'"),
    ({"kernel_method": "cauchy"}, "kernel_method is 'cauchy', one of 'auto', 'naive'"),
    ({"kernel_method": "krylov", "C_tilde": 6},
     "kernel_method is 'krylov', one of 'auto', 'cauchy'"),
    ({"C_tilde": 0}, "C_tilde is 0"),
    ({"C_tilde": 6, "method": "zoh"}, "C_tilde is 6, method is 'zoh'"),
])
def test_options_of_s4(options, words):
    with pytest.raises(ValueError, match=words):
        BANKS["S4"](**options)


def test_what_the_C_of_the_paper_cannot_do():
    layer = BANKS["S4"](C_tilde=6)
    state = np.zeros((2, 4, 2), np.complex64)
    with pytest.raises(ValueError, match=r"with_true_C\(\)"):
        layer.step(U[:, 0], state)
    for wrong in (lambda: layer(U, state=state), lambda: layer(U, rate=2.0),
                  lambda: layer(np.zeros((1, 7, 4))), lambda: layer(U, np.ones(6))):
        with pytest.raises(ValueError, match="C_tilde is 6: need"):
            wrong()


def test_uneven_steps_of_a_zero_order_hold_of_s4():
    with pytest.raises(ValueError, match="steps are given and method is 'zoh'"):
        BANKS["S4"](method="zoh")(U, np.ones(6))


@pytest.mark.parametrize("length, chunk, words", [
    (-1, 4, "length is -1"), (2.0, 4, "length is 2.0"), (True, 4, "length is True"),
    (3, 0, "chunk is 0"), (3, "4", "chunk is '4'"), (3, True, "chunk is True"),
])
def test_generation_in_chunks(length, chunk, words):
    layer = BANKS["S4D"]()
    with pytest.raises(ValueError, match=words):
        generate(layer, U[:, 0], layer.init_state(2), length, chunk=chunk)


LAYERS = BANKS | {"S5": lambda **o: S5(4, 4, rngs=nnx.Rngs(0), **o)}


@pytest.mark.parametrize("name", [*LAYERS, "Identity"])
def test_every_layer_refuses_the_same_times(name):
    layer = Identity(4) if name == "Identity" else LAYERS[name]()
    state = layer.init_state(2)
    for wrong in (-1.0, np.nan, "2", 1e39, 1e-50)[:3 if name == "Identity" else 5]:
        with pytest.raises(ValueError, match="^(rate|dt) is"):
            layer(U, rate=wrong)
    for wrong in (-np.ones(6), np.ones(5), np.full(6, np.inf), 1j * np.ones(6)):
        with pytest.raises(ValueError, match="^steps "):
            layer(U, wrong)
    for wrong in (-1.0, np.nan, np.ones(3)):
        with pytest.raises(ValueError, match="^step "):
            layer.step(U[:, 0], state, wrong)
    with pytest.raises(ValueError, match="^u has dtype complex"):
        layer(U + 1j)
    with pytest.raises(ValueError, match="^u_k has dtype complex"):
        layer.step(U[:, 0] + 1j, state)
    with pytest.raises(ValueError, match="^state has shape"):
        layer.step(U[:, 0], state[:1])


@pytest.mark.parametrize("name", LAYERS)
def test_steps_beyond_single_precision(name):
    layer = LAYERS[name]()
    with pytest.raises(ValueError, match="^steps contains 1e[+]39"):
        layer(U, np.full(6, 1e39))
    with pytest.raises(ValueError, match="^step contains 1e[+]39"):
        layer.step(U[:, 0], layer.init_state(2), 1e39)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("ends", [(1.0, np.inf), (0.1, 0.01), (0.0, 1.0),
                                  ("a", 1.0), (1e-3, None), (np.nan, 1.0)])
def test_range_of_initial_steps(name, ends):
    with pytest.raises(ValueError, match="^dt_min, dt_max are "):
        LAYERS[name](dt_min=ends[0], dt_max=ends[1])


@pytest.mark.parametrize("make", [S4, S4D, DSS, S5])
@pytest.mark.parametrize("H", [None, True, 0, 2.0])
def test_number_of_features(make, H):
    with pytest.raises(ValueError, match="^H is "):
        make(H, 4, rngs=nnx.Rngs(0))


def test_a_traced_rate_cannot_pass_the_C_of_the_paper():
    layer = BANKS["S4"](C_tilde=6)
    with pytest.raises(ValueError, match="rate 1, not traced"):
        jax.jit(lambda rate: layer(U, rate=rate)[0])(2.0)


def test_a_method_of_the_kernel_that_would_be_ignored():
    with pytest.raises(ValueError, match="kernel_method is 'naive' and method is 'zoh'"):
        BANKS["S4"](method="zoh", kernel_method="naive")


def test_a_step_of_a_zero_order_hold_of_s4():
    layer = BANKS["S4"](method="zoh")
    with pytest.raises(ValueError, match="^step is given and method is 'zoh'"):
        layer.step(U[:, 0], layer.init_state(2), 1.0)


@pytest.mark.parametrize("change, words", [
    ({"state": None}, "state is None; need one"),
    ({"key": 0}, "key is 0; need a key"),
    ({"feed": lambda y, key: y[:, :2]}, r"feed's result has shape \(2, 2\) and u_0 \(2, 4\)"),
    ({"u_0": np.array([["a"] * 4] * 2)}, "u_0 has dtype <U1"),
])
def test_what_cannot_be_generated(change, words):
    layer = BANKS["S4D"]()
    given = dict(u_0=U[:, 0], state=layer.init_state(2), length=3, feed=None,
                 key=None) | change
    with pytest.raises(ValueError, match=words):
        generate(layer, **given)


def test_generation_takes_the_dtypes_of_what_is_fed():
    """Whole numbers, real zeros for a state, a feed in half precision."""
    layer = BANKS["S4D"]()
    start, state = np.ones((2, 4), np.float32), layer.init_state(2)
    want, _ = generate(layer, start, state, 5)
    for u_0, x in ((start.astype(int), state), (start, np.zeros(state.shape))):
        np.testing.assert_array_equal(generate(layer, u_0, x, 5)[0], want)
    y, (u_next, _) = generate(layer, start, state, 5,
                              feed=lambda y, key: y.astype("bfloat16"))
    assert (y.dtype, u_next.dtype) == ("float32", "bfloat16")
