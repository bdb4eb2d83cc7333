"""On a GPU, products of single precision are rounded to ten bits unless a
program asks for more. What this package promises in rounding errors asks."""

import jax
import jax.numpy as jnp
import pytest
from jaxprs import equations

from annotated_ssm.cauchy import (METHODS, METHODS_C_TILDE, dplr_kernel,
                                  from_C_tilde, to_C_tilde)
from annotated_ssm.nplr import discretize_dplr, step, woodbury
from annotated_ssm.state_space import discretize, kernel_naive, recurrence


M, r, N = 8, 2, 6
vector, rows = jnp.ones(M, jnp.complex64), jnp.ones((r, M), jnp.complex64)
matrix, real = jnp.ones((N, N)), jnp.ones(N)
Λ = -vector + 1j * jnp.arange(M)
system = discretize_dplr(Λ, rows, vector, 0.1)
kernels = {
    f"kernel, {method}": lambda C, method=method: dplr_kernel(
        Λ, rows, vector, C, 0.1, 64, C_tilde=method in METHODS_C_TILDE,
        method=method) for method in METHODS + METHODS_C_TILDE}
programs = kernels | {
    "to C̃": lambda C: to_C_tilde(Λ, rows, C, 0.1, 64)[0],
    "from C̃": lambda C: from_C_tilde(Λ, rows, C, 0.1, 64)[0],
    "woodbury": lambda v: woodbury(Λ, rows, rows, v),
    "bilinear rule": lambda B: discretize_dplr(Λ, rows, B, 0.1).B,
    "step": lambda x: step(system, x, 1.0),
    "discretize": lambda v: discretize(v.real[:N] * matrix, real, 0.1)[1],
    "recurrence": lambda v: recurrence(matrix, real, v.real[:N], 0.0, real)[0],
    "dense powers": lambda v: kernel_naive(matrix, real, v.real[:N], 9)}


@pytest.mark.parametrize("name", programs)
def test_products_keep_all_digits(name):
    loss = lambda v: jnp.sum(jnp.abs(programs[name](v)))
    highest = (jax.lax.Precision.HIGHEST,) * 2
    for program in programs[name], jax.grad(loss):
        found = [e.params["precision"] for e in equations(
            jax.make_jaxpr(program)(vector).jaxpr)
            if e.primitive.name == "dot_general"]
        assert found and set(found) == {highest}
