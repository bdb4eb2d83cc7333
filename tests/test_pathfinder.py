"""Pathfinder: geometry, growth, pictures, and an answer that can be proved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated_ssm import datasets
from annotated_ssm import pathfinder as p
from annotated_ssm.generators import Stream

EPS = np.finfo(float).eps
each_size = pytest.mark.parametrize("size", p.SIZES)
coordinates = st.integers(-40, 40).map(lambda k: k / 4)
points = st.builds(complex, coordinates, coordinates)


@pytest.fixture(scope="module")
def drawings():
    """Some of each size, with their rules."""
    counts = {16: 12, 32: 8, 64: 5, 128: 4, 256: 5}
    return {size: [p.draw(p.SIZES[size], Stream(0, size, i)) for i in range(n)]
            for size, n in counts.items()}


# The rules


def test_rules_are_those_of_the_benchmark():
    # Pathfinder, its two larger sizes and Path-X, contour length 14.
    assert list(p.SIZES) == [16, 32, 64, 128, 256]
    for size, length, thickness, radius, distance, continuity, margins, short in (
            (32, 2, 0.5, 1.5, 7, 1.0, (1,), 5), (64, 5, 1.0, 2.5, 12, 1.8, (1,), 5),
            (128, 5, 1.5, 3.0, 20, 1.8, (2, 3), 8), (256, 5, 2.0, 5.0, 27, 1.8, (3,), 7)):
        r = p.SIZES[size]
        assert (r.size, r.length, r.thickness, r.radius) == (
            size, length, thickness, radius)
        assert (r.distance, r.continuity, r.margins) == (distance, continuity, margins)
        assert (r.count, r.short, r.distractors, r.band) == (
            14, 14 // 3, short, 2 * distance)


@each_size
def test_rules_keep_what_the_proof_needs(size):
    r = p.SIZES[size]
    for margin in r.margins:
        reach = 2 * margin + r.thickness
        assert r.thickness >= 0.5                    # joined dashes are nearer
        assert (r.length + 0.5) / 2 < reach          # crossing ones are noticed
        assert r.radius + r.thickness / 2 <= reach   # no disc hides another snake


# Distances


@settings(derandomize=True, deadline=None, max_examples=100)
@given(points, points, points)
def test_distance_is_the_least_of_many(z, a, b):
    if a == b:
        return
    along = a + np.linspace(0, 1, 2001) * (b - a)
    got = p.distance(np.array(z), np.array([a, b]))
    assert 0 <= np.abs(z - along).min() - got + 1e-12 <= np.abs(b - a) / 2000


@settings(derandomize=True, deadline=None, max_examples=60)
@given(points, points, points, points)
def test_gap_of_two_dashes(a, b, c, d):
    if a == b or c == d:
        return
    one, two = np.array([[a, b]]), np.array([[c, d]])
    gap = p.gaps(one, two)[0, 0]
    for same in (p.gaps(two, one), p.gaps(one[:, ::-1], two)):
        assert abs(gap - same[0, 0]) <= 100 * EPS      # of numbers up to 20
    s = np.linspace(0, 1, 201)
    brute = np.abs((a + s * (b - a))[:, None] - (c + s * (d - c))).min()
    short = min(abs(b - a), abs(d - c))
    fine = (abs(b - a) + abs(d - c)) / 200
    if brute > fine:             # they don't cross
        assert abs(gap - brute) <= fine
    else:
        assert gap <= short / 2 + fine


def test_ring_by_looking_at_every_pixel():
    x, y = np.meshgrid(np.arange(-5, 30), np.arange(-5, 30))
    pixels = (x + 1j * y).ravel()
    for centre in (12 + 12j, 11.5 + 9.25j, 12.49 + 10.51j):
        for radius in (2, 3, 6, 8):
            off = np.abs(pixels - centre) - radius
            want = pixels[(off >= -0.5) & (off < 0.5)]
            got = p.ring(centre, radius)
            assert sorted(got, key=lambda z: (z.real, z.imag)) == sorted(
                want, key=lambda z: (z.real, z.imag))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(0, 6.28), st.sampled_from([32, 64, 128]), st.floats(-0.5, 0.5))
def test_steps(angle, size, shift):
    rules = p.SIZES[size]
    for margin in rules.margins:
        v, far = np.exp(1j * angle), (size / 2 + shift) * (1 + 1j)
        last = np.array([far - rules.length * v, far])
        dashes, weights = p.steps(last, rules, margin)
        pivot = far + margin * v
        to = (dashes[:, 1] - pivot) / np.abs(dashes[:, 1] - pivot)
        turn = np.abs(np.angle(to / v))
        # arccos loses half of the digits near 0.
        assert np.abs(weights - np.cos(rules.continuity * turn) ** 2).max() < 1e-7
        assert turn.max() < np.pi / 2 / rules.continuity
        assert np.abs(np.abs(dashes[:, 1] - dashes[:, 0]) - rules.length).max() < (
            8 * size * EPS)
        assert p.gaps(dashes, last[None]).max() < 2 * margin + 0.5


def test_free_looks_at_far_dashes_no_less_than_all():
    stream = Stream(3)
    for _ in range(40):
        # As steps makes them: candidates that lie close together.
        z = 6 * stream.uniform(2, 9, 2)
        near = 30 + 30j + z[0] + 1j * z[1]
        z = 60 * stream.uniform(2, 25)
        away = np.exp(2j * np.pi * stream.uniform(25))
        others = np.stack([z[0] + 1j * z[1], z[0] + 1j * z[1] + 5 * away], axis=1)
        want = (p.gaps(near, others) >= 4.5).all(axis=1)
        assert np.array_equal(p.free(near, list(others), 4.5), want)
    assert p.free(near, [], 4.5).all()


# Drawings


@each_size
def test_drawings_keep_every_rule(size, drawings):
    rules = p.SIZES[size]
    for d in drawings[size]:
        assert d.margin in rules.margins
        reach = 2 * d.margin + rules.thickness
        counts = np.bincount(d.snakes)
        assert counts[:2].tolist() == [rules.count] * 2
        assert np.all(counts[2:] == rules.short)
        assert len(counts) <= 2 + rules.distractors
        gap, order = p.gaps(d.dashes, d.dashes), np.arange(len(d.snakes))
        joined = (d.snakes[:, None] == d.snakes) & (
            np.abs(order[:, None] - order) <= 1)
        assert gap[~joined].min() >= reach
        assert gap[joined].max() < 2 * d.margin + 0.5
        low = rules.padding + d.margin + rules.thickness / 2
        for part in (d.dashes.real, d.dashes.imag):
            assert low <= part.min() and part.max() <= size - 1 - low
            assert np.array_equal(part[:, 1], np.rint(part[:, 1]))    # pixels
        long = [d.dashes[d.snakes == k] for k in (0, 1)]
        apart = np.abs(long[0][0, 0] - long[1][0, 0])
        assert abs(apart - rules.distance) <= 0.5
        assert d.discs.tolist() == [long[d.owners[0]][0, 0], long[d.owners[1]][-1, 1]]


@each_size
def test_the_answer_follows_from_the_dashes_alone(size, drawings):
    stream, seen = Stream(5), set()
    for d in drawings[size]:
        order = stream.permutation(len(d.dashes))
        # Which end of a dash is near isn't told either.
        dashes = d.dashes[order]
        turned = stream.uniform(len(dashes)) < 0.5
        dashes = np.where(turned[:, None], dashes[:, ::-1], dashes)
        reach = 2 * d.margin + p.SIZES[size].thickness
        way = p.trace(dashes, d.discs, reach)
        assert np.array_equal(way, d.snakes[order] == d.owners[0])
        label = d.owners[0] == d.owners[1]
        assert p.answer(dashes, d.discs, reach) == label
        seen.add(bool(label))
    assert seen == {False, True}


def test_a_wrong_reach_gives_wrong_answers(drawings):
    # The check above can fail: with other gaps the walk goes astray.
    for reach, least in ((1.0, 1), (6.0, 1)):
        wrong = [p.answer(d.dashes, d.discs, reach) != (d.owners[0] == d.owners[1])
                 for d in drawings[32]]
        assert sum(wrong) >= least


def test_labels_are_fair_coins_drawn_first():
    made = p.pathfinder(12, 16, seed=2)
    coins = [Stream(2, 16, i).integers(0, 2, 2) for i in range(12)]
    assert made.labels.tolist() == [int(same) for same, _ in coins]
    assert made.owners[:, 0].tolist() == [int(origin) for _, origin in coins]
    many = np.array([Stream(2, 32, i).integers(0, 2, 2) for i in range(4000)])
    assert np.abs(many.mean(axis=0) - 0.5).max() < 4.5 * np.sqrt(0.25 / 4000)


# Ink


def naive(drawing, rules):
    pixels = np.arange(rules.size)
    z = (pixels + 1j * pixels[:, None])[..., None]
    near = p.distance(z, drawing.dashes).min(axis=-1)
    dash = np.clip(0.5 + rules.thickness / 2 - near, 0, 1)
    near = np.abs(z - drawing.discs).min(axis=-1)
    disc = np.clip(0.5 + rules.radius - near, 0, 1)
    return np.rint(255 * np.maximum(dash / min(1, 0.5 + rules.thickness / 2), disc))


@each_size
def test_windows_lose_no_ink(size, drawings):
    for d in drawings[size][:2]:
        image = p.render(d, p.SIZES[size])
        assert image.dtype == np.uint8 and image.shape == (size, size)
        assert np.array_equal(image, naive(d, p.SIZES[size]))
        assert image.max() == 255 and image[0].max() == 0 == image[:, -1].max()


def test_literal_brightness(drawings):
    # 2 · 0.75, 2 and 1, scaled so that the largest is 255.
    for d in drawings[32]:
        image = p.render(d, p.SIZES[32], (1.5, 2.0, 1.0))
        far = d.dashes[:, 1]
        values = image[far.imag.astype(int), far.real.astype(int)]
        scale = 2.0 if d.snakes.max() > 1 else 1.5
        assert set(values[d.snakes < 2]) == {round(255 * 1.5 / scale)}
        assert set(values[d.snakes > 1]) <= {255}
    even = [p.render(d, p.SIZES[32], (0.3, 0.3, 0.3)) for d in drawings[32]]
    plain = [p.render(d, p.SIZES[32]) for d in drawings[32]]
    assert np.array_equal(even, plain)


# Many


def test_pictures_never_change():
    # Written down: a data set that moves is no data set.
    made = p.pathfinder(6, 16)
    digest = datasets.sha256(made.images.tobytes() + made.owners.astype("<i8").tobytes())
    assert digest[:16] == "7ce2b8e051514254"


def test_same_seed_same_bytes():
    one, two = p.pathfinder(3, 32, 9), p.pathfinder(3, 32, 9)
    for a, b in zip(one, two):
        assert a.tobytes() == b.tobytes() and a.dtype == b.dtype
    assert len({im.tobytes() for im in one.images}) == 3
    other = p.pathfinder(3, 32, 10)
    assert all(a.tobytes() != b.tobytes() for a, b in zip(one.images, other.images))


def test_any_picture_can_be_made_alone():
    whole = p.pathfinder(9, 16, seed=4)
    for start, n in ((0, 4), (4, 5), (8, 1), (3, 0)):
        part = p.pathfinder(n, 16, seed=4, start=start)
        assert all(np.array_equal(a, b[start:start + n]) for a, b in zip(part, whole))


def test_empty():
    made = p.pathfinder(0, 64)
    assert [a.shape for a in made] == [(0, 64, 64), (0,), (0, 2)]


# Files


def test_stored_pictures_are_made_once(tmp_path, monkeypatch):
    whole, calls, make = p.pathfinder(11, 16, seed=6), [], p.pathfinder

    def counted(n, *rest):
        calls.append(n)
        return make(n, *rest)

    monkeypatch.setattr(p, "pathfinder", counted)
    options = dict(size=16, seed=6, directory=tmp_path, block=3)
    for start, n, blocks in ((0, 7, 3), (2, 5, 0), (5, 6, 1), (4, 0, 0)):
        calls.clear()
        part = p.stored(n, start=start, **options)
        assert all(np.array_equal(a, b[start:start + n]) and a.dtype == b.dtype
                   for a, b in zip(part, whole))
        assert sum(map(bool, calls)) == blocks
    names = sorted(f.name for f in tmp_path.rglob("*"))
    assert names == ["pathfinder", *(f"v1-16-seed6-{k}-{k + 3}.npz" for k in (0, 3, 6)),
                     "v1-16-seed6-9-12.npz"]


def test_a_lost_block_is_made_again_alone(tmp_path):
    options = dict(size=16, directory=tmp_path, block=2)
    first = p.stored(6, **options)
    files = sorted(tmp_path.rglob("*.npz"))
    before = {f: f.read_bytes() for f in files}
    files[1].unlink()
    second = p.stored(6, **options)
    assert all(np.array_equal(a, b) for a, b in zip(first, second))
    assert {f: f.read_bytes() for f in files} == before


def test_an_interrupt_leaves_whole_blocks_only(tmp_path, monkeypatch):
    save, written = np.savez_compressed, []

    def interrupted(file, **arrays):
        if written:
            file.write(b"half of a file")
            raise KeyboardInterrupt
        written.append(save(file, **arrays))

    options = dict(size=16, directory=tmp_path, block=2)
    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        p.stored(6, **options)
    assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["v1-16-seed0-0-2.npz"]
    monkeypatch.setattr(np, "savez_compressed", save)
    assert all(np.array_equal(a, b)
               for a, b in zip(p.stored(6, **options), p.pathfinder(6, 16)))


def test_the_environment_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    p.stored(1, 16, block=1)
    assert (tmp_path / "pathfinder" / "v1-16-seed0-0-1.npz").is_file()
