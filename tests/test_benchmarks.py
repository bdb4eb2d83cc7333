"""What is compared computes the same, and results say where they come from."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import heads, s5
from annotated_ssm.catalogue import get
from annotated_ssm.cauchy import dplr_kernel, to_C_tilde
from annotated_ssm.nplr import dplr
from benchmarks import generation, measure, runtime
from benchmarks.peers import broadcasting_kernel, s5_layer, s5_parameters

RESULTS = sorted(measure.RESULTS.glob("*.json"))


def both(a):
    return np.concatenate([a, a.conj()], -1)


@pytest.mark.parametrize("L", [1, 16, 101])
def test_the_broadcasting_kernel_is_the_kernel(L):
    Λ, P, B, V = dplr("legs", 16)
    C = np.random.default_rng(0).normal(size=16) @ V
    tilde = np.asarray(to_C_tilde(Λ, P, C, 0.1, L)[0])
    given = (both(np.asarray(a)) for a in (Λ, P[0], B, tilde))
    K = dplr_kernel(Λ, P, B, C, 0.1, L)
    # A division by the rounding error of 1 + z, in float32.
    np.testing.assert_allclose(broadcasting_kernel(*given, 0.1, L), K, rtol=0,
                               atol=1e-4 * np.abs(K).max())


def test_the_rewritten_s5_is_the_layer():
    p = s5_parameters(np.random.default_rng(0), 6, 8)
    assert p["B"].shape == (8, 6, 2)
    u = np.random.default_rng(1).normal(size=(100, 6)).astype(np.float32)
    Λ = p["Lambda_re"] + 1j * p["Lambda_im"]
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    y = s5.apply_ssm(Λ, B, C, p["D"], jnp.exp(p["log_dt"]), u)[0]
    # its e^{λΔ} − 1 cancels: eps/Δ of the states, 1e-4 at the least Δ
    np.testing.assert_allclose(s5_layer(p, u), y, rtol=0,
                               atol=3e-4 * np.abs(y).max())


def test_compare_reports_every_candidate():
    functions = {"plain": lambda x: x @ x, "twice": lambda x: (x @ x) @ x}
    table = measure.compare(functions, (jnp.ones((8, 8)),), "plain", rounds=1)
    assert list(table) == ["plain", "twice"]
    assert table["plain"]["speedup"] == table["plain"]["temp_share"] == 1 or (
        table["plain"]["temp_bytes"] == 0)
    assert all(row["ms"] >= 0 and row["rounds"] == 1 for row in table.values())
    table = measure.compare(functions, (jnp.ones((8, 8)),), "plain", limit=-1)
    assert all(row["ms"] is None and row["rounds"] == 0 for row in table.values())


def test_a_result_is_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    path = measure.record("x", {"value": 1})
    with pytest.raises(TypeError):
        measure.record("x", {"value": object()})
    assert json.loads(path.read_text()) == {"value": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_there_are_results():
    there = {path.stem for path in RESULTS}
    must = {"baselines", "compilation", "kernels", "layers", "scans"}
    assert must <= there <= must | {"generation", "runtime"}


def test_generation_writes_the_likeliest_tokens_from_a_full_cache():
    models = generation.models(32, 16, 1)
    for name, model in models.items():
        write, params = generation.writer(model, 6)
        told = heads.continue_text(model, np.zeros((1, 1), np.int32), 6, temperature=0)
        state = model.init_state(1)
        got = write(params, state, jnp.zeros(1, jnp.int32))
        assert got[:, 0].tolist() == np.asarray(told[0])[0].tolist(), name
        full = generation.after(model, 26, 1)
        assert jax.tree.structure(full) == jax.tree.structure(state)
    *_, count, clock = generation.after(models["attention"], 26, 1)[0]
    assert count.tolist() == [26] and clock.tolist() == [26.0]


def test_runtime_compares_models_that_train_and_answer():
    form, batch = runtime.QUICK["listops"]
    chosen = runtime.experiments("listops", small=True)
    assert [e.layer for e in chosen.values()] == ["S4D", "S4", "S5", "S5", "S5"]
    assert all(e.bidirectional for e in chosen.values())
    for experiment in chosen.values():
        programs, count = runtime.programs(experiment, form, batch)
        step, arguments = programs["training"]
        params, _, loss = jax.eval_shape(step, *arguments)
        assert sum(p.size for p in jax.tree.leaves(params)) == count > 0
        assert loss.shape == ()
        answer, arguments = programs["forward"]
        assert jax.eval_shape(answer, *arguments).shape == (batch, form.classes)


def test_runtime_has_the_papers_sizes():
    for task, (form, _) in runtime.TASKS.items():
        sizes = runtime.experiments(task, small=False)
        s4, own = sizes["S4"], sizes["S5, its paper's size"]
        assert (s4.H, s4.depth, s4.N) == (
            get(f"{task}-s4").H, get(f"{task}-s4").depth, 64)
        assert (own.H, own.P) == (get(f"{task}-s5").H, get(f"{task}-s5").P)
        assert sizes["S5, P = H"].P == s4.H and sizes["S5, P = N"].P == s4.N


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_results_say_where_they_come_from(path):
    result = json.loads(Path(path).read_text())
    assert result["command"] == f"python -m benchmarks.{path.stem}"
    for key in ("commit", "date", "device", "jax", "python", "cores"):
        assert result[key]
    assert not result["uncommitted_changes"]
    assert not result["configuration"]["quick"]
