"""Timing of compiled functions side by side, and where the results go.

Ratios, not milliseconds, are what a noisy machine can say: every round runs
every candidate once, and a ratio is the median over the rounds of the
reference's time divided by the candidate's in the same round.
"""

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

from annotated_ssm.datasets import written_atomically

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "benchmarks"


def compile_all(functions, arguments):
    """Compile ahead of time: name -> (compiled, seconds, temporary bytes)."""
    compiled = {}
    for name, function in functions.items():
        start = time.perf_counter()
        program = jax.jit(function).lower(*arguments[name]).compile()
        seconds = time.perf_counter() - start
        memory = program.memory_analysis()
        compiled[name] = program, seconds, memory.temp_size_in_bytes
    return compiled


def compare(functions, arguments, reference, rounds=9, budget=60.0,
            limit=float("inf"), others=()):
    """Run the functions in turn, each round beginning with another one.

    Args:
        functions: name -> function.
        arguments: a tuple of arrays for all of them, or name -> tuple.
        reference: the name that the others are compared with.
        rounds: how many rounds at most; the first one is not counted.
        budget: seconds after which no further round begins (but three do).
        limit: bytes of temporary memory above which a program is not run.
        others: further names to compare with.

    Returns:
        name -> milliseconds (median), speedup, temporary bytes and their
        share of the reference's, seconds of compilation, rounds; with
        `others` also the speedup over each of them and share of its bytes.
        Times are None, and rounds 0, for what was not run.
    """
    if not isinstance(arguments, dict):
        arguments = dict.fromkeys(functions, arguments)
    compiled = compile_all(functions, arguments)
    times = {name: [] for name in functions if compiled[name][2] <= limit}
    start = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 3 and time.perf_counter() - start > budget:
            break
        for name in np.roll([*times], turn).tolist():
            begin = time.perf_counter()
            jax.block_until_ready(compiled[name][0](*arguments[name]))
            times[name].append(time.perf_counter() - begin)
    times = {name: np.array(values[1:]) for name, values in times.items()}

    def against(name, reference):
        ratio = None
        if name in times and reference in times:
            ratio = round(float(np.median(times[reference] / times[name])), 2)
        base = compiled[reference][2]
        return {"speedup": ratio, "temp_share":
                round(compiled[name][2] / base, 5) if base else None}

    return {name: {
        "ms": round(1e3 * float(np.median(times[name])), 3)
        if name in times else None,
        **against(name, reference),
        "temp_bytes": compiled[name][2],
        "compile_s": round(compiled[name][1], 2),
        "rounds": len(times.get(name, ())),
        **({"over": {other: against(name, other) for other in others}}
           if others else {}),
    } for name in functions}


def processor():
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines
                    if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def provenance(**configuration):
    """What every result carries: how, where and from what it was measured."""
    git = lambda *a: subprocess.run(["git", *a], cwd=ROOT, text=True,
                                    capture_output=True).stdout.strip()
    return {
        "command": " ".join(["python", "-m", *sys.orig_argv[2:]]),
        "configuration": configuration,
        "commit": git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--",
                                        "annotated_ssm", "benchmarks")),
        "date": datetime.date.today().isoformat(),
        "device": processor() if jax.default_backend() == "cpu"
        else jax.devices()[0].device_kind,
        "backend": jax.default_backend(), "cores": os.cpu_count(),
        "python": platform.python_version(), "jax": jax.__version__,
    }


def record(name, result):
    """Write results/benchmarks/NAME.json, whole or not at all."""
    path = RESULTS / f"{name}.json"
    with written_atomically(path) as file:
        file.write((json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())
    return path
