"""What a service runs is what anybody can run: targets of the Makefile."""

import re

import pytest
from repository import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_one_target_of_its_name(path):
    commands = re.findall(r"- run: (.+)", path.read_text(encoding="utf-8"))
    assert commands == [f"make {path.stem} PYTHON=python"] and path.stem in TARGETS
