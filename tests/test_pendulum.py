"""The pendulum: physics against closed forms, pictures, snow, uneven times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from scipy.special import ellipj, ellipk

from annotated_ssm import datasets
from annotated_ssm import pendulum as p
from annotated_ssm.generators import Stream

EPS = np.finfo(float).eps
W0 = np.sqrt(p.STIFFNESS)
CALM = dict(friction=0.0, kick=0.0)


def same(one, two):
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(one, two))


@pytest.fixture(scope="module")
def films():
    return p.sequences(150, 3, 1)


# Motion


def test_stiffness_is_that_of_a_rod_of_half_a_metre():
    # By quadrature: torque of the weight over the moment of inertia.
    x = (np.arange(1000) + 0.5) / 1000 * 0.5
    assert abs(9.81 * x.mean() / (x**2).mean() - p.STIFFNESS) < 1e-4


@pytest.mark.parametrize("start", [0.1, 1.0, 2.5, 3.0])
def test_free_swing_is_jacobis(start):
    # sin(θ/2) = k sn(K − w₀t, k²) with k = sin(θ₀/2).
    k = np.sin(start / 2)
    errors = []
    for h in (4e-4, 2e-4, 1e-4):
        θ, ω = p.simulate(np.array([start]), Stream(0), 81, spacing=0.01, h=h, **CALM)
        sn, cn, _, _ = ellipj(ellipk(k**2) - W0 * 0.01 * np.arange(81), k**2)
        errors.append([np.abs(θ[0] - 2 * np.arcsin(k * sn)).max(),
                       np.abs(ω[0] + 2 * k * W0 * cn).max()])
    # The scheme is the leapfrog, of order 2, with angles half a step ahead.
    ratios = np.array(errors[:-1]) / errors[1:]
    assert np.abs(ratios - [2, 4]).max() < 0.01
    assert abs(errors[-1][0] / (1e-4 / 2 * 2 * k * W0) - 1) < 0.01
    assert errors[-1][1] < 1e-8 * W0**3


def test_friction_in_the_linear_limit():
    γ, θ0, t = 0.8, 1e-4, 0.01 * np.arange(100)
    θ, _ = p.simulate(np.array([θ0]), Stream(0), 100, friction=γ, kick=0.0)
    w = np.sqrt(p.STIFFNESS - γ**2 / 4)
    want = θ0 * np.exp(-γ * t / 2) * (np.cos(w * t) + γ / (2 * w) * np.sin(w * t))
    # The scheme's modes are off by h w₀/2 in phase.
    assert np.abs(θ[0] - want).max() < θ0 * 1e-4 * W0


@pytest.mark.parametrize("start", [0.5, 2.0, 3.1])
def test_energy_error_is_of_order_one_and_bounded(start):
    errors = []
    for h in (2e-3, 1e-3, 5e-4, 2.5e-4):
        θ, ω = p.simulate(np.array([start]), Stream(0), 400, h=h, spacing=0.01, **CALM)
        E = p.energy(θ, ω)
        errors.append(np.abs(E - E[:, :1]).max())
        # What is lost is h/2 · ω V', up to order 2; checked on both halves.
        formula = h / 2 * ω * p.STIFFNESS * np.sin(θ)
        off = np.abs(E - E[:, :1] - formula)
        assert off.max() < 2 * h**2 * p.STIFFNESS**2
        assert off[:, 200:].max() < 1.5 * off[:, :200].max()
    slope = np.polyfit(np.log([8, 4, 2, 1]), np.log(errors), 1)[0]
    assert abs(slope - 1) < 0.02


def test_friction_only_takes():
    θ, ω = p.simulate(np.array([0.4, 1.5, 2.8]), Stream(0), 300, kick=0.0)
    E = p.energy(θ, ω) - 1e-4 / 2 * ω * p.STIFFNESS * np.sin(θ)
    assert np.diff(E, axis=1).max() < 1e-8 * p.STIFFNESS**2
    assert np.all(E[:, -1] < E[:, 0])


def test_kicks_have_their_size_and_are_independent():
    n, kick = 20_000, 0.1
    # With one inner step a frame and no friction, ω changes at θ = 0 by the kick.
    _, ω = p.simulate(np.zeros(n), Stream(1), 3, spacing=1e-6, h=1e-6, **CALM | {
        "kick": kick})
    first, second = np.diff(ω, axis=1).T
    for kicks in (first, second):
        assert abs(kicks.mean()) < 5 * kick / np.sqrt(n)
        assert abs(kicks.std() / kick - 1) < 5 / np.sqrt(2 * n)
    assert abs((first * second).mean()) < 5 * kick**2 / np.sqrt(n)


def test_mirrored_start_mirrors_the_motion():
    start = np.linspace(0.1, 3.1, 7)
    θ, ω = p.simulate(start, Stream(0), 50, kick=0.0)
    θm, ωm = p.simulate(-start, Stream(0), 50, kick=0.0)
    assert np.array_equal(θ, -θm) and np.array_equal(ω, -ωm)


# Pictures


def test_mirror_image_is_exact():
    θ = np.linspace(-4, 4, 173)
    u, y = p.mirror(p.draw(θ), np.stack([np.sin(θ), np.cos(θ)], 1).astype(np.float32))
    assert np.array_equal(u, p.draw(-θ))
    assert np.array_equal(y[:, 0], -np.sin(θ).astype(np.float32))
    assert np.array_equal(y[:, 1], np.cos(θ).astype(np.float32))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.floats(-3.14, 3.14))
def test_a_quarter_turn_turns_the_picture(θ):
    one = p.draw(np.array(θ)).reshape(24, 24).astype(int)
    two = p.draw(np.array(θ + np.pi / 2)).reshape(24, 24).astype(int)
    assert np.abs(np.rot90(one) - two).max() <= 1        # a rounding of the ink


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.floats(-3.14, 3.14))
def test_the_picture_points_where_the_rod_points(θ):
    ink = p.draw(np.array(θ)).reshape(24, 24) / 255
    at = np.arange(24) - 11.5
    centre = np.array([(ink * at).sum(), (ink * at[:, None]).sum()]) / ink.sum()
    want = p.LENGTH / 2 * np.array([np.sin(θ), np.cos(θ)])
    assert np.abs(centre - want).max() < 0.1             # a tenth of a pixel
    assert abs(ink.sum() - p.LENGTH * p.WIDTH) < 0.05 * p.LENGTH * p.WIDTH


def test_difference_from_a_drawing_library():
    # The original's way: a line of width 8 in 128 × 128, shrunk with Lanczos.
    def library(θ):
        image = Image.new("F", (128, 128), 0.0)
        tip = 64 + 55 * np.sin(θ), 64 + 55 * np.cos(θ)
        ImageDraw.Draw(image).line([(64, 64), tip], fill=1.0, width=8)
        small = image.resize((24, 24), Image.Resampling.LANCZOS)
        return 255 * np.clip(np.asarray(small), 0, 1).ravel()

    angles = np.linspace(-np.pi, np.pi, 41)
    theirs, ours = np.array([library(θ) for θ in angles]), p.draw(angles).astype(float)
    # Measured: 1.08 of 255 on average, 0.986, and 1.6°, most of it because
    # the library puts its thick lines on whole pixels.
    assert np.abs(theirs - ours).mean() < 1.3
    assert np.corrcoef(theirs.ravel(), ours.ravel())[0, 1] > 0.98
    grid = np.linspace(-np.pi, np.pi, 3600, endpoint=False)
    templates = p.draw(grid).astype(float)
    nearest = grid[[((templates - image) ** 2).sum(axis=1).argmin() for image in theirs]]
    off = np.angle(np.exp(1j * (nearest - angles)))
    assert np.abs(off).max() < np.radians(2) and abs(off.mean()) < np.radians(0.3)


# Snow


def test_noise_factors():
    f = p.noise_factors(Stream(4), 3000)
    assert f.shape == (3000, 100) and f.min() == 0 and f.max() == 1
    assert np.all(f[:, :p.CLEAR] == 1)
    # The walk moves by up to 0.2, and the thresholds are 0.5 apart at least.
    assert np.abs(np.diff(f[:, p.CLEAR:], axis=1)).max() <= 0.4
    # Left and right are alike: f and 1 − f have one distribution.
    f = f[:, p.CLEAR:]
    assert abs((f == 0).mean() - (f == 1).mean()) < 5 * 0.37 * np.sqrt(2 / 3000 / 5)
    assert abs(f.mean() - 0.5) < 5 * 0.2 / np.sqrt(3000)


def test_remix_by_its_formula():
    clean = Stream(5).integers(0, 256, 7, 50, 576).astype(np.uint8)
    f = Stream(6).uniform(7, 50)
    u = p.remix(clean, f, 2, 9)
    noise = 255 * Stream(p.SNOW, 2, 9).uniform(7, 50, 576)
    want = f[..., None] * clean + (1 - f[..., None]) * noise
    assert u.dtype == np.uint8
    # Cut off to whole numbers, in single precision.
    assert np.all((u <= want + 1e-4) & (u > want - 1 - 1e-4))
    assert np.array_equal(p.remix(clean, np.ones((7, 50)), 1), clean)


def test_remix_is_a_function_of_its_seed():
    clean, f = np.zeros((70, 50, 576), np.uint8), np.full((70, 50), 0.5)
    one = p.remix(clean, f, 8, 0)
    assert np.array_equal(one, p.remix(clean, f, 8, 0))
    other = p.remix(clean, f, 8, 1)
    a, b = (z.astype(float).ravel() - z.mean() for z in (one, other))
    assert abs((a * b).mean() / (a * a).mean()) < 5 / np.sqrt(a.size)
    # Whole films that come in pieces of 64 have one stream of noise.
    assert np.array_equal(one[:64], p.remix(clean[:64], f[:64], 8, 0))


def test_snow_shows_nothing():
    f = np.zeros((3, 50))
    white, black = (np.full((3, 50, 576), c, np.uint8) for c in (255, 0))
    assert np.array_equal(p.remix(white, f, 1), p.remix(black, f, 1))
    counts = np.bincount(p.remix(black, f, 1).ravel(), minlength=256)[:255]
    expected = 3 * 50 * 576 / 255                  # 255 U is below 255
    assert np.abs(counts - expected).max() < 5.5 * np.sqrt(expected)


# Films


def test_shapes(films):
    n = 150
    for name, shape, dtype in (
            ("u", (n, 50, 576), "u1"), ("y", (n, 50, 2), "f4"), ("times", (n, 50), "i8"),
            ("steps", (n, 50), "f4"), ("factors", (n, 50), "f4"),
            ("clean", (n, 50, 576), "u1")):
        array = getattr(films, name)
        assert array.shape == shape and array.dtype == np.dtype(dtype)


def test_times_and_steps(films):
    assert films.times.min() == 0 and films.times.max() == 99
    assert np.all(np.diff(films.times, axis=1) >= 1)
    assert np.all(films.steps[:, 0] == 1)
    assert np.array_equal(films.steps[:, 1:], np.diff(films.times, axis=1))
    # Each frame is kept half of the time.
    kept = np.bincount(films.times.ravel(), minlength=100) / len(films.u)
    assert np.abs(kept - 0.5).max() < 5 * np.sqrt(0.25 / len(films.u))


def test_frames_show_the_targets(films):
    angle = np.arctan2(*np.moveaxis(films.y.astype(float), -1, 0))
    # Targets are float32: a pixel may round the other way.
    off = np.abs(p.draw(angle).astype(int) - films.clean)
    assert off.max() <= 1 and (off > 0).mean() < 1e-4
    assert np.array_equal(films.u, p.remix(films.clean, films.factors, 3, 1))
    clear = films.factors == 1
    assert np.array_equal(films.u[clear], films.clean[clear])
    assert np.all(films.factors[films.times < p.CLEAR] == 1)


def test_films_move_as_a_pendulum_can(films):
    # |ω| is at most what a fall from the top gives, and what 100 kicks add.
    turn = np.angle(np.exp(1j * np.diff(np.arctan2(*np.moveaxis(
        films.y.astype(float), -1, 0)), axis=1)))
    fastest = 2 * W0 + 5 * 0.1 * np.sqrt(100)
    near = films.steps[:, 1:] * 0.01 * fastest < np.pi      # no whole turn between
    assert np.all(np.abs(turn) <= films.steps[:, 1:] * 0.01 * fastest + 1e-6 + 10 * ~near)
    assert near.mean() > 0.99


def test_starts_are_uniform():
    θ = p.simulate(2 * np.pi * Stream(9).uniform(5000) - np.pi, Stream(8), 1)[0][:, 0]
    for mean in (np.sin(θ).mean(), np.cos(θ).mean(), np.sin(2 * θ).mean()):
        assert abs(mean) < 5 * np.sqrt(0.5 / 5000)


def test_films_never_change():
    # Written down: a data set that moves is no data set. Angles pass through
    # sines, whose last bit is not ours; times and steps are whole numbers.
    films = p.sequences(4, 42, 0)
    times = datasets.sha256(films.times.astype("<i8").tobytes())
    assert times[:16] == "4dc7a5a1a64410af"
    first = np.array([[0.499578, -0.866269], [0.530582, -0.847633],
                      [0.699996, -0.714147], [-0.928921, 0.370278]])
    assert np.abs(films.y[:, 0] - first).max() < 1e-6
    assert abs(films.u.mean() - 68.1603) < 1e-3


def test_same_seed_same_films(films):
    assert same(films, p.sequences(150, 3, 1))
    other = p.sequences(150, 3, 2)
    assert not np.intersect1d(films.y[:, 0, 0], other.y[:, 0, 0]).size


def test_splits_are_sets_of_their_own():
    splits = p.pendulum(6, 5, 4, seed=1)
    assert [len(part.u) for part in splits] == [6, 5, 4]
    for k, part in enumerate(splits):
        assert same(part, p.sequences(len(part.u), 1, k))
    rows = np.concatenate([part.y.reshape(len(part.y), -1) for part in splits])
    assert len(np.unique(rows, axis=0)) == 15
    # One set doesn't depend on the size of another.
    assert same(splits.test, p.pendulum(2, 3, 4, seed=1).test)


def test_empty():
    assert p.sequences(0, 1).u.shape == (0, 50, 576)
    assert p.interpolation(0, 1).y.shape == (0, 50, 576)


def test_memory_is_needed(films):
    # Frames of pure snow: two films with the same snow and other targets.
    hidden = films.factors == 0
    assert 0.05 < hidden.mean() < 0.4
    wrong = p.remix(films.clean[::-1], films.factors, 3, 1)
    assert np.array_equal(wrong[hidden], films.u[hidden])
    assert films.y[hidden].var(axis=0).min() > 0.2


# Missing frames


def test_interpolation():
    gaps = p.interpolation(60, 7, 0)
    assert gaps.u.dtype == gaps.y.dtype == np.uint8 and gaps.seen.dtype == bool
    assert np.array_equal(gaps.u, gaps.y * gaps.seen[..., None])
    assert gaps.seen[:, :p.CLEAR].all() and np.all(gaps.y.max(axis=-1) > 180)
    assert abs(gaps.seen[:, p.CLEAR:].mean() - 0.5) < 5 * np.sqrt(0.25 / 60 / 45)
    assert np.array_equal(gaps.steps[:, 1:], np.diff(gaps.times, axis=1))
    assert same(gaps, p.interpolation(60, 7, 0))
    # Frames are five times as far apart as in the regression: more changes.
    films = p.sequences(60, 7, 0)
    assert np.array_equal(films.times, p.interpolation(60, 7, 0).times)
    change = [np.abs(np.diff(a.astype(float), axis=1)).mean()
              for a in (gaps.y, films.clean)]
    assert change[0] > 1.5 * change[1]


# Files


def test_stored_films_are_made_once(tmp_path, monkeypatch):
    made = p.pendulum(5, 4, 3, seed=2)
    first = p.stored(5, 4, 3, 2, directory=tmp_path)
    monkeypatch.setattr(p, "pendulum", None)                # not called again
    second = p.stored(5, 4, 3, 2, directory=tmp_path)
    for a, b, c in zip(made, first, second):
        assert same(a, b) and same(a, c)
    names = [f.name for f in tmp_path.rglob("*") if f.is_file()]
    assert names == ["v1-5-4-3-seed2.npz"]


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(file, **arrays):
        file.write(b"half of a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        p.stored(2, 1, 1, directory=tmp_path)
    assert [f.name for f in tmp_path.rglob("*")] == ["pendulum"]


def test_the_environment_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    p.stored(1, 1, 1)
    assert (tmp_path / "pendulum" / "v1-1-1-1-seed42.npz").is_file()
