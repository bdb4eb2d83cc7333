"""Arrays that are known while JAX traces are checked, and compile.

Inside jit every operation on a known array is staged too, so a check that asks
one of JAX's functions for a bool fails there. Each public function must work
in a compiled function that closes over its arguments, and still refuse a bad
value.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.cauchy import METHODS, METHODS_C_TILDE, dplr_kernel
from annotated_ssm.nplr import discretize_dplr
from annotated_ssm.s5 import apply_ssm, step
from annotated_ssm.state_space import (causal_convolution, discretize,
                                       discretize_diagonal)

Λ = -0.5 + 1j * jnp.arange(1.0, 5.0)
P, B = jnp.ones((1, 4), jnp.complex64), jnp.ones(4, jnp.complex64)
A, real = -jnp.eye(3), jnp.ones(3)
BH, CH, DH = jnp.ones((4, 2)) + 0j, jnp.ones((2, 4)) + 0j, jnp.ones(2)
u, dts = jnp.ones((6, 2)), jnp.full(4, 0.1)
mask, even = jnp.arange(6) < 4, jnp.ones(6)
good, bad = jnp.float32(0.1), jnp.float32(-0.1)

#: name -> (function of a step, the argument that the message names)
FUNCTIONS = {
    "discretize": (lambda dt: discretize(A, real, dt)[1], "dt"),
    "discretize, gbt": (lambda α: discretize(
        A, real, good, "gbt", alpha=α)[1], "alpha"),
    "discretize_diagonal": (lambda dt: discretize_diagonal(Λ, B, dt)[0], "dt"),
    "discretize_dplr": (lambda dt: discretize_dplr(Λ, P, B, dt).B, "dt"),
    "apply_ssm, dt": (lambda dt: apply_ssm(
        Λ, BH, CH, DH, np.full(4, dt), u, mask=mask)[0], "dt"),
    "apply_ssm, rate": (lambda rate: apply_ssm(
        Λ, BH, CH, DH, dts, u, rate=rate)[0], "rate"),
    "apply_ssm, steps": (lambda s: apply_ssm(
        Λ, BH, CH, DH, dts, u, steps=s * np.ones(6, np.float32))[0], "steps"),
    "step": (lambda s: step(Λ, BH, CH, DH, dts, u[0], B, step=s)[0], "step"),
} | {f"dplr_kernel, {m}": (lambda dt, m=m: dplr_kernel(
    Λ, P, B, B, dt, 9, method=m, C_tilde=m in METHODS_C_TILDE), "dt")
    for m in METHODS + METHODS_C_TILDE}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_known_arguments_compile(name):
    function, _ = FUNCTIONS[name]
    inside = jax.jit(lambda: function(np.asarray(good)))()
    np.testing.assert_allclose(inside, function(good), rtol=1e-4, atol=1e-5)
    compiled = jax.jit(lambda: function(good))()
    np.testing.assert_allclose(compiled, inside, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_known_bad_values_are_refused_while_tracing(name):
    function, argument = FUNCTIONS[name]
    with pytest.raises(ValueError, match=argument):
        jax.jit(lambda: function(np.asarray(bad)))()


def test_causal_convolution_compiles():
    K = jnp.arange(3.0)
    np.testing.assert_allclose(jax.jit(lambda: causal_convolution(even, K))(),
                               causal_convolution(even, K), atol=1e-6)
