"""Layers against a plain NumPy recurrence, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm.interface import generate
from annotated_ssm.layers import DSS, S4, S4D, S5

H, P, L = 3, 8, 40


def double(module):
    graph, state = nnx.split(module)
    return nnx.merge(graph, jax.tree.map(lambda a: a.astype(jnp.float64), state))


def recurrence(layer, u, steps, x):
    """Zero-order hold, one sample after the other, in complex128."""
    Λ, B, C, D, dt = (np.asarray(p) for p in layer.dynamics())
    outputs = []
    for u_k, s in zip(u, steps):
        a = np.exp(Λ * dt * s)
        x = a * x + (a - 1) / Λ * (B @ u_k)
        outputs.append(2 * np.real(C @ x) + D * u_k)
    return np.stack(outputs), x


@pytest.mark.parametrize("method", ["auto", "sequential", "associative", "chunked"])
def test_layer_equals_the_recurrence(method):
    layer = double(S5(H, P, blocks=2, scan_method=method, rngs=nnx.Rngs(0)))
    rng = np.random.default_rng(1)
    u, steps = rng.standard_normal((2, L, H)), rng.uniform(0.5, 2, (2, L))
    x0 = rng.standard_normal((2, P // 2)) + 1j * rng.standard_normal((2, P // 2))
    y, last = layer(u, steps, None, x0)
    assert y.dtype == jnp.float64 and last.dtype == jnp.complex128
    state = jnp.asarray(x0)
    for row in range(2):
        expected, x = recurrence(layer, u[row], steps[row], x0[row])
        np.testing.assert_allclose(y[row], expected, atol=1e-10)
        np.testing.assert_allclose(last[row], x, atol=1e-10)
    for k in range(L):
        y_k, state = layer.step(u[:, k], state, steps[:, k])
        np.testing.assert_allclose(y_k, y[:, k], atol=1e-10)


def test_bidirectional_layer_equals_two_recurrences():
    layer = double(S5(H, P, bidirectional=True, rngs=nnx.Rngs(0)))
    rng = np.random.default_rng(2)
    u, steps = rng.standard_normal((L, H)), rng.uniform(0.5, 2, L)
    Λ, B, C, D, dt = (np.asarray(p) for p in layer.dynamics())
    y, _ = layer(u[None], steps)

    def scan(u, steps):
        x, states = np.zeros(P // 2, complex), []
        for u_k, s in zip(u, steps):
            a = np.exp(Λ * dt * s)
            x = a * x + (a - 1) / Λ * (B @ u_k)
            states.append(x)
        return np.stack(states)

    forward = scan(u, steps)
    backward = scan(u[::-1], np.roll(steps, -1)[::-1])[::-1]
    expected = 2 * np.real(np.concatenate([forward, backward], 1) @ C.T) + D * u
    np.testing.assert_allclose(y[0], expected, atol=1e-10)


def test_gradient_equals_finite_differences():
    layer = double(S5(H, P, rngs=nnx.Rngs(3)))
    graph, params = nnx.split(layer)
    rng = np.random.default_rng(4)
    u = rng.standard_normal((1, 12, H))
    target = rng.standard_normal((1, 12, H))

    @jax.jit
    def loss(params):
        return jnp.sum((nnx.merge(graph, params)(u)[0] - target) ** 2)

    direction = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape)),
                             params)
    slope = sum(jnp.vdot(g, d) for g, d in zip(jax.tree.leaves(jax.grad(loss)(params)),
                                               jax.tree.leaves(direction)))
    h = 1e-5
    ahead, behind = (loss(jax.tree.map(lambda a, d: a + s * h * d, params, direction))
                     for s in (1, -1))
    # truncation h² and rounding eps/h, both near 1e-10, of a loss of about 100
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("layer", [
    S5(H, P, rngs=nnx.Rngs(0)), S4(H, P, rngs=nnx.Rngs(0)),
    S4(H, P, measure="legt", rngs=nnx.Rngs(0)), S4D(H, P, rngs=nnx.Rngs(0)),
    DSS(H, P, rngs=nnx.Rngs(0)),
    DSS(H, P, form="softmax", length=6, rngs=nnx.Rngs(0))],
    ids=["S5", "S4", "LegT", "S4D", "DSS", "softmax"])
def test_single_precision_stays_single(layer):
    """Where double is allowed too, in every way of running."""
    u = np.ones((2, 6, H), np.float32)
    state, steps, double = layer.init_state(2), np.ones(6), np.float64(2)
    ways = (lambda u, x: layer(u), lambda u, x: layer(u, rate=double),
            lambda u, x: layer(u, steps), lambda u, x: layer(u, steps, state=x),
            lambda u, x: layer.step(u[:, 0], x),
            lambda u, x: layer.step(u[:, 0], x, 2.0, double))
    for y, x in (ways[0](u, state), *(jax.eval_shape(way, u, state) for way in ways)):
        assert y.dtype == jnp.float32 and x.dtype == jnp.complex64
    y, (_, x) = generate(layer, u[:, 0], state, 3)
    assert y.dtype == jnp.float32 and x.dtype == jnp.complex64
    y, (_, x) = generate(layer, u[:, 0].astype(float), state, 3)
    assert y.dtype == jnp.float64
