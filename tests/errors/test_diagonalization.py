"""What chapter 3's functions say to input that they can't use."""

import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import diagonalization as d


@pytest.mark.parametrize("N", [0, -1, 2.5, "4", None])
@pytest.mark.parametrize("name", [
    "integer_form", "eigenvectors_exact", "inverse_exact", "condition_exact",
    "condition_number", "reconstruction_error"])
def test_a_size_is_a_whole_number_of_at_least_one(name, N):
    with pytest.raises(ValueError, match="N is .*, at least 1 is needed, a whole"):
        getattr(d, name)(N)


def test_a_precision_is_one_of_three():
    with pytest.raises(ValueError, match="dtype is 'bfloat16', \"float16\", "):
        d.reconstruction_error(4, "bfloat16")


@pytest.mark.parametrize("A, x, y, message", [
    (np.ones((2, 3)), [0.0], [0.0], r"A has shape \(2, 3\), \(N, N\) is needed"),
    (np.ones(4), [0.0], [0.0], r"A has shape \(4,\)"),
    (np.eye(2), 0.0, [0.0], r"x has shape \(\) and y \(1,\)"),
    (np.eye(2), [0.0], [[0.0]], r"x has shape \(1,\) and y \(1, 1\)"),
])
def test_the_resolvent_needs_a_square_matrix_and_a_grid(A, x, y, message):
    with pytest.raises(ValueError, match=message):
        d.resolvent_level(A, x, y)


def test_a_bool_is_no_size():
    with pytest.raises(ValueError, match="N is True"):
        d.condition_exact(True)


def test_an_integer_of_jax_is_a_size():
    assert d.condition_exact(jnp.int32(4)) == d.condition_exact(4)


@pytest.mark.parametrize("A", [np.empty((0, 0)), np.full((2, 2), np.nan)])
def test_the_resolvent_needs_numbers(A):
    with pytest.raises(ValueError, match="A has .* needed"):
        d.resolvent_level(A, [0.0], [0.0])
