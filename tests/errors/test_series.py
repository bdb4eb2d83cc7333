"""What the readers of series say when something is wrong."""

import numpy as np
import pytest

from annotated_ssm import series


def make(rows=100, columns=("a", "OT")):
    values = np.random.default_rng(0).standard_normal((rows, len(columns)))
    times = np.datetime64("2020-01-01T00", "s") + np.arange(rows).astype("m8[h]")
    return series.Series(values, columns, times)


@pytest.mark.parametrize("data, message", [
    (b"", "begins with '': a line \"date,column,…\""),
    (b"time,OT\n", "begins with 'time,OT'"), (b"date\n2020-01-01\n", "begins with 'da"),
    (b"date,OT\n", "has no rows"),
    (b"date,OT\n2020-01-01,\n", "can't be read"),
    (b"date,OT\n2020-01-01,x\n", "can't be read: .*x"),
    (b"date,OT\nyesterday,1\n", "can't be read: .*yesterday"),
    (b"date,a,b\n2020-01-01,1\n", "can't be read"),
    (b"date,OT\n2020-01-01,nan\n", "numbers or times that are missing"),
    (b"date,OT\n2020-01-01,inf\n", "numbers or times that are missing"),
    (b"date,OT\nNaT,1\n", "numbers or times that are missing"),
    (b"date,OT\n2020-01-01,1\n\n2020-01-02,1\n", "has empty lines")])
def test_read_series(data, message):
    with pytest.raises(ValueError, match=f"the series .*{message}"):
        series.read_series(data)


@pytest.mark.parametrize("call, message", [
    (lambda: series.load_series("ETTh3"), "name is 'ETTh3': there is ETTh1, ETTh2"),
    (lambda: series.borders("etth1", 20_000), "name is 'etth1'"),
    (lambda: series.borders("ETTh1", 14_399), "rows is 14399: ETTh1 needs at least 1440"),
    (lambda: series.borders("ETTm1", 17_420), "rows is 17420: ETTm1 needs at least 576"),
    (lambda: series.borders("ECL", 1), "rows is 1: ECL needs"),
    (lambda: series.forecasting(make(), "ECL", 0, 5), "lookback is 0, horizon is 5"),
    (lambda: series.forecasting(make(), "ECL", 5, 0), "lookback is 5, horizon is 0"),
    (lambda: series.forecasting(make(), "ECL", 66, 5), "lookback is 66, horizon is 5"),
    (lambda: series.forecasting(make(), "ECL", 5, 11), "lookback is 5, horizon is 11"),
    (lambda: series.forecasting(make(), "ECL", 5, 5, target="b"), "target is 'b'"),
    (lambda: series.forecasting(make(columns=("a",)), "ECL", 5, 5), "target is None"),
    (lambda: series.forecasting(
        make()._replace(values=np.ones((100, 2))), "ECL", 5, 5),
     "column 'OT' is constant in training"),
    (lambda: series.forecasting(make(), "ECL", 5, 5).test.calendar([0]),
     "marks is None: ask for them with marks=True"),
    (lambda: series.naive_forecasts(series.forecasting(make(), "ECL", 5, 5).test),
     "period is 24: the windows reach back only 5 rows")])
def test_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
