"""What is compared computes the same, and results say where they come from."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from annotated_ssm import s5
from annotated_ssm.cauchy import dplr_kernel, to_C_tilde
from annotated_ssm.nplr import dplr
from benchmarks import measure
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
    assert [path.stem for path in RESULTS] == [
        "baselines", "kernels", "layers", "scans"]


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_results_say_where_they_come_from(path):
    result = json.loads(Path(path).read_text())
    assert result["command"] == f"python -m benchmarks.{path.stem}"
    for key in ("commit", "date", "device", "jax", "python", "cores"):
        assert result[key]
    assert not result["uncommitted_changes"]
    assert not result["configuration"]["quick"]
