"""What the package is compared with where a peer does not install: its
algorithm, written anew in its shortest form."""

import jax.numpy as jnp


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
