"""The models that come with the package: whole, as good as they say, and usable."""

import json

import jax
import numpy as np
import pytest
from repository import ROOT

from annotated_ssm import command_line, experiments, layers, pretrained, tasks

FAMILIES = {"digits-s4": layers.S4, "digits-s4d": layers.S4D,
            "digits-dss": layers.DSS, "digits-s5": layers.S5}
each_model = pytest.mark.parametrize("name", FAMILIES)


@pytest.fixture(scope="module")
def task():
    return tasks.get("pixels", source="digits", labelled=True)


@pytest.fixture(scope="module")
def test_digits(task):
    """Images (360, 8, 8) and labels of the test set."""
    split = task.test.take(np.arange(len(task.test)))
    return split.y.reshape(-1, 8, 8), split.u[:, 0] - 17


@pytest.fixture(scope="module")
def few(test_digits):
    return tuple(array[::24] for array in test_digits)


def test_there_is_one_of_each_family():
    assert set(pretrained.names()) == set(FAMILIES)


@each_model
def test_a_model_is_small_and_of_its_family(name):
    files = {path.name: path for path in pretrained.directory(name).iterdir()}
    assert set(files) == {"experiment.json", "model.npz", "result.json"}
    assert files["model.npz"].stat().st_size <= 250_000
    assert sum(path.stat().st_size for path in files.values()) <= 300_000
    model = pretrained.load(name)
    assert {type(b.layer) for b in model.backbone.blocks} == {FAMILIES[name]}
    with np.load(files["model.npz"]) as arrays:
        assert {a.dtype.name for a in arrays.values()} <= {"float32", "uint32"}


@each_model
def test_a_model_is_that_of_a_measured_result(name):
    record = pretrained.record(name)
    kept = ROOT / "results/experiments" / f"{record['name']}-seed{record['seed']}.json"
    assert record == json.loads(kept.read_text(encoding="utf-8"))
    told = json.loads((pretrained.directory(name) / "experiment.json").read_text("utf-8"))
    assert told["configuration"] == record["configuration"]
    assert (told["name"], told["seed"]) == (record["name"], record["seed"])


@each_model
@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_model_is_as_good_as_its_record_says(name, split):
    # Single precision; the record's sums may be in another order.
    score = experiments.evaluate(pretrained.directory(name), split)
    assert score == pytest.approx(pretrained.record(name)[split], rel=1e-5)


@each_model
def test_likelihood_is_what_the_record_says(name, test_digits):
    log_p = pretrained.pixel_log_likelihoods(pretrained.load(name), *test_digits)
    assert log_p.shape == (360, 64)
    assert -log_p.mean(dtype=float) == pytest.approx(
        pretrained.record(name)["test"]["loss"], rel=1e-5)


@each_model
def test_bayes_rule_reads(name, test_digits):
    images, labels = test_digits
    scores = pretrained.log_likelihoods(pretrained.load(name), images)
    assert scores.shape == (360, 10)
    own = pretrained.pixel_log_likelihoods(pretrained.load(name), images, labels)
    np.testing.assert_allclose(scores[np.arange(360), labels], own.sum(1), rtol=1e-5)
    assert (scores.argmax(1) == labels).mean() >= 0.9


@each_model
def test_steps_find_a_picture_as_probable_as_one_pass(name, few):
    images, labels = few
    model = pretrained.load(name)
    pixels = images.reshape(len(images), 64)
    tokens = np.concatenate([17 + labels[:, None], pixels[:, :-1]], axis=1)
    step, state = jax.jit(model.step), model.init_state(len(images))
    log_p = np.empty(pixels.shape)
    for k in range(64):
        logits, state = step(tokens[:, k].astype(np.int32), state)
        log_p[:, k] = np.take_along_axis(
            np.asarray(jax.nn.log_softmax(logits)), pixels[:, [k]], axis=1)[:, 0]
    # Two orders of the sums of a recurrence over 64 samples, in single precision;
    # log p is of size 10.
    np.testing.assert_allclose(
        log_p, pretrained.pixel_log_likelihoods(model, images, labels),
        atol=64 * 10 * np.finfo(np.float32).eps * 10)


@each_model
def test_no_pixel_is_judged_by_later_ones(name, few):
    images, labels = few
    model, later = pretrained.load(name), images.copy()
    later[:, 5:] = 16 - later[:, 5:]
    a, b = (pretrained.pixel_log_likelihoods(model, x, labels) for x in (images, later))
    np.testing.assert_allclose(a[:, :40], b[:, :40], atol=1e-4)
    assert abs(a[:, 40:] - b[:, 40:]).max() > 1


@each_model
def test_draws_are_those_of_their_seed(name):
    model = pretrained.load(name)
    first = pretrained.draw(model, [3, 1, 4], seed=5)
    assert first.shape == (3, 8, 8) and first.dtype == np.uint8 and first.max() <= 16
    assert np.array_equal(first, pretrained.draw(model, [3, 1, 4], seed=5))
    assert not np.array_equal(first, pretrained.draw(model, [3, 1, 4], seed=6))
    assert not np.array_equal(first, pretrained.draw(model, [8, 8, 8], seed=5))


@each_model
def test_the_likeliest_pixels_are_drawn_without_chance(name, few):
    images, labels = few
    model = pretrained.load(name)
    made = pretrained.draw(model, labels, above=images[:, :3], temperature=0)
    assert np.array_equal(made[:, :3], images[:, :3])
    # A step changes scores in their last digits, so a tie may fall either way:
    # what was drawn is as probable as the best, but for rounding.
    pixels = made.reshape(len(made), 64).astype(np.int32)
    tokens = np.concatenate([17 + labels[:, None], pixels[:, :-1]], axis=1)
    scores = np.asarray(model(tokens.astype(np.int32)))[:, 24:]
    chosen = np.take_along_axis(scores, pixels[:, 24:, None], axis=2)[..., 0]
    assert (chosen >= scores.max(axis=2) - 1e-3).all()


def test_the_digit_that_is_asked_for_is_drawn():
    """Read by another model than the one that drew; one in ten by chance."""
    asked = np.tile(np.arange(10), 10)
    pictures = pretrained.draw(pretrained.load("digits-s5"), asked)
    seen = pretrained.log_likelihoods(pretrained.load("digits-s4"), pictures).argmax(1)
    assert (seen == asked).mean() > 0.5


def test_a_picture_in_characters():
    image = np.zeros((8, 8), np.uint8)
    image[2, 3], image[7, 7] = 16, 1
    lines = pretrained.as_text(image).split("\n")
    assert [len(line) for line in lines] == [16] * 8
    assert lines[2] == " " * 6 + "@@" + " " * 8 and set("".join(lines)) == {" ", "@"}


def test_the_command_line_takes_a_name(capsys):
    assert command_line.main(["evaluate", "digits-s5", "--split", "test"]) == 0
    loss = pretrained.record("digits-s5")["test"]["loss"]
    assert f"test loss {loss:.3g}"[:13] in capsys.readouterr().out
    assert command_line.main(["generate", "digits-s5", "--prompt", "07", "--seed", "3"]) == 0
    drawn = pretrained.draw(pretrained.load("digits-s5"), [0, 7], seed=3)
    assert capsys.readouterr().out == (
        f"{pretrained.as_text(drawn[0])}\n\n{pretrained.as_text(drawn[1])}\n")
    assert command_line.main(["generate", "digits-s5", "--length", "5"]) == 0
    assert len(capsys.readouterr().out.split()) == 5
