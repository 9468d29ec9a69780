"""`pytest --sos-sink-rules FILE`, as a project has it that has installed this package."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TEST = """
import os

def test_rules(sos_sink_rules):
    assert [rule.pattern.pattern for rule in sos_sink_rules.votes] == [":7:"]
    assert open(os.environ["SOS_SINK_RULES"]).read().startswith('("txnid')
"""


def run(directory: Path, rules: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(TEST)
    (directory / "rules").write_text(rules)
    installed = any(entry.name == "sos_connector" for entry in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "connectors.sink.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(directory), *plugin, "--sos-sink-rules", "rules"]
    return subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=600)


def test_rules_reach_tests_and_the_processes_that_they_start(tmp_path: Path) -> None:
    said = run(tmp_path, '("txnid-regexp", ":7:", False, False, False)\n')
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_line_that_is_not_a_rule_is_named(tmp_path: Path) -> None:
    said = run(tmp_path, "\nabort everything\n")
    assert said.returncode == 4
    assert "--sos-sink-rules rules: line 2 of the rules" in said.stderr
