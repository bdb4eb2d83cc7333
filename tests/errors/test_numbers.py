"""A step, a count and a row are checked alike, whichever function is given them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import cauchy, fast_cauchy, kernels_time, nplr, state_space
from annotated_ssm.sequences import (backward_steps, check_mask, check_rate,
                                     check_steps)

Λ, P, B, _ = nplr.dplr("legs", 8)
A, b = -np.eye(2), np.ones(2)
system = nplr.discretize_dplr(Λ, P, B, 0.1)

STEPS = {
    "discretize": lambda dt: state_space.discretize(A, b, dt),
    "discretize_diagonal": lambda dt: state_space.discretize_diagonal(Λ, B, dt),
    "discretize_dplr": lambda dt: nplr.discretize_dplr(Λ, P, B, dt),
    "dplr_kernel": lambda dt: cauchy.dplr_kernel(Λ, P, B, B, dt, 5),
    "to_C_tilde": lambda dt: cauchy.to_C_tilde(Λ, P, B, dt, 5),
    "cauchy_sums_fast": lambda dt: fast_cauchy.cauchy_sums_fast(B, Λ, dt, 5),
    "dplr_kernel_fast": lambda dt: fast_cauchy.dplr_kernel_fast(
        Λ, P, B, B, dt, 5, C_tilde=True),
    "check_rate": check_rate,
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dt", ["a", None, {}, True, 0, -1, 1j, np.nan, np.inf,
                                np.float16(0), np.array("a")], ids=repr)
def test_a_step_is_a_positive_number(name, dt):
    with pytest.raises(ValueError, match="(dt|rate) is .*; need"):
        STEPS[name](dt)


@pytest.mark.parametrize("name", sorted(STEPS.keys() - {"check_rate"}))
@pytest.mark.parametrize("dt", [1e300, 1e-320])
def test_a_step_does_not_leave_the_range_of_its_precision(name, dt):
    assert not jax.config.jax_enable_x64
    given = jnp.complex64(Λ), jnp.complex64(P), jnp.complex64(B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="dt is .*range of float32"):
            {"discretize": lambda: state_space.discretize(
                jnp.float32(A), jnp.float32(b), dt),
             "discretize_diagonal": lambda: state_space.discretize_diagonal(
                 given[0], given[2], dt),
             "discretize_dplr": lambda: nplr.discretize_dplr(*given, dt),
             "dplr_kernel": lambda: cauchy.dplr_kernel(*given, given[2], dt, 5),
             "to_C_tilde": lambda: cauchy.to_C_tilde(*given, dt, 5),
             "cauchy_sums_fast": lambda: fast_cauchy.cauchy_sums_fast(
                 given[2], given[0], dt, 5),
             "dplr_kernel_fast": lambda: fast_cauchy.dplr_kernel_fast(
                 *given, given[2], dt, 5, C_tilde=True)}[name]()


@pytest.mark.parametrize("name", STEPS)
def test_a_half_precision_step_warns_of_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        STEPS[name](np.float16(0.1))


COUNTS = {
    "kernel_naive": lambda L: state_space.kernel_naive(A, b, b, L),
    "doubling_kernel": lambda L: kernels_time.doubling_kernel(system, B, L),
    "krylov_kernel": lambda L: kernels_time.krylov_kernel(system, B, L),
    "krylov_kernel, block": lambda block: kernels_time.krylov_kernel(
        system, B, 9, block=block),
    "krylov_parts": lambda m: kernels_time.krylov_parts(system, m),
    "dense_kernel": lambda L: kernels_time.dense_kernel(A, b, b, L),
    "power_deviation": lambda L: kernels_time.power_deviation(A, L),
    "block_length": kernels_time.block_length,
    "unit_nodes": cauchy.unit_nodes,
    "dplr_kernel": lambda L: cauchy.dplr_kernel(Λ, P, B, B, 0.1, L),
    "from_C_tilde": lambda L: cauchy.from_C_tilde(Λ, P, B, 0.1, L),
    "tree_depth": lambda L: fast_cauchy.tree_depth(L, 8),
    "cauchy_sums_fast": lambda L: fast_cauchy.cauchy_sums_fast(B, Λ, 0.1, L),
    "dplr_kernel_fast": lambda L: fast_cauchy.dplr_kernel_fast(
        Λ, P, B, B, 0.1, L, C_tilde=True),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("n", [0, -1, 2.0, 2.5, True, "3", np.ones(2)], ids=repr)
def test_a_count_is_a_whole_number(name, n):
    with pytest.raises(ValueError, match="(L|m|block) is .*; need a whole number ≥ 1"):
        COUNTS[name](n)


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_of_numpy_is_one_too(name):
    jax.tree.map(np.testing.assert_array_equal, COUNTS[name](np.int64(3)),
                 COUNTS[name](3))


@pytest.mark.parametrize("kernel", [kernels_time.doubling_kernel,
                                    kernels_time.krylov_kernel])
@pytest.mark.parametrize("C", [B[:2], B[None], 1.0, None, "C"], ids=repr)
def test_a_row_has_the_shape_of_the_system(kernel, C):
    with pytest.raises(ValueError, match=r"C has shape .*; need \(4,\)"):
        kernel(system, C, 5)


@pytest.mark.parametrize("call", [
    lambda s: kernels_time.doubling_kernel(s, B, 5),
    lambda s: kernels_time.krylov_kernel(s, B, 5),
    lambda s: kernels_time.krylov_parts(s, 2),
    lambda s: kernels_time.deviation(s), lambda s: nplr.step(s, B, 1.0)])
@pytest.mark.parametrize("wrong", [None, tuple(system), np.ones(4)], ids=type)
def test_a_system_is_a_discrete_one(call, wrong):
    with pytest.raises(TypeError, match="system is of .*; need a Discrete"):
        call(wrong)


@pytest.mark.parametrize("call", [
    lambda: cauchy.cauchy_sums(B[:2], Λ, b, b),
    lambda: cauchy.cauchy_sums(B, Λ, b, np.ones(3)),
    lambda: cauchy.cauchy_sums(B, Λ, 1.0, 1.0),
    lambda: kernels_time.dense_kernel(A, b, np.ones(3), 5),
    lambda: kernels_time.power_deviation(np.ones((2, 3)), 5),
    lambda: nplr.discretize_dplr(Λ[:0], P[:, :0], B[:0], 0.1),
    lambda: state_space.discretize(np.eye(0), np.ones(0), 0.1),
    lambda: check_steps("steps", None, ((3,),)),
    lambda: check_steps("steps", np.array(["a"]), ((1,),)),
    lambda: check_mask(None, ((3,),)),
    lambda: check_mask([1, 0], ((2,),)),
    lambda: state_space.discretize(A, b, 0.1, "gbt", alpha="a"),
    lambda: state_space.discretize(A, b, 0.1, "gbt", alpha=None),
    lambda: fast_cauchy.order_for("a"),
    lambda: fast_cauchy.order_for(None),
])
def test_what_does_not_fit_is_refused_in_words(call):
    with pytest.raises(ValueError, match="need"):
        call()


def test_a_known_length_is_checked_inside_a_trace():
    with pytest.raises(ValueError, match="length contains 7; need 0 to L = 3"):
        jax.jit(lambda s: backward_steps(s, np.array([7, 1])))(jnp.ones((2, 3)))


def test_the_fields_of_a_system_are_jax_arrays_of_one_dtype():
    assert {type(z) for z in system} == {type(jnp.ones(1))}
    assert {z.dtype for z in system} == {jnp.result_type(complex)}


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("method", [*cauchy.METHODS_C_TILDE, "fast"])
def test_the_kernel_does_not_depend_on_the_unit_of_time(method, unit):
    """With seconds or picoseconds only dt A and dt B count, in float32 too."""
    def kernel(unit):
        given = Λ / unit, P / unit, B / unit, B, 0.1 * unit, 300
        if method == "fast":
            return fast_cauchy.dplr_kernel_fast(*given, Q=P, C_tilde=True)
        return cauchy.dplr_kernel(*given, Q=P, C_tilde=True, method=method)

    np.testing.assert_allclose(kernel(unit), kernel(1.0), rtol=0, atol=1e-5)
