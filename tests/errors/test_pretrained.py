"""What the models that come with the package say when something is wrong."""

import re

import numpy as np
import pytest
from flax import nnx

from annotated_ssm import command_line, heads, interface, pretrained

BLANK = np.zeros((2, 8, 8), np.uint8)


@pytest.fixture(scope="module")
def model():
    return pretrained.load("digits-s5")


@pytest.mark.parametrize("use", [
    pretrained.load, pretrained.record, pretrained.directory])
@pytest.mark.parametrize("name, message", [
    ("digits-s6", "name is 'digits-s6': did you mean "),
    ("zzz", "name is 'zzz': there is digits-dss, digits-s4, digits-s4d, digits-s5"),
    ("..", "name is '..': there is "),
])
def test_unknown_models(use, name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        use(name)


@pytest.mark.parametrize("labels, message", [
    ([], "labels is []: a list of digits from 0 to 9 is needed"),
    ([10], "labels is [10]: a list of digits"),
    ([-1], "labels is [-1]: a list of digits"),
    ([0.5], "labels is [0.5]: a list of digits"),
    (7, "labels is 7: a list of digits"),
])
def test_labels_are_digits(model, labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pretrained.draw(model, labels)
    with pytest.raises(ValueError, match=re.escape(message)):
        pretrained.pixel_log_likelihoods(model, BLANK, labels)


@pytest.mark.parametrize("options, message", [
    ({"above": BLANK}, "above has 8 rows: nothing is left"),
    ({"above": BLANK[:1, :4]}, "above has shape (1, 4, 8): (2, rows, 8) is needed"),
    ({"above": BLANK[:, :4, :7]}, "above has shape (2, 4, 7): "),
    ({"above": BLANK[:, :4] + 17}, "above has uint8 pixels: integers from 0 to 16"),
    ({"above": BLANK[:, :4] / 2}, "above has float64 pixels: integers from 0 to 16"),
    ({"temperature": -1.0}, "temperature is -1.0"),
])
def test_draws_that_cannot_be(model, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pretrained.draw(model, [1, 2], **options)


@pytest.mark.parametrize("images, message", [
    (BLANK[:, :4], "images has 4 rows: 8 are needed"),
    (BLANK[0], "images has shape (8, 8): "),
    (BLANK - 1.0, "images has float64 pixels: "),
])
def test_images_that_cannot_be_judged(model, images, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pretrained.log_likelihoods(model, images)


def test_another_model_draws_no_digits():
    other = heads.LanguageModel(5, 4, 1, interface.Identity, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="model is a LanguageModel: one that was told"):
        pretrained.draw(other, [1])
    with pytest.raises(ValueError, match="model is a Identity: one that was told"):
        pretrained.log_likelihoods(interface.Identity(4), BLANK)


@pytest.mark.parametrize("words, code, message", [
    (["evaluate", "digits-s6"], 2, "directory is digits-s6: there is no such directory, "
     "and of the package's own models there is digits-dss, digits-s4, "),
    (["generate", "digits-s5", "--prompt", "seven"], 1,
     "prompt is 'seven': digits to be drawn are needed"),
    (["generate", "digits-s5", "--prompt", ""], 1, "prompt is ''"),
])
def test_the_command_line_says_what_is_wrong(words, code, message, capsys):
    try:
        found = command_line.main(words)
    except SystemExit as end:
        found = end.code
    assert found == code
    assert message in " ".join(capsys.readouterr().err.split())
