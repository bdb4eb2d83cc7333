"""Every mistake is refused in words that name it."""

import pytest

from annotated_ssm.nplr import dplr, nplr


@pytest.mark.parametrize("measure, N, words", [
    ("legx", 8, "measure is 'legx'; need one of"),
    ("legs", 0, "N is 0; need at least 1"),
    ("fout", 5, "N is 5; need an even number"),
])
def test_nplr(measure, N, words):
    with pytest.raises(ValueError, match=words):
        nplr(measure, N)


def test_half_states_need_an_even_size():
    with pytest.raises(ValueError, match="N is 7; need an even number"):
        dplr("legs", 7)
    assert dplr("legs", 7, conj_sym=False)[0].shape == (7,)
