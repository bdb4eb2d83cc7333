"""Thousands of tests in one process compile tens of thousands of programs."""

from pathlib import Path

import jax
import pytest

MAPS = Path("/proc/self/maps")
# A compiled program holds a few of the 65,530 mappings that Linux allows by
# default; beyond them the compiler crashes.
ENOUGH = 20_000


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Forget compiled programs after a module when there are very many."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > ENOUGH:
        jax.clear_caches()
