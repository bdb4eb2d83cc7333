"""`sequence_parallel_scan`: on eight devices, on two processes; what is sent.

Devices are counted when JAX starts, so whatever needs several runs in processes
of its own, with eight pretended ones.
"""

import socket
import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest
from devices import cpu_devices
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh
from repository import ROOT

from annotated_ssm.scan import (METHODS, a_priori, linear_scan, linear_scan_naive,
                                scan_sequential, tally)
from annotated_ssm.sequence_parallel import (collectives, scan_stretches,
                                             sequence_parallel_scan, summarize)

U = np.finfo(np.float32).eps / 2


def environment(devices, **others):
    return cpu_devices(devices) | {"PYTHONPATH": str(ROOT)} | others


def run(script, *arguments, devices=8, **others):
    result = subprocess.run([sys.executable, ROOT / "tests" / script, *arguments],
                            env=environment(devices, **others),
                            capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.split()


# Several meshes share a process, which is slow to start.
@pytest.mark.parametrize("meshes", [["8", "unused", "1"], ["2x4", "4x2"],
                                    ["two-axes", "turned", "explicit"]], ids=" ".join)
def test_value_and_gradient_are_those_of_the_loop(meshes):
    assert run("eight_devices.py", *meshes) == meshes


def test_value_and_gradient_in_double_precision():
    meshes = ["8", "2x4"]
    assert run("eight_devices.py", *meshes, JAX_ENABLE_X64="1") == meshes


@pytest.mark.parametrize("kind", ["manual", "explicit"])
def test_a_batch_over_devices_gives_what_one_device_gives(kind):
    """Every loop of the theory inside of `shard_map`, and on an explicit mesh."""
    assert run("typed_devices.py", kind) == ["ok"]


def test_what_is_sent_does_not_grow_with_the_sequence():
    assert run("what_is_sent.py") == ["ok"]


def test_two_processes_give_what_one_gives():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    script = ROOT / "tests" / "two_processes.py"
    processes = [subprocess.Popen(
        [sys.executable, script, address, str(i)], env=environment(4), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(2)]
    try:
        outputs = [p.communicate(timeout=300) for p in processes]
    finally:
        for process in processes:
            process.kill()
    assert [p.returncode for p in processes] == [0, 0], outputs
    assert [out.split()[-3:] for out, _ in outputs] == [  # below what gloo says
        ["process", str(i), "ok"] for i in range(2)]


def draw(rng, *shape):
    z = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return z.astype(np.complex64)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_a_stretch_is_one_step(n, method, reverse):
    """A x0 + B is the last state for any x0, and A the product."""
    rng = np.random.default_rng(n)
    b, x0 = draw(rng, n, 2, 3), draw(rng, 2, 3)
    varying = () if method == "time_invariant" else ((n, 3), (n, 2, 3))
    for shape in (3,), *varying:
        a = draw(rng, *shape)
        a = (a / np.abs(a)).astype(np.complex64)
        A, B = summarize(a, b, reverse, method)
        assert A.shape == shape[len(shape) > 1:] and B.shape == (2, 3)
        product = a.astype(complex) ** n if len(shape) == 1 else a.prod(0, dtype=complex)
        assert np.abs(A - product).max() <= 4 * n * U
        last = linear_scan_naive(a, b, x0, reverse)[0 if reverse else -1]
        assert np.abs(A * x0 + B - last).max() <= a_priori(
            a, b, x0, reverse) + 4 * U * np.abs(x0).max()   # and of A's rounding


def test_the_summary_promotes_and_takes_lists():
    A, B = summarize([0.5], [[1.0 + 1j], [2.0]])
    assert A.dtype == B.dtype == np.complex64
    assert (A[0], B[0]) == (0.25, 2.5 + 0.5j)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 30), st.integers(1, 40))
def test_stretches_of_an_operator_that_does_not_commute(L, D):
    letters = [chr(97 + k) for k in range(L)]
    count = tally(partial(scan_stretches, D=D), lambda x, y: x + y, letters)
    assert count.prefixes == scan_sequential(lambda x, y: x + y, letters)


@pytest.mark.parametrize("L, D", [(6, 2), (64, 8), (65, 5), (256, 2)])
def test_work_and_depth_of_stretches(L, D):
    count = tally(partial(scan_stretches, D=D), lambda x, y: 0, [0] * L)
    assert (count.work, count.depth) == (2 * L - 2, 2 * L // D + D - 3)


def test_one_device_sends_nothing():
    mesh = Mesh(np.array(jax.devices()[:1]), ("sequence",))
    scan = jax.jit(partial(sequence_parallel_scan, mesh=mesh))
    a, b = np.full(3, 0.5, np.float32), np.ones((8, 3), np.float32)
    assert collectives(scan.lower(a, b).compile()) == []
    np.testing.assert_array_equal(scan(a, b), linear_scan(a, b, method="sequential"))


def test_an_empty_batch_and_no_steps():
    mesh = Mesh(np.array(jax.devices()[:1]), ("sequence",))
    a = np.full(3, 0.5, np.float32)
    for shape in (0, 3), (0, 2, 3), (4, 0, 3):
        b = np.ones(shape, np.complex64)
        xs, slope = jax.value_and_grad(lambda a: sequence_parallel_scan(
            a, b, mesh=mesh).real.sum())(a)
        assert sequence_parallel_scan(a, b, mesh=mesh).shape == shape
        assert sequence_parallel_scan(a, b, mesh=mesh).dtype == np.complex64
        assert xs == 0 and not slope.any()


class Program:
    """A compiled program's text, as XLA writes it on other machines too."""

    def __init__(self, text):
        self.text = text

    def as_text(self):
        return self.text


@pytest.mark.parametrize("text, sent", [
    ("%x = c64[8,5,3]{2,1,0} all-gather(%y), dimensions={0}", [("all-gather", 960)]),
    ("%x = (f32[2,3]{1,0}, f32[16,3]{1,0}) all-gather-start(%y)", [("all-gather", 192)]),
    ("%x = (c64[3]{0}, c64[4,3]{1,0}) all-reduce(%y, %z)", [("all-reduce", 120)]),
    ("%x = f64[] all-reduce-start(%y)", [("all-reduce", 8)]),
    ("%x = f32[16,3]{1,0} all-gather-done(%y)", []),
    ("%x = f32[16,3]{1,0} fusion(%all-gather.3)", []),
])
def test_what_counts_as_sent(text, sent):
    assert collectives(Program(text)) == sent
