"""Real series: a year and more of hourly temperatures, and recorded speech.

The folder in ANNOTATED_SSM_DATA holds ETTh1.csv (the Electricity Transformer
data of the Informer paper) and the Free Spoken Digit Dataset as a zip.
"""

import csv
import datetime
import hashlib
import io
import os
import wave
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from annotated_ssm import hippo, s5, scan, series
from annotated_ssm.layers import S5
from flax import nnx

EPS = float(np.finfo(np.float32).eps)
SHA256 = {
    "ETTh1.csv": "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
    "free-spoken-digit-dataset-26eb9aa.zip":
        "bd01cf8a129be749962d49732c117cb2f8bc15b0d7ff20ab03c02c42fc7aff5f",
}


def read(name):
    """The named file's bytes, which must be the ones that these tests know."""
    folder = os.environ.get("ANNOTATED_SSM_DATA")
    assert folder, "set ANNOTATED_SSM_DATA to the folder that holds " + ", ".join(SHA256)
    content = Path(folder, name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256[name]
    return content


@pytest.fixture(scope="module")
def temperatures():
    """(hours since the first row, seven standardized columns)."""
    rows = list(csv.reader(io.StringIO(read("ETTh1.csv").decode())))[1:]
    times = [datetime.datetime.fromisoformat(row[0]) for row in rows]
    hours = np.array([(t - times[0]).total_seconds() / 3600 for t in times])
    values = np.array([row[1:] for row in rows], float)
    return hours, ((values - values.mean(0)) / values.std(0)).astype(np.float32)


@pytest.fixture(scope="module")
def speech():
    """Eight clips end to end: some seconds at 8 kHz, between −1 and 1."""
    with zipfile.ZipFile(io.BytesIO(
            read("free-spoken-digit-dataset-26eb9aa.zip"))) as archive:
        names = sorted(n for n in archive.namelist() if n.endswith("_jackson_0.wav"))[:8]
        clips = []
        for name in names:
            with wave.open(io.BytesIO(archive.read(name))) as clip:
                assert clip.getframerate() == 8000 and clip.getnchannels() == 1
                clips.append(np.frombuffer(clip.readframes(clip.getnframes()), "<i2"))
    return np.concatenate(clips).astype(np.float32) / 2**15


@pytest.fixture(scope="module")
def system():
    """An S5 system with seven features and 32 states, as apply_ssm takes it."""
    p = s5.initialize(jax.random.key(0), 7, 32)
    pair = {k: p[k][..., 0] + 1j * p[k][..., 1] for k in ("B", "C")}
    return (p["Lambda_re"] + 1j * p["Lambda_im"], pair["B"], pair["C"], p["D"],
            jnp.exp(p["log_dt"]))


def test_the_rows_are_hourly(temperatures):
    hours, values = temperatures
    assert values.shape == (17420, 7)
    assert (np.diff(hours) == 1).all()


def test_gaps_as_steps_equal_the_held_series(temperatures, system):
    """Rows that are lost: their gap as a step, or the next row held over it.

    With zero-order hold both describe the same input in continuous time, so
    the states at the rows that are left agree.
    """
    hours, values = temperatures
    rows = np.random.default_rng(0).random(len(hours)) < 0.3
    rows[[0, -1]] = True
    left = np.flatnonzero(rows)
    steps = np.diff(hours[left], prepend=-1).astype(np.float32)
    held = values[left[np.searchsorted(left, np.arange(len(hours)))]]
    dense, dense_last = s5.apply_ssm(*system, held)
    sparse, sparse_last = s5.apply_ssm(*system, values[left], steps=steps)
    # A state sums up to 1/(Δ·|Re Λ|) = 2000 recent inputs, each rounded once.
    tolerance = 2000 * EPS * float(jnp.abs(dense).max())
    assert float(jnp.abs(dense[left] - sparse).max()) < tolerance
    assert float(jnp.abs(dense_last - sparse_last).max()) < tolerance
    ignored, _ = s5.apply_ssm(*system, values[left])
    assert float(jnp.abs(dense[left] - ignored).max()) > 100 * tolerance


def test_a_year_in_pieces_equals_a_year_at_once(temperatures):
    """Streaming in parallel chunks, the state carried from one to the next."""
    _, values = temperatures
    layer = S5(H=7, P=64, rngs=nnx.Rngs(0))
    u = jnp.asarray(values)[None, :17400]
    whole, last = layer(u)
    state, pieces = layer.init_state(batch=1), []
    for piece in jnp.split(u, 12, axis=1):
        y, state = layer(piece, state=state)
        pieces.append(y)
    tolerance = 2000 * EPS * float(jnp.abs(whole).max())
    assert float(jnp.abs(jnp.concatenate(pieces, 1) - whole).max()) < tolerance
    assert float(jnp.abs(state - last).max()) < tolerance


@pytest.mark.parametrize("method", scan.METHODS)
def test_every_scan_agrees_on_speech(method, speech, system):
    """The systems' modes filter recorded speech; the naive loop is the judge."""
    Λ, B, _, _, dt = system
    a = np.exp(np.asarray(Λ * dt, complex))
    b = speech[:, None] * np.asarray(B[:, 0] * dt)
    x, expected = np.zeros(len(a), complex), []
    for drive in b:
        x = a * x + drive
        expected.append(x)
    xs = scan.linear_scan(jnp.asarray(a, jnp.complex64),
                          jnp.asarray(b, jnp.complex64), method=method)
    # Rounding a itself moves a mode that lives 2000 samples by 2000 eps.
    tolerance = 2 * 2000 * EPS * np.abs(expected).max()
    assert np.abs(np.asarray(xs) - np.array(expected)).max() < tolerance


def test_more_coefficients_remember_more(temperatures):
    """HiPPO-LegS reads 2048 hours of oil temperature and tells them back."""
    _, values = temperatures
    past = values[:2048, -1].astype(float)
    errors = {}
    for N in (8, 16, 32, 64):
        A, B = hippo.transition("legs", N)
        c = np.zeros(N)
        for k, sample in enumerate(past, 1):
            left, right = np.eye(N) - A / (2 * k), np.eye(N) + A / (2 * k)
            c = np.linalg.solve(left, right @ c + B * sample / k)
        back = hippo.reconstruct("legs", c, np.arange(1, 2049) / 2048)
        errors[N] = np.sqrt(np.mean((back - past)**2)) / past.std()
    assert errors[8] > errors[16] > errors[32] > errors[64]
    # The best polynomial of that degree, fitted to the same 2048 values.
    for N, error in errors.items():
        t = np.linspace(-1, 1, 2048)
        fit = np.polynomial.Legendre.fit(t, past, N - 1)(t)
        best = np.sqrt(np.mean((fit - past)**2)) / past.std()
        assert best < error < 1.1 * best


def test_the_table_as_the_package_reads_it(temperatures):
    hours, values = temperatures
    table = series.load_series("ETTh1", download=False)
    assert table.columns == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    assert table.values.shape == (17_420, 7)
    assert ((table.times - table.times[0]) / np.timedelta64(1, "h") == hours).all()
    z = (table.values - table.values.mean(0)) / table.values.std(0)
    assert np.array_equal(z.astype(np.float32), values)


@pytest.mark.parametrize("lookback", [24, 96, 336])
def test_forecasts_without_a_model(lookback):
    """The known errors of two naive forecasts, 24 hours, one column."""
    table = series.load_series("ETTh1", download=False)
    task = series.forecasting(table, "ETTh1", lookback, 24)
    assert len(task.test) == len(task.validation) == 2857
    assert len(task.train) == 8640 - lookback - 23
    got = series.naive_forecasts(task.test)
    assert round(got["last value"], 4) == 0.0343
    assert round(got["one period ago"], 4) == 0.0458
