"""Plain Python lists are taken for arrays, wherever arrays are asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from annotated_ssm import (cauchy, fast_cauchy, hippo, kernels_time, nplr, s5,
                           scan, sequence_parallel, sequences, state_space)

A, B, C = [[-1.0, 0.5], [0.0, -2.0]], [1.0, 1.0], [1.0, -1.0]
Λ, P, v = [-1.0 + 1j, -2.0 + 3j], [[1.0 + 0j, 0.5 + 0j]], [1.0 + 0j, 2.0 + 0j]
u, a = [1.0, 0.0, -1.0], [0.5, 0.25]
b = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
system = nplr.discretize_dplr(*map(np.asarray, (Λ, P, v)), 0.1)
S5 = dict(Λ=Λ, B=[[1.0 + 0j], [2.0 + 0j]], C=[[1.0 + 0j, 1j]], D=[0.5], dt=[0.1, 0.2])

CASES = [
    (state_space.discretize, dict(A=A, B=B, dt=0.1)),
    (state_space.discretize, dict(A=A, B=B, dt=0.1, method="bilinear")),
    (state_space.discretize_diagonal, dict(Λ=Λ, B=v, dt=[0.1, 0.2])),
    (state_space.recurrence, dict(A_bar=A, B_bar=B, C=C, D=0.0, u=u, x0=B)),
    (state_space.recurrence, dict(A_bar=B, B_bar=[[1.0], [2.0]], C=[C], D=[[1.0]],
                                  u=[[1.0], [2.0]])),
    (state_space.kernel_naive, dict(A_bar=A, B_bar=B, C=C, L=4)),
    (state_space.causal_convolution, dict(u=u, K=[1.0, 2.0])),
    (state_space.phi1, dict(z=u)),
    (hippo.basis, dict(measure="legs", N=3, x=[0.0, 0.5, 2])),
    (hippo.reconstruct, dict(measure="legt", c=[1, 2, 3], s=u)),
    (hippo.density, dict(measure="lagt", s=u, t=1.0)),
    (hippo.online_naive, dict(measure="legs", samples=u, N=4)),
    (hippo.legs_multiply, dict(x=[1, 2, 3])),
    (hippo.legs_solve, dict(r=[1, 2, 3], h=0.1)),
    (hippo.legs_step, dict(c=u, value=1.0, k=2)),
    (nplr.woodbury, dict(d=v, P=P, Q=P, v=v)),
    (nplr.discretize_dplr, dict(Λ=Λ, P=P, B=v, dt=0.1, Q=P)),
    (nplr.step, dict(system=system, x=v, u_k=1.0)),
    (cauchy.dplr_kernel, dict(Λ=Λ, P=P, B=v, C=v, dt=0.1, L=5, Q=P)),
    (cauchy.to_C_tilde, dict(Λ=Λ, P=P, C=v, dt=0.1, L=5)),
    (cauchy.cauchy_sums, dict(v=v, Λ=Λ, σ=a, c=a)),
    (fast_cauchy.cauchy_sums_fast, dict(v=v, Λ=Λ, dt=0.1, L=5)),
    (fast_cauchy.dplr_kernel_fast, dict(Λ=Λ, P=P, B=v, C=v, dt=0.1, L=5, C_tilde=True)),
    (fast_cauchy.pole_angle, dict(Λ=Λ, dt=0.1)),
    (kernels_time.doubling_kernel, dict(system=system, C=v, L=5)),
    (kernels_time.krylov_kernel, dict(system=system, C=v, L=5)),
    (kernels_time.dense_kernel, dict(E=A, B=B, C=C, L=5)),
    (kernels_time.power_deviation, dict(E=A, L=5)),
    (kernels_time.pack, dict(x=v)),
    (kernels_time.unpack, dict(x=a)),
    (kernels_time.pack_row, dict(y=v)),
    (kernels_time.unpack_row, dict(y=a)),
    (kernels_time.pack_diagonal, dict(f=v)),
    (sequences.check_steps, dict(name="steps", steps=[1.0, 2.0], shapes=((2,),))),
    (sequences.check_mask, dict(mask=[True, False], shapes=((2,),))),
    (sequences.backward_steps, dict(steps=b, length=[1, 2, 0])),
    (sequences.reverse_prefix, dict(z=b, length=2)),
    (scan.linear_scan, dict(a=a, b=b, x0=[1.0, 1.0])),
    (scan.linear_scan_naive, dict(a=a, b=b, x0=[1.0, 1.0])),
    (sequence_parallel.summarize, dict(a=a, b=b)),
    (sequence_parallel.sequence_parallel_scan,
     dict(a=a, b=b, x0=[1.0, 1.0], mesh=Mesh(np.array(jax.devices()[:1]), ("sequence",)))),
    (s5.apply_ssm, S5 | dict(u=[[1.0], [2.0]], steps=[1.0, 0.5], mask=[True, False],
                             x0=v)),
    (s5.step, S5 | dict(u_k=[1.0], x=v, step=0.5)),
    (s5.step, S5 | dict(u_k=[[1.0]], x=[v], step=[0.5])),
    (s5.preactivation_variance, {k: S5[k] for k in ("Λ", "B", "C", "dt")}),
]


@pytest.mark.parametrize("function, arguments", CASES,
                         ids=[f.__module__[14:] + "." + f.__name__ for f, _ in CASES])
def test_a_list_is_the_array_of_its_numbers(function, arguments):
    arrays = {k: np.asarray(z) if isinstance(z, list) else z
              for k, z in arguments.items()}
    jax.tree.map(np.testing.assert_array_equal, function(**arguments),
                 function(**arrays))


def test_a_list_of_traced_numbers_is_one_too():
    f = jax.jit(lambda x: state_space.kernel_naive([x, x], [1.0, 2.0], [1.0, 1.0], 3))
    np.testing.assert_allclose(f(0.5), [3.0, 1.5, 0.75])


@pytest.mark.parametrize("call", [
    lambda: state_space.discretize("A", B, 0.1),
    lambda: state_space.discretize({"A": A}, B, 0.1),
    lambda: state_space.recurrence(A, B, C, 0.0, "u"),
    lambda: nplr.woodbury(None, P, P, v),
    lambda: scan.linear_scan(0.5, 1.0),
    lambda: s5.apply_ssm(*S5.values(), 1.0),
    lambda: hippo.legs_multiply(1.0),
])
def test_what_has_no_axes_is_refused_by_its_shape(call):
    with pytest.raises(ValueError, match=r"shape|\(\)|None"):
        call()


def test_a_number_promotes_nothing():
    """A plain 0.0 has no precision of its own: half stays half."""
    half = jnp.ones((3, 2), jnp.bfloat16)
    assert scan.linear_scan(half[0], half, x0=0.0).dtype == jnp.bfloat16
    assert state_space.recurrence(half[:2, :2], half[0], half[0], 0.0, half[:, 0]
                                  )[0].dtype == jnp.bfloat16


def test_arrays_are_left_alone():
    x, y = np.zeros(2), jnp.zeros(3)
    same = state_space.as_arrays(x, y, None)
    assert same[0] is x and same[1] is y and same[2] is None
