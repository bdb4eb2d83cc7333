"""What the package is compared with where a peer does not install: its
algorithm, written anew in its shortest form."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from annotated_ssm.hippo import transition
from annotated_ssm.nplr import dplr
from annotated_ssm.s5 import initialize


def broadcasting_kernel(Λ, P, B, C_tilde, dt, L):
    """S4's kernel as the first public JAX code computed it.

    All N states (both members of a pair), all L roots of unity, division by
    1 + z, and each of the four Cauchy products by broadcasting nodes against
    poles.

    Args:
        Λ, P, B, C_tilde: (N,), a low-rank factor of rank one.
        dt: the step.
        L: number of taps.

    Returns:
        The kernel, (L,).
    """
    z = jnp.exp(-2j * jnp.pi * jnp.arange(L) / L)
    nodes, scale = 2 / dt * (1 - z) / (1 + z), 2 / (1 + z)
    product = lambda v: jnp.sum(v / (nodes[:, None] - Λ), -1)
    Q = P.conj()
    middle = 1 / (1 + product(Q * P))
    values = product(C_tilde * B) - product(C_tilde * P) * middle * product(Q * B)
    return jnp.fft.ifft(scale * values, L).real


def direct_kernel(Λ, B, C, dt, L):
    """S4D's kernel by an exponential of every power of every mode, added up.

    Args:
        Λ, B, C: (N,), one of each conjugate pair.
        dt: the step.
        L: number of taps.

    Returns:
        The kernel under ZOH, (L,).
    """
    powers = jnp.exp((dt * Λ)[:, None] * jnp.arange(L))
    return 2 * ((C * B * (jnp.exp(dt * Λ) - 1) / Λ) @ powers).real


def vandermonde_kernel(Λ, B, C, dt, L):
    """S4D's kernel by a Vandermonde matrix that is made and kept.

    Args, returns: as `direct_kernel`.
    """
    V = jnp.vander(jnp.exp(dt * Λ), L, increasing=True)
    return 2 * ((C * B * (jnp.exp(dt * Λ) - 1) / Λ) @ V).real


def convolve(u, K):
    """A causal convolution of one feature, (L,) and (L,)."""
    n = 2 * len(u)
    return jnp.fft.irfft(jnp.fft.rfft(u, n) * jnp.fft.rfft(K, n), n)[:len(u)]


def to_pairs(z):
    return jnp.stack([jnp.asarray(z.real), jnp.asarray(z.imag)], -1).astype(
        jnp.float32)


def from_pairs(a):
    return a[..., 0] + 1j * a[..., 1]


def s4_parameters(rng, H, N):
    """A copy of Λ, P, B for every feature, all N states, as real pairs."""
    Λ, P, B, _ = dplr("legs", N)
    both = lambda a: np.tile(np.concatenate([a, a.conj()]), (H, 1))
    C = rng.normal(size=(H, N, 2)) * np.sqrt(0.5)
    return {"Λ_re": jnp.asarray(both(Λ).real, jnp.float32),
            "Λ_im": jnp.asarray(both(Λ).imag, jnp.float32),
            "P": to_pairs(both(P[0])), "B": to_pairs(both(B)),
            "C": jnp.asarray(C, jnp.float32), "D": jnp.ones(H),
            "log_dt": jnp.asarray(rng.uniform(np.log(1e-3), np.log(1e-1), H),
                                  jnp.float32)}


def s4_layer(p, u):
    """The bank of S4 of the first public JAX code, (L, H) to (L, H)."""
    Λ = jnp.minimum(p["Λ_re"], -1e-4) + 1j * p["Λ_im"]
    one = lambda Λ, P, B, C, D, log_dt, u: D * u + convolve(
        u, broadcasting_kernel(Λ, P, B, C, jnp.exp(log_dt), len(u)))
    return jax.vmap(one, (0, 0, 0, 0, 0, 0, 1), 1)(
        Λ, *(from_pairs(p[k]) for k in "PBC"), p["D"], p["log_dt"], u)


def s4d_parameters(rng, H, N):
    """Half of the states, a copy for every feature, as real pairs."""
    half = s4_parameters(rng, H, N)
    return {k: v[:, :N // 2] if v.ndim > 1 else v for k, v in half.items()
            if k != "P"}


def s4d_layer(p, u):
    """The bank of S4D of the first public JAX code, (L, H) to (L, H)."""
    Λ = jnp.minimum(p["Λ_re"], -1e-4) + 1j * p["Λ_im"]
    one = lambda Λ, B, C, D, log_dt, u: D * u + convolve(
        u, direct_kernel(Λ, B, C, jnp.exp(log_dt), len(u)))
    return jax.vmap(one, (0, 0, 0, 0, 0, 1), 1)(
        Λ, from_pairs(p["B"]), from_pairs(p["C"]), p["D"], p["log_dt"], u)


def s5_parameters(rng, H, P):
    """An S5 system of P stored states, as real pairs; B as V⁻¹B."""
    p = initialize(jax.random.key(int(rng.integers(2**31))), H, 2 * P)
    return dict(p)


def s5_scan_layer(Λ, B, C, D, dt, u):
    """The S5 layer of the paper's authors, (L, H) to (L, H).

    Everything is complex: B̄ times the input cast to complex, a scan over
    pairs of L copies of Ā and of the inputs, and the real part of Cx.
    """
    Λ_bar = jnp.exp(Λ * dt)
    B_bar = ((Λ_bar - 1) / Λ)[:, None] * B
    b = jax.vmap(lambda u_k: B_bar @ u_k)(u)
    a = jnp.tile(Λ_bar, (len(u), 1))
    combine = lambda i, j: (j[0] * i[0], j[0] * i[1] + j[1])
    xs = jax.lax.associative_scan(combine, (a, b))[1]
    return jax.vmap(lambda x: 2 * (C @ x).real)(xs) + jax.vmap(
        lambda u_k: D * u_k)(u)


def s5_layer(p, u):
    """`s5_scan_layer` of real parameters, (L, H) to (L, H)."""
    Λ = jnp.minimum(p["Lambda_re"], -1e-4) + 1j * p["Lambda_im"]
    return s5_scan_layer(Λ, from_pairs(p["B"]), from_pairs(p["C"]), p["D"],
                         jnp.exp(p["log_dt"]), u)


def dense_step_system(H, N, dt, dtype):
    """Ā (H, N, N) and B̄ (H, N) of the bilinear rule, all states.

    The first public code keeps them complex; real numbers would do.
    """
    A, B = transition("legs", N)
    steps = []
    for Δ in dt:
        left = np.eye(N) - Δ / 2 * A
        steps.append((np.linalg.solve(left, np.eye(N) + Δ / 2 * A),
                      np.linalg.solve(left, Δ * B)))
    return tuple(jnp.asarray(np.stack(a), dtype) for a in zip(*steps))


def dense_step(A_bar, B_bar, C, D, u_k, x):
    """One sample of the bank by dense matrices: x (H, N), u_k (H,)."""
    x = jnp.einsum("hij,hj->hi", A_bar, x) + B_bar * u_k[:, None]
    return (C * x).sum(-1).real + D * u_k, x


def dense(rng, n, m):
    return {"W": jnp.asarray(rng.normal(size=(n, m)) / np.sqrt(n), jnp.float32),
            "b": jnp.zeros(m)}


def model_parameters(layer_parameters, H, depth, classes, seed=0):
    """Encoder, `depth` blocks with a gated output, and a decoder."""
    rng = np.random.default_rng(seed)
    block = lambda: {"layer": layer_parameters(rng), "scale": jnp.ones(H),
                     "shift": jnp.zeros(H), "out": dense(rng, H, H),
                     "gate": dense(rng, H, H)}
    return {"in": dense(rng, 1, H), "blocks": [block() for _ in range(depth)],
            "out": dense(rng, H, classes)}


def model(layer, p, u):
    """Class scores of one sequence (L, 1): norm, layer, GELU, gate, residual."""
    apply = lambda d, x: x @ d["W"] + d["b"]
    x = apply(p["in"], u)
    for block in p["blocks"]:
        z = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(
            x.var(-1, keepdims=True) + 1e-6)
        z = jax.nn.gelu(layer(block["layer"], z * block["scale"] + block["shift"]))
        x = x + apply(block["out"], z) * jax.nn.sigmoid(apply(block["gate"], z))
    return apply(p["out"], x.mean(0))


def training_step(scores, optimizer):
    """(parameters, optimizer state, u, labels) to the first two and the loss."""
    def step(params, state, u, labels):
        def loss(params):
            return optax.softmax_cross_entropy_with_integer_labels(
                scores(params, u), labels).mean()

        value, slope = jax.value_and_grad(loss)(params)
        change, state = optimizer.update(slope, state, params)
        return optax.apply_updates(params, change), state, value
    return step
