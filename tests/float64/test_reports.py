"""Public reports about state, time, padding and scans: one test for each kind.

Every layer of the book runs here, the baselines too, in double precision. Which
test answers which report is listed in tests/test_reports.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from annotated_ssm import checks, scan
from annotated_ssm.attention import Attention, LinearAttention
from annotated_ssm.baselines import LSSL
from annotated_ssm.interface import Identity, generate
from annotated_ssm.layers import DSS, S4, S4D, S5
from annotated_ssm.models import Backbone, SequenceClassifier
from annotated_ssm.optimizer import make_optimizer
from annotated_ssm.recurrent import GRU, LSTM
from annotated_ssm.training import TrainingConfig

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


# Complex numbers


@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("name", ["S5", "S4", "S4D", "DSS"])
def test_gradients_are_real_and_lead_downhill(name, bidirectional):
    """optax#196, #287; jaxopt#169; netket#1009: of a complex parameter JAX gives
    the conjugate of the steepest slope, and Adam would square it as it is.

    Here they are real: the slope along any direction is the scalar product with the
    gradient, and Adam's first step leads down in every leaf.
    """
    u, steps = draw(name)
    graph, params = nnx.split(layer(name, bidirectional))
    rng = np.random.default_rng(2)
    w = rng.normal(size=u.shape)
    rule = make_optimizer(params, TrainingConfig(weight_decay=0.0), 10)

    @jax.jit
    def first(params):
        loss, slopes = jax.value_and_grad(
            lambda p: jnp.sum(w * nnx.merge(graph, p)(u, steps)[0]))(params)
        return loss, slopes, *rule.update(slopes, rule.init(params), params)

    _, slopes, updates, moments = first(params)
    for tree in params, slopes, updates, moments:
        assert not any(np.iscomplexobj(a) for a in jax.tree.leaves(tree))
    for g, move in zip(*map(jax.tree.leaves, (slopes, updates)), strict=True):
        assert np.sum(np.asarray(g) * move) < 0
    way = jax.tree.map(lambda a: rng.normal(size=a.shape), params)
    there = lambda h: first(jax.tree.map(
        lambda a, v: np.asarray(a) + h * v, params, way))[0]
    fine, coarse = ((there(h) - there(-h)) / (2 * h) for h in (1e-5, 2e-5))
    parts = [np.sum(g * v)
             for g, v in zip(*map(jax.tree.leaves, (slopes, way)), strict=True)]
    # what is left of a quotient shrinks by four with half the step, up to rounding
    bound = abs(fine - coarse) + 1e-7 * np.abs(parts).max()
    assert abs(fine - sum(parts)) <= bound <= 1e-4 * np.abs(parts).max()


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


def pulled_back(run, w, *arguments):
    """What a function returns, and the cotangents of its arguments."""
    xs, pull_back = jax.vjp(run, *arguments)
    return xs, pull_back(w)


@functools.cache
def scanned(n, constant, reverse):
    """Coefficients, inputs, a cotangent, and what JAX's own scan makes of them."""
    rng = np.random.default_rng(n)
    z = lambda *shape: rng.normal(size=shape) + 1j * rng.normal(size=shape)
    a, b, w = z(n, 3), z(n, 2, 3), z(n, 2, 3)
    a *= rng.uniform(0.5, 1, a.shape) / np.abs(a)
    a = a[0] if constant else a
    run = lambda a, b: jax.lax.associative_scan(
        lambda e, l: (l[0] * e[0], l[0] * e[1] + l[1]),
        (jnp.broadcast_to(a, (n, 3))[:, None], b), reverse=reverse)[1]
    return a, b, w, jax.jit(functools.partial(pulled_back, run))(w, a, b)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("method", ("auto", *scan.METHODS))
def test_every_method_is_the_scan_of_jax(method, reverse):
    """jax-ml/jax#14190, #29313; pytorch#95408; keras#19904: ours against
    `jax.lax.associative_scan`, whose operator gets the later element first in
    reverse: states and derivatives, at any length. (Their time is in benchmarks/.)
    """
    constant = method == "time_invariant"
    for n in LENGTHS[:-1]:
        a, b, w, theirs = scanned(n, constant, reverse)
        run = functools.partial(
            scan.linear_scan, reverse=reverse, method=method, chunk=4)
        ours = jax.jit(functools.partial(pulled_back, run))(w, a, b)
        close(ours, theirs, 1e-13)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("method", scan.METHODS)
def test_a_derivative_costs_a_few_scans(method, reverse):
    """jax-ml/jax#19498: all states by a shared coefficient are Σ (k−j) a^(k−j−1) b_j.
    Its P columns are P scans forward in mode; in reverse they would be L P.

    A product has two in its tangent, and their sum: at most three operations for
    one. A gradient costs five at most, however long the sequence (Baur and Strassen,
    1983).
    """
    P, rng = 3, np.random.default_rng(0)
    a = jnp.asarray(rng.uniform(-0.9, 0.9, P))
    for n in 2, 13, 200:
        b, w = rng.normal(size=(2, n, P))
        run = functools.partial(
            scan.linear_scan, b=b, reverse=reverse, method=method, chunk=4)
        slope = lambda a: pulled_back(run, jnp.asarray(w), a)[1][0]
        ways = [slope] if method == "chunked" else [slope, jax.jacfwd(run)]
        for way, most in zip(ways, (5, 3 * P)):       # chunks have no forward mode
            assert n == 2 or checks.operations(way, a) <= (
                most * checks.operations(run, a))
        if n == 200:
            continue
        lag = np.arange(n)[:, None] - np.arange(n)
        lag = np.maximum(lag.T if reverse else lag, 0)[..., None]
        exact = np.sum(lag * np.asarray(a) ** np.maximum(lag - 1, 0) * b, 1)
        for way, value in zip(ways, (np.sum(w * exact, 0),
                                     exact[..., None] * np.eye(P))):
            close(jax.jit(way)(a), value, 1e-13)


def test_every_scan_trains_a_padded_uneven_model():
    """mamba-minimal-jax#1, annotated-mamba#1: "why not associative_scan?" With it a
    model learns from padded sequences of uneven times, as with the loop, step by
    step, whatever the padding holds. Both directions: one is among them."""
    rng = np.random.default_rng(0)
    labels, lengths = np.arange(6) % 3, np.array([7, 1, 4, 5, 2, 7])
    mask = np.arange(7) < lengths[:, None]
    clean = rng.normal(size=(6, 7, H)) + labels[:, None, None]
    gaps = rng.uniform(0.3, 2, (6, 7))
    rule = optax.adam(1e-2)

    def losses(method, noise):
        u, steps = (np.where(m, z, noise) for m, z in (
            (mask[..., None], clean), (mask, gaps)))
        layer = functools.partial(S5, P=8, scan_method=method, bidirectional=True,
                                  **RANGE)
        graph, params, rest = nnx.split(double(SequenceClassifier(
            H, 3, H, 1, layer, dropout=0.0, norm="layer", rngs=nnx.Rngs(0))),
            nnx.Param, ...)

        def loss(params):
            scores = nnx.merge(graph, params, rest)(u, steps, mask)
            return optax.softmax_cross_entropy_with_integer_labels(
                scores, labels).mean()

        def update(carry, _):
            params, moments = carry
            value, slopes = jax.value_and_grad(loss)(params)
            updates, moments = rule.update(slopes, moments, params)
            return (optax.apply_updates(params, updates), moments), value

        return jax.jit(lambda p: jax.lax.scan(
            update, (p, rule.init(p)), None, length=20)[1])(params)

    expected = losses("sequential", 0.0)
    assert expected[-1] < 0.7 * expected[0]
    for method in "associative", "chunked":
        np.testing.assert_allclose(losses(method, 1e3), expected, rtol=0, atol=1e-9)
