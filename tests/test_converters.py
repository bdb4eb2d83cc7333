"""Layers from peers' parameters are layers: they train, step and stay as they are."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from annotated_ssm import converters, layers
from benchmarks.peers import s4_parameters, s5_parameters

REFERENCE = np.load(Path(__file__).parent / "reference.npz")
EPS = np.finfo(np.float32).eps
H, L = 3, 24


def floats(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def s5():
    p = s5_parameters(np.random.default_rng(0), H, 4)
    p["log_step"] = p.pop("log_dt")[:, None]
    return converters.from_s5({name: np.asarray(a) for name, a in p.items()})


def s4d():
    rng = np.random.default_rng(1)
    return converters.from_annotated_s4d({
        "A_re": -np.exp(floats(rng, 6, H)), "A_im": floats(rng, 6, H),
        "C": floats(rng, 6, H, 2), "D": floats(rng, 1, H),
        "log_step": floats(rng, 1, H) - 4})


def s4(true_C=True):
    p = s4_parameters(np.random.default_rng(2), H, 8)
    last = lambda a: np.moveaxis(np.asarray(a), 0, 1)
    complex_ = lambda a: last(a)[..., 0] + 1j * last(a)[..., 1]
    return converters.from_annotated_s4(
        {"Lambda_re": last(p["Λ_re"]), "Lambda_im": last(p["Λ_im"]),
         "P": complex_(p["P"]).astype(np.complex64),
         "B": complex_(p["B"]).astype(np.complex64), "C": last(p["C"]),
         "D": np.asarray(p["D"])[None], "log_step": np.asarray(p["log_dt"])[None]},
        L, true_C=true_C)[0]


@pytest.mark.parametrize("make", [s5, s4d, s4])
def test_a_loaded_layer_runs_in_every_way(make):
    layer, u = make(), floats(np.random.default_rng(3), 2, L, H)
    assert all(a.dtype == jnp.float32 for a in layer.parameters().values())
    y, last = layer(u)
    state, ys = layer.init_state(2), []
    step = nnx.jit(lambda layer, u_k, x: layer.step(u_k, x))
    for k in range(L):
        y_k, state = step(layer, u[:, k], state)
        ys.append(y_k)
    # A rounding a step, of sums over all states.
    atol = L * EPS * max(np.abs(y).max(), np.abs(last).max())
    np.testing.assert_allclose(np.stack(ys, 1), y, rtol=0, atol=atol)
    np.testing.assert_allclose(state, last, rtol=0, atol=atol)


@pytest.mark.parametrize("make", [s5, s4d, s4, lambda: s4(true_C=False)])
def test_a_loaded_layer_trains(make):
    layer, u = make(), floats(np.random.default_rng(4), 2, L, H)
    before = layer.parameters()
    optimizer = nnx.Optimizer(layer, optax.adam(1e-3), wrt=nnx.Param)
    loss = nnx.jit(nnx.value_and_grad(lambda layer: jnp.mean((layer(u)[0] - 1) ** 2)))
    first, slope = loss(layer)
    optimizer.update(layer, slope)
    second, _ = loss(layer)
    assert second < first
    for name, value in layer.parameters().items():
        assert np.isfinite(value).all() and (value != before[name]).any(), name


@pytest.mark.parametrize("make, like", [
    (s5, lambda: layers.S5(H, 8, rngs=nnx.Rngs(0))),
    (s4d, lambda: layers.S4D(H, 12, tied=False, rngs=nnx.Rngs(0)))])
def test_a_loaded_layer_has_the_parameters_of_a_new_one(make, like):
    shapes = [jax.tree.map(lambda a: (a.shape, a.dtype), nnx.state(layer()))
              for layer in (make, like)]
    assert jax.tree.structure(shapes[0]) == jax.tree.structure(shapes[1])
    assert jax.tree.leaves(shapes[0]) == jax.tree.leaves(shapes[1])


def test_there_and_back():
    """A layer's own parameters, under the peer's names, are the layer."""
    layer = layers.S5(H, 8, bidirectional=True, rngs=nnx.Rngs(5))
    p = {name: np.asarray(a) for name, a in layer.parameters().items()}
    P = layer.P // 2
    again = converters.from_s5({
        "Lambda_re": -np.exp(np.float64(p["Lambda_log_decay"])).astype(np.float32),
        "Lambda_im": p["Lambda_im"], "B": p["B"], "C1": p["C"][:, :P],
        "C2": p["C"][:, P:], "D": p["D"], "log_step": p["log_dt"][:, None]})
    for name, value in again.parameters().items():
        if name == "Lambda_log_decay":         # Re λ was rounded on the way
            np.testing.assert_allclose(value, p[name], rtol=0, atol=2 * EPS)
        else:
            np.testing.assert_array_equal(value, p[name])


def test_the_codes_outputs_in_single_precision():
    r = {k: REFERENCE[f"s5_zoh_conj_{k}"] for k in
         ("Lambda", "B", "C", "D", "log_step", "u", "y")}
    pairs = lambda z: np.stack([z.real, z.imag], -1).astype(np.float32)
    Λ = pairs(r["Lambda"])
    layer = converters.from_s5({
        "Lambda_re": Λ[:, 0], "Lambda_im": Λ[:, 1], "B": pairs(r["B"]),
        "C": pairs(r["C"]), "D": r["D"].astype(np.float32),
        "log_step": r["log_step"].astype(np.float32)[:, None]})
    y = layer(r["u"].astype(np.float32)[None])[0][0]
    np.testing.assert_allclose(y, r["y"], rtol=0,
                               atol=len(y) * EPS * np.abs(r["y"]).max())


def test_a_kept_C_tilde_has_the_peers_limits():
    layer, u = s4(true_C=False), floats(np.random.default_rng(6), 1, L + 1, H)
    y = layer(u[:, :L])[0]
    np.testing.assert_allclose(y, s4()(u[:, :L])[0], rtol=0,
                               atol=200 * EPS * np.abs(y).max())
    with pytest.raises(ValueError, match="C_tilde is 24"):
        layer(u)
    with pytest.raises(ValueError, match="with_true_C"):
        layer.step(u[:, 0], layer.init_state(1))
    longer = layer.with_true_C()(u)[0]
    np.testing.assert_allclose(longer[:, :L], y, rtol=0,
                               atol=200 * EPS * np.abs(y).max())


def test_one_layer_of_a_checkpoint():
    checkpoint = {"layers.1.D": 1, "layers.10.D": 2, "layers.1.kernel.C": 3}
    assert converters.under(checkpoint, "layers.1.") == {"D": 1, "kernel.C": 3}


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_half_precision_is_read_as_single(dtype):
    rng = np.random.default_rng(7)
    p = {"D": floats(rng, H), "kernel.C": floats(rng, H, 2, 2),
         "kernel.log_dt": floats(rng, H) - 4, "kernel.log_A_real": floats(rng, H, 2),
         "kernel.A_imag": floats(rng, H, 2)}
    p = {name: np.asarray(a, dtype) for name, a in p.items()}
    layer = converters.from_state_spaces_s4d(p)
    assert layer.C[...].dtype == jnp.float32
    np.testing.assert_array_equal(layer.C[...], p["kernel.C"].astype(np.float32))
