"""What HiPPO says to input that it can't use."""

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
