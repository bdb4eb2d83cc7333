"""Measured results belong to experiments as they are now, and say whence."""

import ast
import json
import math
import re
import shutil
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from repository import ROOT, cells, directives, settings

from annotated_ssm import experiments, figures_tables, plotting
from annotated_ssm.figures_tables import NOT_MEASURED, Paper, Score, Table

sys.path[:0] = [str(ROOT / "tools")]
import results as tool  # noqa: E402

RESULTS = sorted((ROOT / "results" / "experiments").glob("*.json"))
KERNELS = sorted((ROOT / "results" / "kernels").glob("*.json"))
CHAPTER = ROOT / "nbs" / "19_results.ipynb"


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


# What is added after the run


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_rivals_and_evaluations_are_scores_on_the_test(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    rivals, others = record.get("rivals", {}), record.get("evaluations", {})
    asked = tool.EVALUATIONS.get(record["name"], {})
    for name, found in others.items():
        assert found["asked"] == asked[name]
    scores = [*rivals.values(),
              *({k: v for k, v in e.items() if k != "asked"} for e in others.values())]
    for score in scores:
        assert set(score) <= set(record["test"]) and record["metric"] in score
        assert all(type(v) is float and math.isfinite(v) for v in score.values())
        assert 0 <= score.get("accuracy", 0) <= 1
    assert ("rivals" in record) == ("test_examples" in record)
    if scores:
        assert record["test_examples"] > 0
        assert re.fullmatch("[0-9a-f]{40}", record["judged"]["commit"])
        assert record["judged"]["uncommitted"] is False


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_responses_are_images_of_one_run(path):
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["of"] == f"{path.stem}-seed0" and path.stem in tool.KERNELS
    assert re.fullmatch("[0-9a-f]{40}", kept["commit"]) and kept["command"]
    for layer in kept["layers"]:
        for when in "before", "after":
            images = np.array(layer[when])
            assert images.shape == (len(layer["features"]), math.prod(kept["shape"]))
            assert (np.abs(images).max(axis=1) == 127).all()


def test_responses_are_small():
    assert sum(path.stat().st_size for path in KERNELS) <= 100_000


def test_evaluations_are_of_experiments_that_are_run():
    assert set(tool.EVALUATIONS) | set(tool.KERNELS) <= set(tool.RUNS)
    assert set(tool.RUNS) <= set(experiments.EXPERIMENTS)


def test_what_a_record_lacks_is_added_without_a_new_run(tmp_path, monkeypatch):
    """And the run is made again only if its directory is gone."""
    digits = experiments.get("digits")
    tiny = replace(digits, H=4, P=4, blocks=1, depth=1,
                   training=replace(digits.training, epochs=1))
    monkeypatch.setitem(experiments.EXPERIMENTS, "digits", tiny)
    monkeypatch.setattr(tool, "RESULTS", tmp_path / "results" / "experiments")
    monkeypatch.setattr(tool, "RESPONSES", tmp_path / "results" / "kernels")
    here = experiments.provenance() | {"commit": "0" * 40, "uncommitted": False}
    monkeypatch.setattr(experiments, "provenance", lambda: dict(here))
    made, out = [], tmp_path / "runs"

    def measure(name, seed, out, data):
        made.append(name)
        return experiments.run(name, seed, out=out, progress=False)

    monkeypatch.setattr(tool, "measure", measure)
    monkeypatch.setattr(tool, "EVALUATIONS", {})
    assert tool.missing("digits", 0, out) and tool.fill("digits", 0, out)
    assert tool.complete("digits", 0) and made == ["digits"]
    record = tool.kept("digits", 0)
    assert record["test_examples"] == 360 and "linear" in record["rivals"]

    slower = {"slower": {"rate": 0.5}}
    monkeypatch.setattr(tool, "EVALUATIONS", {"digits": slower})
    assert tool.lacking(record) == slower and not tool.complete("digits", 0)
    assert not tool.missing("digits", 0, out) and tool.fill("digits", 0, out)
    found = tool.kept("digits", 0)["evaluations"]["slower"]
    assert made == ["digits"] and found.pop("asked") == {"rate": 0.5}
    assert found == experiments.evaluate(out / "digits-seed0", "test", rate=0.5)

    kept = json.loads((tool.RESPONSES / "digits.json").read_text())
    start, trained = (experiments.build(tiny, experiments.tasks.get("digits")),
                      experiments.load(out / "digits-seed0"))
    for when, model in ("before", start), ("after", trained):
        y = tool.own_responses(model.backbone.blocks[0].layer, 64, 28)
        features = kept["layers"][0]["features"]
        assert kept["layers"][0][when] == tool.quantized(y[features]).tolist()

    shutil.rmtree(out)
    assert tool.complete("digits", 0)
    monkeypatch.setattr(tool, "EVALUATIONS", {"digits": {"other": {"rate": 0.6}}})
    assert tool.missing("digits", 0, out)


def test_half_the_rate_needs_twice_the_step():
    """The same trained model: right with Δ doubled, near chance, 0.1, without."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS
            if re.match(r"spoken-digits-s\d-seed", path.name)]
    assert kept
    for record in kept:
        accuracy = {name: found["accuracy"]
                    for name, found in record["evaluations"].items()}
        left = accuracy.pop("4 kHz, Δ as in training")
        # six standard errors of guessing 300 times
        assert left < 0.1 + 6 * (0.09 / record["test_examples"]) ** 0.5
        assert min(accuracy.values()) > 0.6 and len(accuracy) == 3


def test_a_night_tells_what_has_become_worse(monkeypatch):
    """Three standard errors for shares, a quarter for errors; a gain is no fault."""
    share = {"metric": "accuracy", "test": {"accuracy": 0.9}, "test_examples": 400}
    bound = 0.9 - 3 * math.sqrt(2 * 0.9 * 0.1 / 400) - 1 / 400
    error = {"metric": "mse", "test": {"mse": 4e-3}, "test_examples": 1000}
    for then, good, bad in (share, bound + 1e-3, bound - 1e-3), (error, 4.9e-3, 5.1e-3):
        now = lambda value: then | {"test": {then["metric"]: value}}
        assert not tool.worse(then, now(good)) and tool.worse(then, now(bad))
    assert not tool.worse(share, share | {"test": {"accuracy": 1.0}})

    found = {"digits": share | {"test": {"accuracy": 0.5}}, "recall-s5": None,
             "pendulum-s5": error, "spoken-digits-s5": share}
    before = {"digits": share, "recall-s5": share, "pendulum-s5": error}
    monkeypatch.setattr(tool, "measure", lambda name, *_: found[name])
    monkeypatch.setattr(tool, "kept", lambda name, seed: before.get(name))
    told = {name: tool.nightly(name, "nowhere") for name in found}
    assert "0.5, was 0.9" in told["digits"] and "failed" in told["recall-s5"]
    assert told["pendulum-s5"] is None and "no record" in told["spoken-digits-s5"]
    monkeypatch.setattr(sys, "argv", ["results.py", "--nightly"])
    monkeypatch.setattr(tool, "NIGHTLY", ("digits", "pendulum-s5"))
    with pytest.raises(SystemExit, match="digits: accuracy 0.5"):
        tool.main()


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_a_spread_is_that_of_the_tests_error(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert tool.no_spread(record) is False
    if record["name"] in tool.UNEVEN:
        found, n = record["spread"], record["test_examples"]
        assert 1 / n <= found["worst_share"] < 1
        # of numbers ≥ 0 with this mean, none has a larger deviation
        assert 0 < found["standard_error"] <= record["test"]["mse"]
        assert found["median"] < 2 * record["test"]["mse"]


def test_the_spread_of_a_run(tmp_path, monkeypatch):
    tiny = replace(experiments.get("pendulum-s5"), H=4, P=4, blocks=1, depth=1,
                   options={"counts": (8, 4, 6)}, training=replace(
                       experiments.get("pendulum-s5").training, epochs=1, batch_size=4))
    monkeypatch.setitem(experiments.EXPERIMENTS, "pendulum-s5", tiny)
    record = experiments.run("pendulum-s5", 0, out=tmp_path, progress=False)
    found = tool.spread(record, tmp_path / "pendulum-s5-seed0")
    model = experiments.load(tmp_path / "pendulum-s5-seed0")
    test = experiments.tasks.get("pendulum", counts=(8, 4, 6)).test
    each = np.mean((np.array(model(test.u, test.steps)) - test.y) ** 2, axis=(1, 2))
    np.testing.assert_allclose(found["standard_error"], np.std(each, ddof=1) / 6**0.5,
                               rtol=1e-4)
    np.testing.assert_allclose(found["worst_share"], max(each) / sum(each), rtol=1e-4)


def test_the_response_of_a_feature_is_its_kernel():
    """Of a causal layer, from the lit pixel on, without the direct term."""
    from annotated_ssm.layers import S4
    from flax import nnx
    layer = S4(3, 4, rngs=nnx.Rngs(0))
    y = tool.own_responses(layer, 16, 5)
    assert np.abs(y[:, :5]).max() < 1e-5 * np.abs(y).max()
    zeros = np.zeros((1, 16, 3), np.float32)
    for h in range(3):
        lit = zeros.copy()
        lit[0, 0, h] = 1
        kernel = np.array(layer(lit)[0][0, :11, h], float)
        kernel[0] -= float(layer.D[...][h])
        # an impulse that comes later: the same convolution, rounded in float32
        np.testing.assert_allclose(y[h, 5:], kernel, atol=1e-5 * np.abs(y).max())


# The chapter


class _Made(list):
    """What the chapter's cells end in, and the papers' numbers in it."""

    papers = ()


@pytest.fixture(scope="module")
def empty_chapter(tmp_path_factory):
    """The chapter's cells, run where there is no result at all."""
    nowhere, made, papers = tmp_path_factory.mktemp("none"), _Made(), []
    namespace, check = {}, Paper.__post_init__

    def noted(self):
        check(self)
        papers.append(self)

    with pytest.MonkeyPatch.context() as patch, matplotlib.rc_context():
        patch.setattr(figures_tables, "FOLDERS", (nowhere,))
        patch.setattr(Paper, "__post_init__", noted)
        for source, _ in cells(CHAPTER, "code"):
            if "hide" in directives(source):
                continue
            tree = ast.parse(source)
            *body, last = tree.body
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(body, []), CHAPTER.name, "exec"), namespace)
                made.append(eval(compile(ast.Expression(last.value), CHAPTER.name,
                                         "eval"), namespace))
            else:
                exec(compile(tree, CHAPTER.name, "exec"), namespace)
        matplotlib.pyplot.close("all")
    made.papers = papers
    return made


def test_without_results_every_cell_is_a_dash(empty_chapter):
    tables = [made for made in empty_chapter if isinstance(made, Table)]
    assert len(tables) > 15
    for table in tables:
        wanted = 1 if "wanted" in table.head else 0
        for label, *row in table.rows:
            if row[-1] != "paper":
                assert set(row[wanted:]) == {NOT_MEASURED}, (label, row)


def test_every_number_of_a_paper_names_its_source(empty_chapter):
    assert len(empty_chapter.papers) > 15
    for paper in empty_chapter.papers:
        assert paper.work in figures_tables.WORKS and paper.values
        assert re.match(r"(Table|Section|Appendix|Figure) \S", paper.where)
        assert len(paper.differs) > 10
    cited = "".join(text for text, _ in cells(CHAPTER, "markdown"))
    assert all(link in cited for link in figures_tables.WORKS.values())


@pytest.mark.parametrize("work, where, differs", [
    ("S3", "Table 1", "all"), ("S4", "", "all"), ("S4", "Table 1", "")])
def test_a_number_of_a_paper_without_source_is_refused(work, where, differs):
    with pytest.raises(ValueError, match="all three are needed"):
        Paper("S4", {"accuracy": 0.5}, work, where, differs)


def test_one_more_record_fills_its_row_and_no_other(tmp_path):
    source = json.loads(RESULTS[0].read_text(encoding="utf-8"))
    extra = source | {"name": "mails-s5", "seed": 0, "test_examples": 100, "test": {
        "accuracy": 0.75}, "rivals": {"linear": {"accuracy": 0.5}}}
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mails-s5-seed0.json").write_text(json.dumps(extra))
    found = figures_tables.records((tmp_path,))
    table = figures_tables.results(found, {"a": "mails-s5", "b": "digits"})
    assert table.rows[0] == ("a", "75.00 %", "65.7–82.5", "1")
    assert table.rows[1] == ("b", *[NOT_MEASURED] * 3)
    assert table.rows[2][:2] == ("*linear*", "50.00 %")
    assert any(extra["commit"] in note for note in table.notes)


def test_the_interval_is_wilsons():
    """Its ends are where (p − x)² = z² x (1 − x) / n."""
    for p, n in ((0.985, 360), (1.0, 50), (0.0, 50)):
        for x in Score((p,), n).interval(1.96):
            assert (p - x)**2 == pytest.approx(1.96**2 * x * (1 - x) / n, abs=1e-15)


def test_links_lead_to_the_project():
    assert figures_tables.SOURCE == settings()["git_url"]
    assert figures_tables.FOLDERS[1] == ROOT / "results"
    assert plotting.PALETTE          # the package that the folders are found by
