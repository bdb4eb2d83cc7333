"""The checks say what is wrong, also about wrong uses of themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm.checks import grade, operations, raises


@pytest.mark.parametrize("answer", ["a", [[1], [1, 2]], {}, object()],
                         ids=["text", "ragged", "dict", "object"])
def test_no_answer_makes_a_grade_raise(answer):
    verdict = grade("1.1", answer, 1.0)
    assert verdict.correct is False and "numbers are needed" in verdict.detail


def test_one_of_several_errors_is_expected():
    errors = ValueError, TypeError
    assert "literal" in raises(errors, int, "a")
    with pytest.raises(AssertionError, match="expected ValueError or TypeError"):
        raises(errors, int, "1")


def test_moving_and_printing_cost_nothing():
    def moved(x):
        jax.debug.print("{}", x)
        return jnp.stack([x, x])

    assert operations(moved, np.ones(4, np.float32)) == 0
