"""What HiPPO says to input that it can't use."""

import numpy as np
import pytest

from annotated_ssm import hippo


@pytest.mark.parametrize("call, message", [
    (lambda: hippo.transition("legz", 4), "measure is 'legz'"),
    (lambda: hippo.transition("legs", 0), "N is 0, at least 1"),
    (lambda: hippo.basis("fout", 5, [0.0]), "N is 5, the Fourier measure needs an even"),
    (lambda: hippo.quadrature("legt", -1), "N is -1"),
    (lambda: hippo.density("uniform", [0.0], 1.0), "measure is 'uniform'"),
    (lambda: hippo.online_naive("legt", [1.0], 4), "dt is None, 'legt' needs"),
    (lambda: hippo.online_naive("lagt", [1.0], 4, 0.0), "dt is 0.0, 'lagt' needs"),
    (lambda: hippo.legs_step([0.0], 1.0, 0), "k is 0, samples are counted from 1"),
])
def test_message(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("N", [2.5, "4", None, 4.0])
def test_a_size_is_a_whole_number(N):
    with pytest.raises(ValueError, match="N is .*whole number"):
        hippo.transition("legs", N)


@pytest.mark.parametrize("t", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("call", [
    lambda t: hippo.project("legs", 4, np.sin, t),
    lambda t: hippo.reconstruct("legs", np.ones(4), [0.0], t),
    lambda t: hippo.density("legs", [0.0], t),
])
def test_the_window_of_legs_has_a_length(call, t):
    with pytest.raises(ValueError, match=f"t is {t}, the .* needs t > 0"):
        call(t)


@pytest.mark.parametrize("call, message", [
    (lambda: hippo.online_naive("legs", np.ones((3, 4)), 4),
     r"samples has shape \(3, 4\), one axis is needed"),
    (lambda: hippo.online_naive("legs", 1.0, 4), r"samples has shape \(\)"),
    (lambda: hippo.online_naive("legt", [1.0], 4, np.inf), "dt is inf"),
    (lambda: hippo.legs_step(np.ones(4), np.ones(4), 1), r"value has shape \(4,\)"),
    (lambda: hippo.legs_solve(np.ones(4), -1.0), "h is -1.0, a finite number ≥ 0"),
])
def test_nothing_is_broadcast_by_accident(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_complex_vectors_stay_complex():
    r = np.array([1j, 2.0, 3 - 1j])
    A, _ = hippo.transition("legs", 3)
    np.testing.assert_allclose(
        hippo.legs_solve(r, 0.1), np.linalg.solve(np.eye(3) - 0.1 * A, r),
        rtol=1e-14)
