"""S4 in single precision: ways of running agree, gradients, memory, rates."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxprs import arrays

from annotated_ssm import checks, s4

EPS = float(np.finfo(np.float32).eps)
H, N, L = 3, 16, 64


@cache
def system(H=H, N=N, measure="legs", **options):
    """Parameters as a model has them at first, and what they stand for."""
    parameters = s4.initialize(jax.random.key(0), H, N, measure, **options)
    return parameters, s4.system(parameters)


@cache
def program(**options):
    return jax.jit(lambda given, u, x0=None: s4.apply_ssm(
        *given, u, x0=x0, **options))


def signal(L=L, H=H, seed=0):
    return np.random.default_rng(seed).normal(size=(L, H)).astype(np.float32)


def dense(given, u):
    """Matrices of all states in double precision; y, and all states' norms."""
    Λ, P, B, C, D, dt = (np.asarray(z).astype(
        complex if np.iscomplexobj(z) else float) for z in given)
    both = lambda a: np.concatenate([a, a.conj()], -1)
    A, I = np.diag(both(Λ)) - both(P).T @ both(P).conj(), np.eye(2 * len(Λ))
    y, norms = D * u, np.zeros(u.shape)
    for h in range(u.shape[1]):
        back = np.linalg.inv(I - dt[h] / 2 * A)
        A_bar, B_bar, x = back @ (I + dt[h] / 2 * A), dt[h] * back @ both(B), 0 * B
        x = both(x)
        for k in range(len(u)):
            x = A_bar @ x + B_bar * u[k, h]
            y[k, h] += (both(C[h]) @ x).real
            norms[k, h] = np.linalg.norm(x)
    return y, norms


@pytest.mark.parametrize("measure", s4.MEASURES)
def test_both_ways_are_the_dense_system(measure):
    """Steps and powers of a stable system pass errors on, and enlarge none."""
    _, given = system(2, 32, measure)
    u = signal(128, 2)
    want, norms = dense(given, u)
    # every sample rounds a state, and C reads it; such errors add up at random
    size = np.linalg.norm(given[3], axis=-1) * np.sqrt(2) * norms.max(0)
    allowed = 4 * EPS * np.sqrt(len(u)) * size
    outputs = [program(mode=mode)(given, u)[0]
               for mode in ("convolution", "recurrence")]
    for y in outputs:
        assert y.dtype == jnp.float32
        assert (np.abs(y - want).max(0) <= allowed).all()
    assert (np.abs(outputs[0] - outputs[1]).max(0) <= allowed).all()


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_are_finite_and_the_same_both_ways(tied):
    """Of every parameter, by a loss that reads outputs and the last state."""
    parameters, _ = system(tied=tied)
    u = signal()

    def loss(parameters, mode):
        y, x = s4.apply_ssm(*s4.system(parameters), u, mode=mode)
        return (jnp.sin(y)**2).sum() + jnp.abs(x).sum()

    both = [jax.jit(jax.grad(loss), static_argnums=1)(parameters, mode)
            for mode in ("convolution", "recurrence")]
    for name in parameters:
        a, b = (np.asarray(g[name]) for g in both)
        assert np.isfinite(a).all() and np.abs(a).max() > 0
        # one rounding for each of L samples, of the largest of these gradients
        assert np.abs(a - b).max() <= EPS * L * np.abs(b).max(), name


def test_a_model_trained_at_one_rate_runs_at_another():
    """The same system of continuous time, up to an error of first order."""
    _, given = system(dt_min=0.01, dt_max=0.03)

    def output(rate):
        t = rate * np.arange(1, 256 / rate + 1)[:, None]
        u = np.sin(np.pi * t / 256)**2 * np.sin(t / 20 + np.arange(H))
        u = u.astype(np.float32)        # begins and ends without a jump
        return np.asarray(program(rate=rate)(given, u)[0])

    fine = output(0.25)
    gap = {rate: np.abs(output(rate) - fine[int(4*rate) - 1::int(4*rate)]).max(0)
           for rate in (1.0, 2.0, 4.0)}
    scale = np.abs(fine).max(0)
    assert (gap[2.0] < 0.1 * scale).all()
    # first order: errors against rate 1/4 grow as 3/4 to 7/4 to 15/4
    assert np.all(np.abs(gap[2.0] / gap[1.0] - 7 / 3) < 0.5)
    assert np.all(np.abs(gap[4.0] / gap[2.0] - 15 / 7) < 0.5)


def test_no_output_knows_the_future():
    """Nothing wraps around: the transform is as long as both together."""
    _, given = system()
    for L in 1, 2, 7, 8:
        u = signal(L)
        y = program()(given, u)[0]
        for k in {0, L // 2, L - 1}:
            late = np.concatenate([u[:k], u[k:] + 10])
            other = program()(given, late)[0]
            # roundings of the transform are of the size of the late samples
            assert np.abs(other - y)[:k].max(initial=0) <= (
                8 * EPS * np.abs(other).max())
            assert np.abs(other - y)[k:].min() > 1e-3


def test_samples_one_by_one_are_the_convolution():
    _, given = system()
    u = signal()
    y, last = program()(given, u)
    one = jax.jit(lambda u_k, x: s4.step(*given, u_k, x))
    x, steps = jnp.zeros((H, N // 2), jnp.complex64), []
    for k in range(L):
        y_k, x = one(u[k], x)
        steps.append(y_k)
    assert np.abs(np.stack(steps) - y).max() < 1e-5 * np.abs(y).max()
    assert np.abs(x - last).max() < 1e-5 * np.abs(last).max()


def test_shorter_and_longer_than_in_training():
    """The kernel is as long as the input: a long run begins as a short one."""
    _, given = system(dt_min=1e-3, dt_max=2e-3)
    u = signal(128) + 1
    y, _ = program()(given, u)
    endless, _ = program(mode="recurrence")(given, u)
    short = {n: program()(given, u[:n])[0] for n in (1, 31, 64)}
    for part in (*short.values(), endless):
        assert np.abs(part - y[:len(part)]).max() < 1e-5 * np.abs(y).max()
    impulse = np.zeros((64, H), np.float32)
    impulse[0] = 1
    kernel = np.asarray(program()(given, impulse)[0])
    cut = np.array([np.convolve(u[:, h], kernel[:, h])[:128] for h in range(H)]).T
    assert np.abs(cut - y)[:64].max() < 1e-5 * np.abs(y).max()
    # memories of 500 samples and more: 64 taps can't be all of it
    assert (np.abs(cut - y).max(0) > 1e-2 * np.abs(y).max(0)).all()


def test_a_step_costs_in_proportion_to_the_state():
    """No N × N matrix: twice the state, twice the operations."""
    def cost(N):
        H, M = 2, N // 2
        real = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
        half = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.complex64)
        return checks.operations(
            s4.step, half(M), half(1, M), half(M), half(H, M), real(H), real(H),
            real(H), half(H, M))

    assert 1.8 < cost(128) / cost(64) < 2.1


@pytest.mark.parametrize("bidirectional", [False, True])
def test_no_array_of_length_times_states_times_features(bidirectional):
    """Sizes are distinct primes times 2, so that shapes tell who is who."""
    L, H, N = 1031, 7, 26
    _, given = system(H, N, bidirectional=bidirectional)
    x0 = jnp.zeros((*(2,) * bidirectional, H, N // 2), jnp.complex64)
    mask = jnp.arange(L) < 1000
    apply = lambda u, x0, *given: s4.apply_ssm(
        *given, u, x0=x0, mask=mask, bidirectional=bidirectional)[0].sum()
    for function in apply, jax.grad(apply, argnums=range(8)):
        seen = [shape for shape, _ in arrays(
            function, jnp.zeros((L, H)), x0, *given)]
        assert any(L in shape and H in shape for shape in seen)
        for shape in seen:
            assert not (L in shape and {N, N // 2} & set(shape)), shape
            assert np.prod(shape) < L * H * N / 4, shape


def test_memory_of_the_compiled_convolution():
    L, H, N = 1024, 8, 64
    _, given = system(H, N)
    apply = lambda u, given: s4.apply_ssm(*given, u)[0].sum()
    tensor = 8 * L * H * N                  # bytes of all states, complex64
    for function in apply, jax.grad(apply):
        compiled = jax.jit(function).lower(jnp.zeros((L, H)), given).compile()
        used = compiled.memory_analysis().temp_size_in_bytes
        assert 0 < used < 0.25 * tensor
