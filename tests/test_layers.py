"""Layers: three ways to run them, masks, parameters, and what JAX sees."""

import functools
import math
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jaxprs import arrays

from annotated_ssm import s5, scan
from annotated_ssm.interface import (SLOWEST_DECAY, Identity, SSMParam,
                                     generate, log_decay, parameter_table,
                                     to_complex)
from annotated_ssm.layers import DSS, S4, S4D, S5

H, L, BATCH = 5, 24, 3
EPS = np.finfo(np.float32).eps
CAUSAL = {
    "hippo": functools.partial(S5, P=8),
    "blocks": functools.partial(S5, P=12, blocks=3),
    "bilinear": functools.partial(S5, P=8, method="bilinear"),
    "lin": functools.partial(S5, P=8, init="lin"),
    "inv": functools.partial(S5, P=8, init="inv"),
    "random": functools.partial(S5, P=8, init="random"),
    "skew": functools.partial(S5, P=8, init="skew"),
    **{name: functools.partial(S5, P=8, scan_method=name)
       for name in scan.METHODS if name != "time_invariant"},
    "chunks of 7": functools.partial(S5, P=8, scan_method="chunked", chunk=7),
    "s4": functools.partial(S4, N=8),
    "s4 untied": functools.partial(S4, N=4, measure="legt", tied=False),
    "s4d": functools.partial(S4D, N=8),
    "s4d real": functools.partial(S4D, N=4, init="real", method="bilinear"),
    "dss": functools.partial(DSS, N=8),
    "dss softmax": functools.partial(DSS, N=4, form="softmax", length=L),
    "identity": Identity,
}
BOTH = {name: functools.partial(CAUSAL[name], bidirectional=True)
        for name in ("hippo", "s4", "s4d", "dss softmax")}
BANKS = ["s4", "s4 untied", "s4d", "s4d real", "dss", "dss softmax"]
LAYERS = CAUSAL | {f"{name} both ways": made for name, made in BOTH.items()}


def make(name, seed=0):
    return LAYERS[name](H, rngs=nnx.Rngs(seed))


def inputs(seed=1, shape=(BATCH, L, H)):
    rng = np.random.default_rng(seed)
    steps = rng.uniform(0.5, 2.0, shape[:2]).astype(np.float32)
    return rng.standard_normal(shape).astype(np.float32), steps


@nnx.jit
def call(layer, *args):
    return layer(*args)


@nnx.jit
def advance(layer, u_k, state, step):
    return layer.step(u_k, state, step)


def close(a, b, scale=1.0):
    # each output sums some hundred products of float32 numbers of this scale
    np.testing.assert_allclose(a, b, rtol=0, atol=300 * EPS * max(scale, 1.0))


def train_step(graph, optimizer, traces):
    """A compiled update of (params, optimizer state), counting its traces."""
    @jax.jit
    def update(params, state, u):
        traces.append(1)

        def loss(params):
            y, _ = nnx.merge(graph, params)(u)
            return jnp.mean((y - u) ** 2)

        value, gradient = jax.value_and_grad(loss)(params)
        change, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, change), state, value
    return update


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_and_chunks_equal_the_parallel_form(name):
    layer, (u, steps) = make(name), inputs()
    y, last = call(layer, u, steps)
    scale = float(jnp.abs(y).max())

    state, outputs = layer.init_state(BATCH), []
    for k in range(L):
        y_k, state = advance(layer, u[:, k], state, steps[:, k])
        outputs.append(y_k)
    close(jnp.stack(outputs, 1), y, scale)
    close(state, last, scale)

    state, outputs = None, []
    for part in (slice(0, 1), slice(1, 17), slice(17, L)):
        y_part, state = call(layer, u[:, part], steps[:, part], None, state)
        outputs.append(y_part)
    close(jnp.concatenate(outputs, 1), y, scale)
    close(state, last, scale)


@pytest.mark.parametrize("name", LAYERS)
def test_padded_batch_equals_each_sequence_alone(name):
    layer, (u, steps) = make(name), inputs()
    lengths = (L, 7, 1)
    mask = np.arange(L) < np.array(lengths)[:, None]
    nonsense = np.where(mask[..., None], u, 1e3).astype(np.float32)
    y, state = call(layer, nonsense, np.where(mask, steps, np.nan), mask)
    scale = float(jnp.abs(y).max())
    for row, n in enumerate(lengths):
        alone, last = call(layer, u[row:row + 1, :n], steps[row:row + 1, :n])
        close(y[row, :n], alone[0], scale)
        axis = int(name.endswith("both ways"))
        close(jnp.take(state, row, axis), jnp.take(last, 0, axis), scale)
        np.testing.assert_array_equal(y[row, n:], 0.0)


@pytest.mark.parametrize("name", ["dss", "s4d real", "s4 both ways"])
def test_padded_batch_is_convolved_as_each_sequence_alone(name):
    layer, (u, _) = make(name), inputs()
    lengths = (7, L, 7)
    mask = np.arange(L) < np.array(lengths)[:, None]
    y, state = call(layer, np.where(mask[..., None], u, np.nan), None, mask)
    scale = float(jnp.abs(y).max())
    for row, n in enumerate(lengths):
        alone, last = call(layer, u[row:row + 1, :n])
        close(y[row, :n], alone[0], scale)
        axis = int(name.endswith("both ways"))
        close(jnp.take(state, row, axis), jnp.take(last, 0, axis), scale)


@pytest.mark.parametrize("name", BANKS)
def test_convolution_is_the_recurrence(name):
    u, _ = inputs()
    convolved, last = call(make(name), u)
    layer = CAUSAL[name](H, mode="recurrence", rngs=nnx.Rngs(0))
    y, state = call(layer, u)
    scale = float(jnp.abs(y).max())
    close(convolved, y, scale)
    close(last, state, scale)


@pytest.mark.parametrize("name", ["s4", "s4d", "dss softmax"])
def test_a_sequence_longer_than_in_training_is_not_cut(name):
    """The kernel is as long as the input: a piece of it never ends early."""
    layer = make(name)
    u = np.zeros((1, 4 * L, H), np.float32)
    u[:, 0] = 1
    y, _ = call(layer, u)
    head, state = call(layer, u[:, :L])
    tail, _ = call(layer, u[:, L:], None, None, state)
    close(jnp.concatenate([head, tail], 1), y, float(jnp.abs(y).max()))
    assert float(jnp.abs(y[:, L:]).max()) > 0


def test_the_C_of_the_paper_is_the_true_one_in_other_words():
    """C̃ at the start, in training and converted back; and what it refuses."""
    u, _ = inputs()
    layer = S4(H, 8, C_tilde=L, rngs=nnx.Rngs(0))
    true, back = S4(H, 8, rngs=nnx.Rngs(0)), layer.with_true_C()
    y, size = call(true, u)[0], float(jnp.abs(true.C[...]).max())
    assert layer.C_tilde == L and back.C_tilde is None
    assert not np.allclose(layer.C[...], true.C[...], atol=1e-2 * size)
    # I − Ā^L loses as many digits as its condition number, some hundred here
    np.testing.assert_allclose(back.C[...], true.C[...], atol=1e-3 * size)
    np.testing.assert_allclose(call(layer, u)[0], y,
                               atol=1e-3 * float(jnp.abs(y).max()))
    np.testing.assert_allclose(call(layer, u[:, :9])[0], y[:, :9],
                               atol=1e-3 * float(jnp.abs(y).max()))


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in ("random", "skew")])
def test_a_layer_can_be_built_without_numbers(name):
    """As a restored checkpoint or a sharded start needs it."""
    abstract = nnx.eval_shape(lambda: make(name))
    shapes = [leaf.shape for leaf in jax.tree.leaves(nnx.state(abstract))]
    assert shapes == [leaf.shape for leaf in jax.tree.leaves(nnx.state(make(name)))]


@pytest.mark.parametrize("name", ["hippo", *BANKS])
def test_parameters_in_half_precision(name):
    layer, (u, _) = make(name), inputs()
    nnx.update(layer, jax.tree.map(lambda a: a.astype(jnp.bfloat16),
                                   nnx.state(layer, nnx.Param)))
    y, state = layer(u)
    assert y.dtype == jnp.float32 and state.dtype == jnp.complex64
    assert np.all(np.isfinite(y))


@pytest.mark.parametrize("name", ["hippo", "s4", "s4d", "identity"])
@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_generation_is_a_loop_of_steps(name, chunk):
    layer, (u, _) = make(name), inputs()
    feed = functools.partial(jnp.multiply, 0.5)
    u_k, state, expected = u[:, 0], layer.init_state(BATCH), []
    for _ in range(12):
        y_k, state = advance(layer, u_k, state, None)
        expected.append(y_k)
        u_k = feed(y_k)
    y, (u_next, last) = generate(layer, u[:, 0], layer.init_state(BATCH), 12,
                                 feed=lambda y, key: feed(y), chunk=chunk)
    close(y, jnp.stack(expected, 1))
    close(u_next, u_k)
    close(last, state)


def test_generation_draws_with_keys_that_differ():
    layer, (u, _) = make("s4d"), inputs()
    draw = lambda y, key: jax.random.normal(key, y.shape)
    run = lambda key, chunk: generate(layer, u[:, 0], layer.init_state(BATCH), 9,
                                      feed=draw, key=jax.random.key(key),
                                      chunk=chunk)[0]
    close(run(0, 4), run(0, 9))
    assert not np.allclose(run(0, 9), run(1, 9))


@pytest.mark.parametrize("name", LAYERS)
def test_steps_and_rate_multiply(name):
    layer, (u, steps) = make(name), inputs()
    close(call(layer, u, 3.0 * steps)[0], call(layer, u, steps, None, None, 3.0)[0])
    close(call(layer, u, np.full(L, 2.0, np.float32))[0],
          call(layer, u, None, None, None, 2.0)[0])
    moved = float(jnp.abs(call(layer, u, steps)[0] - call(layer, u)[0]).max())
    assert (moved == 0.0) == (name == "identity")


def test_rate_of_a_step():
    layer, (u, _) = make("hippo"), inputs()
    x = layer.init_state(BATCH)
    y, state = layer.step(u[:, 0], x, 2.0, 1.5)
    other, same = layer.step(u[:, 0], x, np.full(BATCH, 3.0, np.float32))
    close(y, other)
    close(state, same)


def test_the_layer_is_the_function_of_chapter_9():
    key = nnx.Rngs(3).params()
    start = s5.initialize(key, H, 8, bidirectional=True)
    u, steps = inputs()
    expected, _ = s5.apply_ssm(
        jax.lax.complex(start["Lambda_re"], start["Lambda_im"]),
        to_complex(start["B"]), to_complex(start["C"]), start["D"],
        jnp.exp(start["log_dt"]), u, steps=steps, bidirectional=True)
    y, _ = make("hippo both ways", 3)(u, steps)
    close(y, expected)


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_are_real_float32_without_weak_types(name):
    for leaf in jax.tree.leaves(nnx.state(make(name))):
        assert leaf.dtype == jnp.float32 and not leaf.weak_type


def test_which_parameters_belong_to_the_dynamics():
    layer = make("hippo")
    dynamics, readout = nnx.state(layer, SSMParam, nnx.Param)
    assert set(dynamics) == {"Lambda_log_decay", "Lambda_im", "B", "log_dt"}
    assert set(readout) == {"C", "D"}
    table = parameter_table(layer)
    assert table.count("SSM: own learning rate, no decay") == 4
    assert table.splitlines()[-1].split() == ["total", "97"]
    dynamics, readout = nnx.state(make("s4"), SSMParam, nnx.Param)
    assert set(dynamics) == {"Lambda_log_decay", "Lambda_im", "P", "B", "log_dt"}
    assert set(readout) == {"C", "D"}
    assert set(make("dss").parameters()) == {"Lambda_log_decay", "Lambda_im",
                                             "C", "D", "log_dt"}


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("P", [2, 8])
def test_parameter_count(P, bidirectional):
    layer = S5(H, P, bidirectional=bidirectional, rngs=nnx.Rngs(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(layer)))
    assert count == 3 * P // 2 + H + P * H * (3 if bidirectional else 2)


# With real eigenvalues the imaginary parts of C and B have no effect.
@pytest.mark.parametrize(
    "name", [n for n in LAYERS if n not in ("identity", "s4d real")])
def test_gradient_reaches_every_parameter(name):
    graph, params = nnx.split(make(name))
    u, steps = inputs()

    @jax.jit
    @jax.grad
    def gradient(params):
        return jnp.mean((nnx.merge(graph, params)(u, steps)[0] - u) ** 2)

    for path, leaf in nnx.to_flat_state(gradient(params)):
        g = np.asarray(leaf[...])
        assert np.all(np.isfinite(g)) and np.all(np.any(g != 0, axis=0)), path


def test_decay_stays_and_keeps_its_gradient():
    layer = make("hippo")
    for θ in (-30.0, -3.0, 0.0, 3.0):
        layer.Lambda_log_decay[...] = jnp.full(4, θ, jnp.float32)
        assert np.all(np.asarray(layer.dynamics()[0].real) < 0)
        slope = jax.grad(lambda t: -jnp.exp(t))(jnp.float32(θ))
        assert slope < 0


def test_log_decay_inverts():
    real = np.array([-0.5, -3e4, -1e-3, 0.0], np.float32)
    back = -jnp.exp(log_decay(real))
    np.testing.assert_allclose(back, [-0.5, -3e4, -1e-3, -SLOWEST_DECAY], rtol=3e-6)


def test_eigenvalues_move_away_from_the_axis_and_back():
    layer = make("hippo")
    graph, params = nnx.split(layer)

    def real_parts(params):
        return jnp.mean(nnx.merge(graph, params).dynamics()[0].real)

    descend = jax.jit(lambda p: jax.tree.map(
        lambda a, g: a + 8.0 * g, p, jax.grad(lambda p: real_parts(p))(p)))
    before = real_parts(params)
    for _ in range(5):
        params = descend(params)
    assert before < real_parts(params) < 0


@pytest.mark.parametrize("name", LAYERS)
def test_a_forward_pass_changes_nothing(name):
    layer, (u, steps) = make(name), inputs()
    before = [np.array(leaf) for leaf in jax.tree.leaves(nnx.state(layer))]
    layer(u, steps)
    after = jax.tree.leaves(nnx.state(layer))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_seed_decides():
    one, same, other = make("hippo", 0), make("hippo", 0), make("hippo", 1)
    np.testing.assert_array_equal(one.C[...], same.C[...])
    assert not np.array_equal(one.C[...], other.C[...])


def test_one_trace_for_two_updates():
    u, _ = inputs()
    graph, params = nnx.split(make("blocks"))
    optimizer, traces = optax.adamw(1e-3), []
    update = train_step(graph, optimizer, traces)
    state, losses = optimizer.init(params), []
    for _ in range(3):
        params, state, value = update(params, state, u)
        losses.append(float(value))
    assert len(traces) == 1 and losses[2] < losses[0]


def test_no_array_of_size_length_times_states_times_features():
    layer, (u, steps) = make("hippo"), inputs()
    largest = BATCH * L * max(H, 8 // 2, 2 * 4)
    sizes = [math.prod(shape) for shape, _ in arrays(
        lambda u: layer(u, steps)[0], u)]
    assert max(sizes) <= largest < BATCH * L * H * 4


MODES = [{}, {"NNX_GRAPH_MODE": "false", "NNX_GRAPH_UPDATES": "false"}]


@pytest.mark.parametrize("mode", MODES, ids=["graph", "tree"])
def test_both_modes_of_nnx(mode):
    """A model trains, evaluates and streams in a process of either mode."""
    root = Path(__file__).parent.parent
    result = subprocess.run(
        [sys.executable, str(root / "tests" / "nnx_modes.py")],
        env=os.environ | mode | {"PYTHONPATH": str(root)},
        capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.split() == ["traces", "1", "ok"]
