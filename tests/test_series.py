"""Forecasting tables: reading, borders, scale, windows and naive answers."""

import datetime

import numpy as np
import pytest

from annotated_ssm import series

ETT = 14_400


def table(rows, columns, step="1h", start="2016-07-01 00:00:00", seed=0):
    values = np.random.default_rng(seed).standard_normal((rows, len(columns)))
    size, unit = int(step[:-1]), step[-1]
    times = np.datetime64(start.replace(" ", "T"), "s") + (
        np.arange(rows) * size).astype(f"m8[{unit}]")
    lines = ["date," + ",".join(columns)]
    lines += [str(t).replace("T", " ") + "," + ",".join(map(repr, row.tolist()))
              for t, row in zip(times, values)]
    return "\n".join(lines).encode() + b"\n", values, times


@pytest.fixture(scope="module")
def ett():
    data, values, _ = table(ETT + 50, ["HUFL", "OT"])
    return series.read_series(data), values


def test_read_series_exactly():
    data, values, times = table(50, ["a", "b b", "OT"], "15m", "2011-12-31 23:00:00")
    for content in (data, data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data):
        got = series.read_series(content)
        assert np.array_equal(got.values, values)   # repr is read back exactly
        assert got.columns == ("a", "b b", "OT") and (got.times == times).all()


def test_minutes_without_seconds():
    got = series.read_series(b"date,x\n2010-01-01 00:00,1\n2010-01-01 01:00,2.5")
    assert got.values.tolist() == [[1], [2.5]]
    assert got.times[1] == np.datetime64("2010-01-01T01:00:00")


def test_load_by_name(tmp_path):
    data, values, _ = table(5, ["OT"])
    (tmp_path / "ETT-small").mkdir()
    for name, place in {"ETTm2": "ETT-small/ETTm2.csv", "Weather": "weather.csv",
                        "ECL": "electricity.csv"}.items():
        (tmp_path / place).write_bytes(data)
        got = series.load_series(name, tmp_path, download=False)
        assert np.array_equal(got.values, values)
        assert got.columns == series.load_series(name, tmp_path / place).columns


def test_borders():
    day = 24
    hourly = ((0, 360 * day), (360 * day, 480 * day), (480 * day, 600 * day))
    assert series.borders("ETTh1", 17_420) == series.borders("ETTh2", 14_400) == hourly
    assert series.borders("ETTm1", 69_680) == tuple(
        (4 * a, 4 * b) for a, b in hourly)
    for rows in (10, 35_064, 26_304, 52_696):
        train, validation, test = series.borders("Weather", rows)
        assert train == (0, int(rows * 0.7)) and test[1] == rows
        assert test[1] - test[0] == int(rows * 0.2) and validation[0] == train[1]
        assert validation[1] == test[0]


@pytest.mark.parametrize("lookback, horizon", [(96, 24), (1, 1), (720, 168)])
@pytest.mark.parametrize("multivariate", [False, True])
def test_windows_are_the_rows_that_one_cuts_by_hand(ett, lookback, horizon,
                                                    multivariate):
    data, values = ett
    task = series.forecasting(data, "ETTh1", lookback, horizon, multivariate)
    chosen = values if multivariate else values[:, 1:]
    mean, std = chosen[:8640].mean(0), chosen[:8640].std(0)
    z = ((chosen - mean) / std).astype(np.float32)
    assert np.allclose(task.mean, mean, rtol=0, atol=1e-15) and np.allclose(
        task.std, std, rtol=1e-14)
    assert task.columns == (("HUFL", "OT") if multivariate else ("OT",))
    firsts = {"train": lookback, "validation": 8640, "test": 11_520}
    ends = {"train": 8640, "validation": 11_520, "test": 14_400}
    for name, first in firsts.items():
        windows = getattr(task, name)
        assert len(windows) == ends[name] - first - horizon + 1
        index = np.array([0, len(windows) // 2, len(windows) - 1])
        u, y = windows.inputs(index), windows.targets(index)
        assert u.shape == (3, lookback + horizon, chosen.shape[1])
        assert y.shape == (3, horizon, chosen.shape[1])
        assert u.dtype == y.dtype == np.float32
        for row, past, future in zip(index, u, y):
            at = first + row   # where the values that are asked for begin
            assert np.array_equal(past[:lookback], z[at - lookback:at])
            assert not past[lookback:].any()
            assert np.array_equal(future, z[at:at + horizon])


def test_no_training_window_asks_for_a_later_row(ett):
    data, values = ett
    task = series.forecasting(data, "ETTh1", 10, 5)
    spoiled = data._replace(values=np.concatenate([values[:8640],
                                                   values[8640:] * np.nan]))
    other = series.forecasting(spoiled, "ETTh1", 10, 5)
    assert np.array_equal(task.train.values, other.train.values)
    assert np.array_equal(task.mean, other.mean)


def test_windows_share_the_memory_of_the_series(ett):
    data, _ = ett
    task = series.forecasting(data, "ETTh1", 336, 168, marks=True)
    for windows in (task.train, task.validation, task.test):
        for view in (windows.values, windows.marks):
            owner = view
            while owner.base is not None:
                owner = owner.base
            assert owner.nbytes < 2 * ETT * 8 * 4 < view.size * view.itemsize
            assert not view.flags.writeable
    u = task.train.inputs([0])
    u[:] = 7   # a copy: the series stays
    assert task.train.inputs([0])[0, 0, 0] != 7


def test_a_slice_and_one_number_are_indices_too(ett):
    task = series.forecasting(ett[0], "ETTh1", 10, 5)
    assert np.array_equal(task.test.inputs(slice(2, 4)), task.test.inputs([2, 3]))
    assert task.test.targets(np.arange(3)).shape == (3, 5, 1)


def test_time_marks_are_those_of_datetime():
    times = np.datetime64("2015-12-30T00:00:00") + (
        np.arange(40_000) * 37).astype("m8[m]")
    got = series.time_marks(times, quarters=True)
    for t, row in zip(times[::101].tolist(), got[::101].tolist()):
        assert isinstance(t, datetime.datetime)
        assert row == [t.month, t.day, t.weekday(), t.hour, t.minute // 15]
    assert np.array_equal(series.time_marks(times), got[:, :4])


def test_marks_belong_to_their_rows():
    data, _, times = table(4 * ETT, ["OT"], "15m")
    task = series.forecasting(series.read_series(data), "ETTm1", 8, 4, marks=True)
    marks = series.time_marks(times, True)
    assert np.array_equal(task.test.calendar([3])[0],
                          marks[4 * 11_520 + 3 - 8:4 * 11_520 + 3 + 4])


@pytest.mark.parametrize("columns, chosen", [
    (["a", "OT", "b"], "OT"), (["x", "WetBulbCelsius"], "WetBulbCelsius"),
    (["MT_001", "MT_320"], "MT_320")])
def test_the_target_column(columns, chosen):
    data, values, _ = table(100, columns)
    task = series.forecasting(series.read_series(data), "Weather", 4, 2)
    assert task.columns == (chosen,)
    other = series.forecasting(series.read_series(data), "Weather", 4, 2,
                               target=columns[0])
    assert np.allclose(other.mean, values[:70, :1].mean(0))


def test_naive_forecasts_by_hand(ett):
    task = series.forecasting(ett[0], "ETTh1", 48, 60)
    u = task.validation.inputs(slice(None)).astype(float)[:, :48, 0]
    y = task.validation.targets(slice(None)).astype(float)[:, :, 0]
    ago = np.concatenate([u[:, 24:48], u[:, 24:48], u[:, 24:36]], axis=1)
    got = series.naive_forecasts(task.validation)
    assert np.isclose(got["last value"], np.mean((y - u[:, -1:])**2), rtol=1e-6)
    assert np.isclose(got["one period ago"], np.mean((y - ago)**2), rtol=1e-6)


def test_a_periodic_series_is_forecast_perfectly():
    values = np.sin(2 * np.pi * np.arange(200) / 24)[:, None]
    times = np.datetime64("2020-01-01T00", "s") + np.arange(200).astype("m8[h]")
    task = series.forecasting(series.Series(values, ("OT",), times), "ECL", 24, 12)
    got = series.naive_forecasts(task.test)
    assert got["one period ago"] < 1e-12 < got["last value"]
