"""Every task that has a name: built small, from tiny files in their own layout."""

import numpy as np
import pytest
import tiny_files

from annotated_ssm import assembly, audio, image_tasks, images, listops, mails
from annotated_ssm import pathfinder, pendulum, resampling, rivals, series
from annotated_ssm import tasks, text, training
from annotated_ssm.configurations import Experiment
from annotated_ssm.generators import Stream
from annotated_ssm.splits import Split, Windows

GENERATED = {"counts": (12, 5, 4)}
# What makes each small, and (features, classes, length, kind) that follow.
TINY = {
    "digits": ({}, (1, 10, 64, "classification")),
    "mnist": ({"per_class": 1}, (1, 10, 784, "classification")),
    "fashion_mnist": ({"per_class": 1}, (1, 10, 784, "classification")),
    "cifar10": ({"per_class": 2}, (3, 10, 1024, "classification")),
    "pixels": ({"source": "cifar10", "per_class": 2}, (257, 256, 3072, "tokens")),
    "pathfinder": ({"counts": (4, 2, 2)}, (1, 2, 1024, "classification")),
    "pathx": ({"counts": (2, 1, 1)}, (1, 2, 16_384, "classification")),
    "speech_commands": ({"length": 300}, (1, 35, 300, "classification")),
    "spoken_digits": ({"length": 512}, (1, 10, 512, "classification")),
    "listops": ({"counts": (40, 10, 10), "above": 5, "below": 40},
                (16, 10, 40, "classification")),
    "text": ({"length": 20}, (259, 2, 20, "classification")),
    "mails": ({"length": 40}, (259, 2, 40, "classification")),
    "retrieval": ({"length": 30}, (259, 2, 30, "classification")),
    "wikitext": ({"length": 20}, (20, 20, 20, "tokens")),
    "characters": ({"length": 50}, (256, 256, 50, "tokens")),
    "copying": (GENERATED, (10, 10, 120, "tokens")),
    "selective_copying": (GENERATED, (10, 10, 120, "tokens")),
    "reverse_copying": (GENERATED, (10, 10, 120, "tokens")),
    "adding": ({**GENERATED, "length": 30}, (2, 1, 30, "regression")),
    "recall": (GENERATED, (17, 17, 20, "tokens")),
    "induction": (GENERATED, (21, 21, 30, "tokens")),
    "delay": ({**GENERATED, "length": 64, "lag": 16, "cycles": 8},
              (1, 1, 64, "regression")),
    "reconstruct": ({**GENERATED, "length": 64}, (1, 1, 64, "regression")),
    "pendulum": ({"counts": (4, 2, 2)}, (576, 2, 50, "regression")),
    "ett": ({}, (1, 1, 120, "regression")),
    "weather": ({"horizon": 6, "look_back": 24}, (1, 1, 30, "regression")),
    "ecl": ({"horizon": 6, "look_back": 24}, (1, 1, 30, "regression")),
    "mackey_glass": ({**GENERATED, "length": 100}, (1, 1, 100, "regression")),
}
FORECASTS = ("ett", "weather", "ecl")
SETS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with tiny_files.everything(tmp_path_factory.mktemp("data")) as folder:
        yield folder


@pytest.fixture(scope="module")
def tiny(home):
    return {name: tasks.get(name, home, **options)
            for name, (options, _) in TINY.items()}


def whole(examples):
    return examples.take(np.arange(len(examples)))


def test_names():
    assert tasks.names() == tuple(tasks.TASKS) and set(tasks.names()) == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_every_example_is_what_the_task_says(tiny, name):
    task, expected = tiny[name], TINY[name][1]
    assert (task.name, task.features, task.classes, task.length, task.kind) == (
        name, *expected)
    for part in SETS:
        split = whole(getattr(task, part))
        n = len(split)
        assert n > 0 and split.length == task.length
        if task.vocabulary is None:
            assert split.u.shape == (n, task.length, task.features)
            assert split.u.dtype == np.float32 and np.isfinite(split.u).all()
        else:
            assert split.u.dtype == np.int32
            assert 0 <= split.u.min() and split.u.max() < task.vocabulary
        if task.kind == "regression":
            assert split.y.dtype == np.float32 and np.isfinite(split.y).all()
            assert split.y.shape[-1] == task.classes
        else:
            counted = split.counted()
            y = split.y if counted is None else split.y[counted]
            assert split.y.dtype == np.int32
            assert 0 <= y.min() and y.max() < task.classes


@pytest.mark.parametrize("name", [n for n in TINY if n not in (
    *FORECASTS, "wikitext", "characters")])
def test_no_example_is_in_two_sets(tiny, name):
    rows = [{row.tobytes() for row in whole(getattr(tiny[name], part)).u}
            for part in SETS]
    assert sum(map(len, rows)) == len(set.union(*rows))


@pytest.mark.parametrize("name", FORECASTS)
def test_no_row_is_asked_for_in_two_sets(tmp_path, name):
    """In a series whose values are the numbers of its rows one can see it."""
    rows = 15_000 if name == "ett" else 400
    file, column = {"ett": ("ETTh1", "OT"), "weather": ("WTH", "WetBulbCelsius"),
                    "ecl": ("ECL", "MT_320")}[name]
    times = np.datetime64("2016-07-01T00:00:00") + np.arange(rows).astype("m8[h]")
    lines = [f"{str(t).replace('T', ' ')},{k}" for k, t in enumerate(times)]
    (tmp_path / f"{file}.csv").write_text("\n".join([f"date,{column}", *lines]))
    task = tasks.get(name, tmp_path, horizon=3, look_back=5, relative=False)
    key = "Weather" if name == "weather" else file
    ends = series.borders(key, rows)
    train = np.arange(ends[0][1])
    for part, (start, stop) in zip(SETS, ends):
        split = whole(getattr(task, part))
        number = split.y[:, 5:, 0] * train.std() + train.mean()
        asked = np.unique(np.rint(number))
        first = max(start, 5)   # nothing comes before the very first windows
        assert asked.tolist() == list(range(first, stop))
        assert (split.u[:, 5:] == 0).all()


@pytest.mark.parametrize("level, name", [
    ("word", "wikitext"), ("char", "wikitext"), (None, "characters")])
def test_a_text_is_read_once(home, level, name):
    options = {"length": 32, "stride": 8} | ({"level": level} if level else {})
    task = tasks.get(name, home, **options)
    for part in SETS:
        windows = getattr(task, part)
        assert isinstance(windows, Windows)
        split = whole(windows)
        if part != "train":
            # Each token but the first is asked for once, in order.
            assert np.array_equal(split.y[split.scored], windows.values[1:])
            # The windows that are not the first know at least 24 tokens.
            assert (split.scored[1:].argmax(axis=1) >= 24).all()
    if name == "characters":
        joined = np.concatenate([getattr(task, part).values for part in SETS])
        assert joined.tobytes() == (home / "enwik8").read_bytes()
    if level == "char":
        for part, file in zip(SETS, ("train", "valid", "test")):
            assert getattr(task, part).values.tobytes() == (
                home / "wikitext-103" / f"wiki.{file}.tokens").read_bytes()


@pytest.mark.parametrize("name", TINY)
def test_rivals_have_scores(tiny, name):
    task = tiny[name]
    own = {"classification": {"majority class"}, "tokens": {"unigram"},
           "regression": {"mean", "ridge"}}[task.kind]
    own |= {"pixels": {"bigram"}, "wikitext": {"bigram"}, "characters": {"bigram"},
            "listops": {"root operator"}, "speech_commands": {"mean spectrum"},
            "spoken_digits": {"mean spectrum"}, "ett": {"persistence", "a day ago"},
            "weather": {"persistence", "a day ago"}, "mackey_glass": {"persistence"},
            "ecl": {"persistence", "a day ago"}}.get(name, set())
    if task.kind == "classification" and task.length < 5000:
        own |= {"nearest centroid", "linear"}
    for split in ("validation", "test"):
        scores = tasks.baseline_scores(task, split)
        assert set(scores) == own
        values = [value for score in scores.values() for value in score.values()]
        assert np.isfinite(values).all()


def test_same_call_same_examples(home, tiny):
    for name in ("listops", "copying", "recall", "delay", "pendulum", "spoken_digits"):
        again = tasks.get(name, home, **TINY[name][0])
        for part in SETS:
            a, b = (whole(getattr(t, part)) for t in (tiny[name], again))
            assert np.array_equal(a.u, b.u) and np.array_equal(a.y, b.y)


def test_defaults_need_no_files(tmp_path):
    """In the package or generated: with an empty folder, and nothing is kept."""
    sizes = {}
    for name in ("digits", "pathfinder", "pathx", "listops", "copying",
                 "selective_copying", "reverse_copying", "adding", "recall",
                 "induction", "delay", "reconstruct", "pendulum", "mackey_glass"):
        task = tasks.get(name, tmp_path)
        sizes[name] = len(task.train), len(task.validation), len(task.test)
    assert min(map(min, sizes.values())) > 0 and list(tmp_path.iterdir()) == []
    assert sizes["digits"] == (1257, 180, 360)


# Pictures


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_validation_is_a_part_of_training(home, name):
    task = tasks.get(name, home, per_class=1)
    assert np.bincount(task.validation.y).tolist() == 10 * [1]
    assert np.bincount(task.train.y).tolist() == 10 * [3]
    assert np.bincount(task.test.y).tolist() == 10 * [2]
    assert task.train.u.max() == 1
    other = tasks.get(name, home, permutation=3, per_class=1)
    order = tasks.shuffled(784, 3)
    assert np.array_equal(other.test.u, task.test.u[:, order])


@pytest.mark.parametrize("grey", [False, True])
def test_colours_are_standardized_by_training_alone(home, grey):
    task = tasks.get("cifar10", home, grey=grey, per_class=3)
    u = task.train.u.astype(np.float64)
    F = 1 if grey else 3
    assert u.shape == (70, 1024, F)
    # Rounding of 71,680 single-precision numbers below 2 in magnitude.
    np.testing.assert_allclose(u.mean((0, 1)), np.zeros(F), atol=1e-6)
    np.testing.assert_allclose(u.std((0, 1)), np.ones(F), atol=1e-6)
    assert (abs(task.validation.u.mean((0, 1), np.float64)) > 1e-5).all()
    # One map from bytes to numbers for all three sets.
    levels = [np.unique(np.round(split.u[..., 0], 4)) for split in
              (task.train, task.test)]
    assert len(np.union1d(*levels)) <= 256


def test_pixels_ask_for_the_next(home):
    task = tasks.get("pixels", home, source="mnist", per_class=1)
    split, pictures = whole(task.train), tasks.get("mnist", home, per_class=1).train
    assert np.array_equal(split.y, np.rint(pictures.u[..., 0] * 255))
    assert (split.u[:, 0] == 256).all()
    assert np.array_equal(split.u[:, 1:], split.y[:, :-1])
    assert split.scored is None and task.metric == "perplexity"


@pytest.mark.parametrize("source", ["digits", "mnist"])
def test_labelled_pixels_differ_in_their_first_token_only(home, source):
    options = {"source": source, "per_class": 1}
    plain, told = (tasks.get("pixels", home, labelled=labelled, **options)
                   for labelled in (False, True))
    pictures = tasks.get(source, home, **({} if source == "digits" else {"per_class": 1}))
    for part in SETS:
        a, b = whole(getattr(plain, part)), whole(getattr(told, part))
        assert np.array_equal(a.y, b.y) and np.array_equal(a.u[:, 1:], b.u[:, 1:])
        assert (a.u[:, 0] == plain.classes).all()
        assert np.array_equal(b.u[:, 0] - told.classes, getattr(pictures, part).y)
    assert told.classes == plain.classes and told.features == told.classes + 10
    assert told.vocabulary == told.features and told.length == plain.length


@pytest.mark.parametrize("name, size", [("pathfinder", 32), ("pathx", 128)])
def test_published_pathfinder_is_cut_in_its_own_order(home, name, size):
    task = tasks.get(name, home, source="files")
    sizes = [len(getattr(task, part)) for part in SETS]
    assert sizes == ([16, 2, 2] if size == 32 else [8, 1, 1])
    assert task.length == size**2
    data = images.load_pathfinder(home, size)
    joined = np.concatenate([getattr(task, part).images for part in SETS])
    assert np.array_equal(joined, data.images)


def test_generated_pathfinder_is_equally_bright_and_its_test_stays():
    few, more = (tasks.get("pathfinder", counts=(n, 2, 3)) for n in (1, 3))
    assert np.array_equal(few.test.images, more.test.images)
    # All ink that isn't an edge is white: the snakes' brightness says nothing.
    for image in more.train.images:
        assert image.max() == 255 and (image == 255).mean() > 0.02


def test_many_pictures_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(image_tasks, "KEPT_FROM", 3)
    stored = pathfinder.stored
    monkeypatch.setattr(pathfinder, "stored",
                        lambda *args, **kw: stored(*args, **kw, block=4))
    task = tasks.get("pathfinder", tmp_path, counts=(4, 2, 2))
    assert len(list((tmp_path / "pathfinder").iterdir())) == 1
    plain = tasks.get("pathfinder", counts=(2, 2, 2))
    assert np.array_equal(task.train.images[:2], plain.train.images)


# Sounds


@pytest.mark.parametrize("mask", [False, True])
def test_clips_are_standardized_cut_and_padded(home, mask):
    task = tasks.get("spoken_digits", home, length=450, mask=mask)
    data = audio.load_fsdd(home)
    _, index = audio.fsdd_split(data)
    for row, i in enumerate(index):
        n = min(int(data.lengths[i]), 450)
        clip = data.clips[i, :n].astype(np.float64)
        expected = (clip - clip.mean()) / clip.std()
        # Numbers below 3 in single precision, the mean subtracted once.
        np.testing.assert_allclose(task.test.u[row, :n, 0], expected, atol=2e-6)
        assert not task.test.u[row, n:].any()
        if mask:
            assert task.test.mask[row].sum() == n
    assert mask or task.test.mask is None


def test_official_split_of_spoken_digits(home):
    task = tasks.get("spoken_digits", home, mask=True)
    takes = {part: {(n - 400) // 7 for n in getattr(task, part).mask.sum(1)}
             for part in SETS}
    assert takes == {"train": {10, 11}, "validation": {5, 6, 7, 8, 9},
                     "test": {0, 1, 2, 3, 4}}


@pytest.mark.parametrize("speaker", tiny_files.VOICES)
def test_a_voice_is_in_one_set_only(home, speaker):
    task = tasks.get("spoken_digits", home, split="speaker", speaker=speaker,
                     mask=True)
    seen = {part: set(((getattr(task, part).mask.sum(1) - 400) % 7).tolist())
            for part in SETS}
    assert seen["test"] == {tiny_files.VOICES[speaker]}
    assert all(len(voices) == 1 for voices in seen.values())
    assert set.union(*seen.values()) == set(tiny_files.VOICES.values())


@pytest.mark.parametrize("name, length", [("spoken_digits", 512),
                                          ("spoken_digits", 401),
                                          ("speech_commands", 301)])
@pytest.mark.parametrize("decimate", ["plain", "filtered"])
def test_only_the_test_is_at_half_the_rate(home, name, length, decimate):
    full = tasks.get(name, home, length=length, mask=True)
    half = tasks.get(name, home, length=length, mask=True, decimate=decimate)
    assert (full.test_rate, half.test_rate) == (1, 2)
    for part in ("train", "validation"):
        assert np.array_equal(getattr(full, part).u, getattr(half, part).u)
    assert half.test.length == -(-length // 2)
    assert np.array_equal(half.test.mask.sum(1), -(-full.test.mask.sum(1) // 2))
    expected = resampling.decimate(full.test.u[..., 0], decimate == "filtered")
    assert np.array_equal(half.test.u[..., 0], expected)
    every = full.test.u[:, ::2]
    assert np.array_equal(half.test.u, every) == (decimate == "plain")


def test_ten_words(home):
    task = tasks.get("speech_commands", home, words=10, length=300)
    assert task.classes == 10 and np.bincount(task.test.y).tolist() == 10 * [1]
    assert len(task.train) == 20


# Texts


def test_root_operator_is_the_generators(tiny):
    task = tiny["listops"]
    known, asked = (listops.Expressions(
        [row[real].astype(np.int8) for row, real in zip(split.u, split.mask)], split.y)
        for split in (task.train, task.test))
    for rows, y in (known, asked):
        assert [listops.evaluate(row) for row in rows] == y.tolist()
    assert tasks.baseline_scores(task, "test")["root operator"]["accuracy"] == \
        listops.root_operator_baseline(known, asked)


def test_published_listops_has_the_same_tokens(home):
    task = tasks.get("listops", home, source="files", below=30)
    rows = [listops.text(row[real].astype(np.int8)) for row, real in
            zip(task.train.u, task.train.mask)]
    assert rows == ["[MAX 3 4 ]", "[MIN 9 8 ]"]
    assert task.test.y.tolist() == [3]


def test_reviews_are_bytes_and_validation_is_from_training(home):
    task = tasks.get("text", home, length=40, percent=30)
    said = {part: [bytes(text.BYTES.decode(row)[:-1]).decode()
                   for row in whole(getattr(task, part)).u] for part in SETS}
    assert len(said["train"]) == 14 and len(said["validation"]) == 6
    assert all(s.startswith("train") for s in said["train"] + said["validation"])
    assert sorted(said["test"]) == sorted(
        f"test {o} film {i}" for o in ("neg", "pos") for i in range(10))
    assert np.bincount(task.validation.labels).tolist() == [3, 3]
    for part in SETS:
        y = whole(getattr(task, part)).y
        assert [int("pos" in s) for s in said[part]] == y.tolist()


def test_mails_have_no_headers_and_no_copies(home):
    task = tasks.get("mails", home, length=60)
    bodies = [bytes(text.BYTES.decode(row)[:-1]).decode() for part in SETS
              for row in whole(getattr(task, part)).u]
    assert not any("X-Spam" in body for body in bodies)
    # "Lunch at …" repeats "lunch at …", and stays away.
    assert sorted(bodies) == sorted(set(tiny_files.MAILS.values())
                                    - {tiny_files.MAILS["hard-ham-1/e"]})
    assert [np.bincount(getattr(task, part).labels, minlength=2).tolist()
            for part in SETS] == [[2, 1], [1, 1], [1, 1]]
    assert mails.load_mails(home).labels.sum() == 3


def test_long_documents_keep_their_end(home):
    task = tasks.get("retrieval", home, length=6)
    split = whole(task.validation)
    assert split.u.shape == (2, 2, 6) and split.mask.all()
    assert (split.u[..., -1] == text.EOS).all()
    assert bytes(text.BYTES.decode(split.u[0, 0])[:-1]) == b"eval "


def test_any_file_can_be_read(tmp_path):
    (tmp_path / "song.txt").write_bytes(b"la" * 500)
    task = tasks.get("characters", file=tmp_path / "song.txt", length=10,
                     percent=(50, 25))
    assert [len(getattr(task, part).values) for part in SETS] == [500, 250, 250]
    pair = tasks.baseline_scores(task)["bigram"]
    # After l comes a and after a comes l: about 250 of each, one for the others.
    assert pair["accuracy"] == 1 and pair["loss"] < np.log(1 + 256 / 249) + 1e-9


def test_bigram_by_hand():
    u = np.array([[0, 0, 1, 1, 0, 1]])
    known = Split(u, np.array([[0, 1, 1, 0, 1, 0]]))
    asked = Split(u[:, :2], np.array([[1, 0]]),
                  scored=np.array([[True, False]]))
    got = rivals.bigram(known, asked, 2, 2)
    # Token 0 was answered by 0 once and by 1 twice: with one more, 2/5 and 3/5.
    np.testing.assert_allclose(got["loss"], -np.log(3 / 5), rtol=1e-12)
    np.testing.assert_allclose(got["perplexity"], 5 / 3, rtol=1e-12)
    assert got["accuracy"] == 1


# Memory


def test_variants_of_copying_are_what_they_say():
    options = {"counts": (50, 5, 5), "memorize": 4, "wait": 6}
    plain, mixed, back = (tasks.get(name, **options) for name in (
        "copying", "selective_copying", "reverse_copying"))
    for task in (plain, mixed, back):
        u, y, scored = (getattr(task.train, f) for f in ("u", "y", "scored"))
        assert (scored == (np.arange(14) >= 10)).all()
        for row, answer in zip(u, y[:, 10:]):
            payload = row[(row > 0) & (row < 9)]
            assert np.array_equal(answer, payload[::-1] if task is back else payload)
    assert (plain.train.u[:, :4] > 0).all() and (mixed.train.u[:, :4] == 0).any()


@pytest.mark.parametrize("name", ["recall", "induction"])
def test_every_token_counts_in_training_only_if_asked(name):
    for every in (True, False):
        task = tasks.get(name, counts=(5, 3, 3), every=every)
        assert (task.train.scored is None) == every
        for split in (task.validation, task.test):
            assert split.scored.sum(1).tolist() == [1, 1, 1]
            assert split.scored[:, -1].all()


# Films and series


def test_times_reach_the_model_in_three_ways():
    told, not_told, appended = (tasks.get("pendulum", counts=(3, 2, 2), times=times)
                                for times in ("steps", "ignored", "appended"))
    made = pendulum.pendulum(3, 2, 2, 42)
    assert np.array_equal(told.train.steps, made.train.steps)
    assert not_told.train.steps is None and appended.train.steps is None
    assert np.array_equal(told.test.u, not_told.test.u)
    assert np.array_equal(appended.test.u[..., :-1], told.test.u)
    assert np.array_equal(appended.test.u[..., -1], made.test.steps)
    assert np.array_equal(np.rint(told.test.u * 255), made.test.u)


@pytest.mark.parametrize("times", ["steps", "ignored", "appended"])
def test_variants_of_films(times):
    task = tasks.get("pendulum", counts=(20, 1, 1), times=times)
    made = pendulum.pendulum(20, 1, 1, 42).train
    before = task.train.u.copy(), task.train.y.copy()
    new = task.augment(task.train, 3, 7)
    again, other = task.augment(task.train, 3, 7), task.augment(task.train, 3, 8)
    assert np.array_equal(new.u, again.u) and not np.array_equal(new.u, other.u)
    assert np.array_equal(task.train.u, before[0])   # in place, nothing changes
    assert np.array_equal(task.train.y, before[1])
    turned = Stream(3, 7).uniform(20) < 0.5
    sign = np.where(turned, -1, 1)[:, None, None]
    assert np.array_equal(new.y, task.train.y * np.concatenate(
        [sign, np.ones_like(sign)], axis=2))
    # A frame without noise is the clean one, or its mirror image.
    mirrored = pendulum.mirror(made.clean, made.y)[0]

    def clear(variant, epoch):
        """Which frames have no noise at all."""
        turned = Stream(3, epoch).uniform(20) < 0.5
        expected = np.where(turned[:, None, None], mirrored, made.clean)
        pixels = np.rint(255 * variant.u[..., :576]).astype(np.uint8)
        return (pixels == expected).all(-1)

    ours, theirs, first = clear(new, 7), clear(other, 8), made.times < pendulum.CLEAR
    assert ours[first].all() and theirs[first].all()
    assert not np.array_equal(ours, theirs)          # it hides other frames
    assert not np.array_equal(ours, made.factors == 1)
    assert 0.05 < ours[~first].mean() < 0.5          # and about as many
    if times == "steps":
        assert np.array_equal(new.steps, task.train.steps)
    if times == "appended":
        assert np.array_equal(new.u[..., -1], made.steps)


def test_many_films_are_kept(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(pendulum, "stored", lambda *counts, directory: (
        calls.append((counts, directory)), pendulum.pendulum(2, 1, 1, 0))[1])
    tasks.get("pendulum", tmp_path, counts=(998, 1, 1), seed=5)
    assert calls == [((998, 1, 1, 5), tmp_path)]


def test_what_is_known_of_the_future(home):
    task = tasks.get("ett", home, target="all", marks=True, look_back=10, horizon=4)
    assert (task.features, task.classes, task.channels) == (6, 2, (0, 1))
    split = task.train.take([0, 30])
    assert not split.u[:, 10:, :2].any() and not split.u[:, 9, :2].any()
    marks = split.u[..., 2:]
    assert (abs(marks) <= 0.5).all()
    hours = np.rint((marks[..., 3] + 0.5) * 23)
    assert hours[0].tolist() == list(range(14))      # the file begins at midnight
    assert hours[1, 0] == 30 % 24
    days = np.rint((marks[..., 1] + 0.5) * 30) + 1
    assert days[:, 0].tolist() == [1, 2]


def test_a_day_ago_by_hand(home):
    task = tasks.get("ett", home, horizon=30, look_back=26)
    got = task.rivals["a day ago"](task.train, task.test)
    split = whole(task.test)
    errors = [split.y[:, 26 + k, 0].astype(np.float64)
              - split.u[:, 26 - 24 + k % 24, 0] for k in range(30)]
    np.testing.assert_allclose(got["mse"], np.mean(np.square(errors)), rtol=1e-6)
    np.testing.assert_allclose(got["mae"], np.mean(np.abs(errors)), rtol=1e-6)
    assert "a day ago" not in tasks.get("ett", home, look_back=23).rivals


def test_relative_answers_have_the_same_errors(home):
    """Persistence costs the same, whether or not its value is subtracted."""
    scores = [tasks.baseline_scores(tasks.get("ett", home, relative=r))["persistence"]
              for r in (True, False)]
    np.testing.assert_allclose(scores[0]["mse"], scores[1]["mse"], rtol=1e-5)


def test_wide_inputs_have_no_linear_rivals(home):
    task = tasks.get("weather", home, target="all", look_back=24, horizon=6)
    assert "ridge" in tasks.baseline_scores(task)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rivals, "LARGEST", 47)
        assert "ridge" not in tasks.baseline_scores(task)
        patch.setattr(rivals, "LARGEST", 48)
        assert "ridge" in tasks.baseline_scores(task)


# Training takes them as they are


@pytest.mark.parametrize("name, options", [
    *((name, {}) for name in TINY if name != "pixels"), ("pixels", {"source": "digits"}),
    ("spoken_digits", {"decimate": "plain"}), ("mnist", {"permutation": 0})])
def test_one_epoch(home, name, options):
    task = tasks.get(name, home, **(TINY[name][0] | options))
    few = Experiment("", name, H=4, P=4, blocks=1, depth=1,
                     bidirectional=task.kind == "classification")
    config = training.TrainingConfig(epochs=1, batch_size=min(len(task.train), 64))
    result = training.fit(assembly.build(few, task), task, config, progress=False,
                          augment=task.augment)
    assert np.isfinite(result.validation[task.metric])
    if "decimate" in options:
        told = result.model(task.test.u[:4], rate=task.test_rate)
        not_told = result.model(task.test.u[:4])
        assert told.shape == (4, 10) and np.isfinite(told).all()
        assert not np.array_equal(told, not_told)
