"""S5 and a bank in single precision, as arrays of JAX and while it traces."""

import jax
import jax.numpy as jnp
import numpy as np

from annotated_ssm import bank, equivalence, s5

H, P, L = 2, 4, 12


def parameters():
    p = s5.initialize(jax.random.key(0), H, 2 * P, dt_min=0.05, dt_max=0.5)
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    return p["Lambda_re"] + 1j * p["Lambda_im"], B, C, p["D"], jnp.exp(p["log_dt"])


def test_precision_is_kept():
    Λ, B, C, _, dt = parameters()
    single = (*equivalence.bank_of(Λ, B, dt), *equivalence.system_of(Λ, B.T, C, 0.1)[:3],
              equivalence.stacked_output_matrix(C, H))
    assert {z.dtype for z in single} == {jnp.complex64.dtype}
    wide = (np.asarray(z, complex) for z in (Λ, B))
    assert {z.dtype for z in equivalence.bank_of(*wide, np.asarray(dt, float))} == {
        np.dtype(complex)}


def test_while_jax_traces():
    Λ, B, C, D, dt = parameters()
    u = jax.random.normal(jax.random.key(1), (L, H))

    @jax.jit
    def both(Λ, B, C, dt, u):
        y, x = s5.apply_ssm(Λ, B, C, D, dt, u)
        out, parts = bank.apply_ssm(*equivalence.bank_of(Λ, B, dt), C, D, 1.0, u)
        halves = [s5.apply_ssm(λ, b, c, 0 * D, d, u)[0]
                  for λ, b, c, d in equivalence.subsystems(Λ, B, C, dt, 2)]
        steps = jnp.array([0.1, 0.3])
        own, _ = bank.apply_ssm(Λ, B.T, C, D, steps, u)
        Λ1, B1, C1, dt1 = equivalence.system_of(Λ, B.T, C, steps)
        one, _ = s5.apply_ssm(Λ1, B1, C1, D, dt1, u)
        return (x, parts.sum(0)), (y, sum(halves) + D * u), (own, one)

    for a, b in both(Λ, B, C, dt, u):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)
