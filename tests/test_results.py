"""Measured results belong to experiments as they are now, and say whence."""

import json
import re

import pytest
from repository import ROOT

from annotated_ssm import experiments

RESULTS = sorted((ROOT / "results" / "experiments").glob("*.json"))


def test_the_digits_are_there():
    names = [path.stem for path in RESULTS]
    assert {f"digits-seed{seed}" for seed in range(3)} <= set(names)


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_a_result_is_of_its_named_configuration(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert path.stem == f"{record['name']}-seed{record['seed']}"
    now = experiments.settings(experiments.get(record["name"]))
    assert experiments.differences(record["configuration"], now) == []
    assert record["command"] == (
        f"annotated-ssm train {record['name']} --seed {record['seed']}")


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_a_result_says_where_it_comes_from(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert re.fullmatch("[0-9a-f]{40}", record["commit"])
    assert record["uncommitted"] is False
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert record["device"] and record["versions"]["jax"] and record["seconds"] > 0
    for session in record["sessions"]:
        assert session["commit"] and session["uncommitted"] is False


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_a_result_is_that_of_its_best_epoch(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    metric, history = record["metric"], record["history"]
    curve = history[f"validation_{metric}"]
    best = (max if metric == "accuracy" else min)(curve)
    assert curve[record["best_epoch"] - 1] == best
    # the history is kept with six digits
    assert record["validation"][metric] == pytest.approx(best, rel=1e-5)
    assert 1 <= record["best_epoch"] <= len(curve) <= record["configuration"]["epochs"]
