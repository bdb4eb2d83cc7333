"""Public reports about state, time, padding and scans: one test for each kind.

Every layer of the book runs here, the baselines too, in double precision. Which
test answers which report is listed in tests/test_reports.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import scan
from annotated_ssm.attention import Attention, LinearAttention
from annotated_ssm.baselines import LSSL
from annotated_ssm.interface import Identity, generate
from annotated_ssm.layers import DSS, S4, S4D, S5
from annotated_ssm.models import Backbone
from annotated_ssm.recurrent import GRU, LSTM

H, N, L, BATCH = 4, 16, 64, 2
LENGTHS = (1, 2, 3, 5, 8, 13, L)
RANGE = dict(dt_min=0.01, dt_max=0.3)
#: name -> a layer that knows intervals
TIMED = {
    "S5": functools.partial(S5, P=N, blocks=2, **RANGE),
    "S5 associative": functools.partial(
        S5, P=N, scan_method="associative", **RANGE),
    "S5 chunked": functools.partial(S5, P=N, scan_method="chunked", **RANGE),
    "S4": functools.partial(S4, N=N, **RANGE),
    "S4D": functools.partial(S4D, N=N, **RANGE),
    "DSS": functools.partial(DSS, N=N, **RANGE),
    "LSSL": functools.partial(LSSL, N=N, **RANGE),
    "LSTM": functools.partial(LSTM, append_steps=True),
    "attention": functools.partial(Attention, heads=2, capacity=2 * L),
    "linear attention": functools.partial(LinearAttention, heads=2, chunk=5),
}
#: those that count samples, or whose method has one kernel
UNTIMED = {
    "S5 time-invariant": functools.partial(
        S5, P=N, scan_method="time_invariant", **RANGE),
    "S4 zoh": functools.partial(S4, N=N, method="zoh", **RANGE),
    "GRU": GRU,
}
CAUSAL = TIMED | UNTIMED
BOTH = {name: functools.partial(make, bidirectional=True)
        for name, make in CAUSAL.items() if name not in ("LSTM", "GRU")}
#: exact for an input that is held between samples
HELD = ["S5", "S5 associative", "S5 chunked", "S4D", "DSS"]
SSM = [name for name in BOTH if name.startswith(("S5", "S4", "DSS"))]
every_layer = pytest.mark.parametrize("name", CAUSAL)


def with_intervals_too(names):
    """(name, timed): every layer without intervals, and with them if it knows them."""
    return [(n, timed) for n in names for timed in ((False, True) if n in TIMED
                                                    else (False,))]


def double(module):
    graph, state = nnx.split(module)
    return nnx.merge(graph, jax.tree.map(
        lambda a: a.astype(jnp.float64) if a.dtype == jnp.float32 else a, state))


@functools.cache
def layer(name, bidirectional=False):
    made = (BOTH if bidirectional else CAUSAL)[name]
    return double(made(H, rngs=nnx.Rngs(0)))


def draw(name, seed=0, shape=(BATCH, L)):
    """Inputs, and intervals for a layer that knows them."""
    rng = np.random.default_rng(seed)
    steps = rng.uniform(0.3, 2, shape)
    return rng.normal(size=(*shape, H)), steps if name in TIMED else None


def cut(a, s):
    return None if a is None else a[:, s]


call = nnx.jit(lambda layer, *a: layer(*a))
advance = nnx.jit(lambda layer, *a: layer.step(*a))


def close(got, want, atol=1e-10, name=None):
    # Flax takes the softmax of attention in float32, whatever it is given; times
    # of some 2L turn its queries, in float32 too.
    single = 8 * L * H * np.finfo(np.float32).eps
    atol = single if name == "attention" else atol
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=atol * scale)


def take(state, row, bidirectional=False):
    return jax.tree.map(lambda a: a[:, row] if bidirectional else a[row], state)


# State


@pytest.mark.parametrize("name, timed", with_intervals_too(CAUSAL))
def test_a_loop_of_steps_is_the_call(name, timed):
    """state-spaces/s4#52, #115, #135, #158; lindermanlab/S5#4; mamba#146, #806;
    mamba-minimal#19; mamba.py#26: from a state, at lengths of every kind."""
    model = layer(name)
    _, state = call(model, draw(name, 1)[0], None)       # a state of some size
    u, steps = draw(name)
    steps = steps if timed else None
    x, outputs = state, []
    for k in range(L):
        y_k, x = advance(model, u[:, k], x, None if steps is None else steps[:, k])
        outputs.append(y_k)
    y = jnp.stack(outputs, 1)
    whole, last = call(model, u, steps, None, state)
    close(whole, y, name=name)
    close(last, x, name=name)
    for n in LENGTHS[:-1] if name in ("S5", "S4") else (1, 13):
        head, _ = call(model, u[:, :n], cut(steps, slice(n)), None, state)
        close(head, y[:, :n], name=name)


@every_layer
def test_no_output_knows_the_future(name):
    """srush/annotated-s4#48; state-spaces/s4#103, #104, #122; safari#4: nothing
    wraps around, and a short run is the beginning of a long one."""
    model = layer(name)
    u, _ = draw(name, shape=(1, 8))
    y, _ = call(model, u)
    for n in 1, 2, 7:
        close(call(model, u[:, :n])[0], y[:, :n], 1e-12, name)
    for k in range(1, 8):
        other, _ = call(model, np.concatenate([u[:, :k], u[:, k:] + 10], 1))
        close(other[:, :k], y[:, :k], 1e-12, name)
        assert np.abs(other - y)[:, k:].max() > 1e-3


@pytest.mark.parametrize("name, depth", [
    *((n, 3) for n in CAUSAL), *((n, 2) for n in ("S5", "S4", "S4D", "DSS"))])
def test_state_of_one_layer_is_never_another_layers(name, depth):
    """lindermanlab/S5#19–#21: an error that only a stack of several shows."""
    model = double(Backbone(H, H, depth, CAUSAL[name], norm="layer", glu="full",
                            dropout=0.0, rngs=nnx.Rngs(0)))
    u, steps = draw(name, shape=(BATCH, 12))
    y, last = call(model, u, steps)
    assert len(last) == depth
    state, outputs = model.init_state(BATCH), []
    for k in range(4):                                # one by one,
        y_k, state = advance(model, u[:, k], state,
                             None if steps is None else steps[:, k])
        outputs.append(y_k[:, None])
    for part in slice(4, 8), slice(8, 12):            # then in pieces
        y_part, state = call(model, cut(u, part), cut(steps, part), None, state)
        outputs.append(y_part)
    close(jnp.concatenate(outputs, 1), y, name=name)
    close(state, last, name=name)
    go_on = lambda states: call(model, u[:, :4], cut(steps, slice(4)), None, states)
    out, after = go_on(last)
    for i in range(depth):                # a state reaches its own block and later
        there, other = go_on(tuple(
            zero if j == i else x for j, (x, zero) in enumerate(
                zip(last, model.init_state(BATCH)))))
        assert np.abs(there - out).max() > 1e-6
        for j in range(depth):
            pairs = zip(jax.tree.leaves(after[j]), jax.tree.leaves(other[j]))
            same = all(np.array_equal(a, b) for a, b in pairs)
            assert same == (j < i)


class Counting(nnx.Module):
    """A layer whose state also counts its steps, and that has no call."""

    def __init__(self, layer):
        self.layer = layer

    def step(self, u_k, state):
        y_k, x = self.layer.step(u_k, state[0])
        return y_k, (x, state[1] + 1)


@every_layer
def test_a_token_is_one_step(name):
    """johnma2006/mamba-minimal#11: nothing reads the prefix again."""
    tokens = 13
    model = layer(name)
    u, _ = draw(name, shape=(BATCH, 9))
    y, state = call(model, u)
    feed = lambda y, key: jnp.tanh(y)
    ys, (_, (x, count)) = generate(
        Counting(model), jnp.tanh(y[:, -1]), (state, jnp.zeros((), int)), tokens,
        feed=feed, chunk=8)
    assert int(count) == tokens == ys.shape[1]
    # and the whole, prompt and answers, run at once says the same
    fed = np.tanh(np.concatenate([y[:, -1:], ys[:, :-1]], 1))
    whole, last = call(model, np.concatenate([u, fed], 1))
    close(ys, whole[:, 9:], 1e-9, name)
    close(x, last, 1e-9, name)


# Padding


@pytest.mark.parametrize("name, bidirectional, timed", [
    (n, both, timed) for both, names in ((False, CAUSAL), (True, BOTH))
    for n, timed in with_intervals_too(names)])
def test_mixed_lengths_in_a_batch(name, bidirectional, timed):
    """state-spaces/s4#55, #86; state-spaces/mamba#236: each row of a padded
    batch is its sequence alone, in both directions too."""
    model, lengths = layer(name, bidirectional), (6, 3)
    u, steps = draw(name, shape=(2, 8))
    steps = steps if timed else None
    mask = np.arange(8) < np.array(lengths)[:, None]
    dirty = np.where(mask[..., None], u, np.nan)
    odd = None if steps is None else np.where(mask, steps, -1.0)
    y, last = call(model, dirty, odd, mask)
    for row, n in enumerate(lengths):
        alone, x = call(model, u[row:row + 1, :n],
                        None if steps is None else steps[row:row + 1, :n])
        close(y[row, :n], alone[0], 1e-12, name)
        assert not np.any(y[row, n:])
        if name != "attention":         # whose cache may keep what it never reads
            close(take(last, row, bidirectional), take(x, 0, bidirectional), 1e-12)


# Time


@pytest.mark.parametrize("name, bidirectional", [
    *((n, False) for n in TIMED), *((n, True) for n in BOTH if n in TIMED)])
def test_intervals_belong_to_their_own_sequence(name, bidirectional):
    """lindermanlab/S5#13: steps of 1 are none, and rows of a batch don't see
    each other's intervals."""
    model = layer(name, bidirectional)
    u, steps = draw(name, shape=(3, 12))
    close(call(model, u, np.ones((3, 12))), call(model, u), name=name)
    y, last = call(model, u, steps)
    order = np.array([2, 0, 1])
    mixed, moved = call(model, u[order], steps[order])
    close(mixed, y[order], 1e-13, name)
    close(moved, take(last, order, bidirectional), 1e-13, name)
    other = np.concatenate([steps[:2], 3 * steps[2:]])
    there, _ = call(model, u, other)
    np.testing.assert_array_equal(there[:2], y[:2])
    assert np.abs(there[2] - y[2]).max() > 1e-4


@pytest.mark.parametrize("name", HELD)
def test_half_the_steps_and_twice_the_points(name):
    """lindermanlab/S5#13: a held input is the same function of time."""
    model = layer(name)
    u, steps = draw(name)
    _, x0 = call(model, u)
    y, last = call(model, u, steps, None, x0)
    fine, end = call(model, np.repeat(u, 2, 1), np.repeat(steps / 2, 2, 1), None, x0)
    close(fine[:, 1::2], y, 1e-12)
    close(end, last, 1e-12)


@pytest.mark.parametrize("name, bidirectional", [
    (n, both) for n in [*HELD, "S5 time-invariant"] for both in (False, True)])
def test_another_sampling_rate_without_training_again(name, bidirectional):
    """lindermanlab/S5#13: twice the points at half the rate, in every mode and
    direction. Backward, the first of each pair has read both."""
    model = layer(name, bidirectional)
    u, _ = draw(name)
    y, last = call(model, u)
    ways = [(np.repeat(u, 2, 1), None, None, None, 0.5)]
    if name in TIMED:                          # by the recurrence as well
        ways += [(np.repeat(u, 2, 1), np.ones(2 * L), None, None, 0.5),
                 (np.repeat(u, 2, 1), np.full(2 * L, 0.5))]
    for way in ways:
        fine, end = call(model, *way)
        close(end, last, 1e-11)
        if not bidirectional:
            close(fine[:, 1::2], y, 1e-11)


@pytest.mark.parametrize("name, timed", with_intervals_too(SSM))
def test_reversed_time_swaps_the_directions(name, timed):
    """jax-ml/jax#29313; triton-lang/triton#4362: each coefficient meets its own
    input, whichever way a scan runs."""
    model = layer(name, bidirectional=True)
    u, steps = draw(name)
    steps = steps if timed else None
    y, (ahead, back) = call(model, u, steps)
    graph, state = nnx.split(model)
    swapped = nnx.merge(graph, jax.tree.map(jnp.array, state))
    swapped.C[...] = jnp.roll(model.C[...], model.C[...].shape[1] // 2, 1)
    gaps = None if steps is None else np.roll(steps, -1, 1)[:, ::-1]
    y_, (back_, ahead_) = call(swapped, u[:, ::-1], gaps)
    close(y_[:, ::-1], y, 1e-12)
    close((ahead_, back_), (ahead, back), 1e-12)


# Scans


@functools.cache
def scanned(n, constant, reverse):
    """Coefficients, inputs, and what JAX's own scan makes of them."""
    rng = np.random.default_rng(n)
    z = lambda *shape: rng.normal(size=shape) + 1j * rng.normal(size=shape)
    a, b = z(n, 3), z(n, 2, 3)
    a *= rng.uniform(0.5, 1, a.shape) / np.abs(a)
    if constant:
        a[:] = a[0]
    run = jax.jit(lambda a, b: jax.lax.associative_scan(
        lambda e, l: (l[0] * e[0], l[0] * e[1] + l[1]), (a[:, None], b),
        reverse=reverse)[1])
    return a, b, run(a, b)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("method", ("auto", *scan.METHODS))
def test_every_method_is_the_scan_of_jax(method, reverse):
    """jax-ml/jax#14190, #29313: ours against `jax.lax.associative_scan`, whose
    operator gets the later element first in reverse."""
    constant = method == "time_invariant"
    for n in LENGTHS[:-1]:
        a, b, theirs = scanned(n, constant, reverse)
        ours = jax.jit(lambda a, b: scan.linear_scan(
            a, b, reverse=reverse, method=method, chunk=4))(
                a[0] if constant else a, b)
        close(ours, theirs, 1e-13)
