"""docs/connectors.md and examples/: what is to be copied and pasted works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.connectors.test_listen_process import Process, stored

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = (ROOT / "docs/connectors.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples/source.py"


def embedded(tmp_path: Path) -> Process:
    listener = Process("listener", tmp_path, "connectors", "listen", "--volume", "clicks", "--embedded")
    listener._command += ["--dir", str(tmp_path / "all"), "--listen", "127.0.0.1:0"]
    return listener


def test_the_source_of_twenty_lines(tmp_path: Path) -> None:
    assert EXAMPLE.read_text(encoding="utf-8") in DOCUMENT
    listener = embedded(tmp_path)

    def run() -> str:
        command = [sys.executable, str(EXAMPLE), listener.addresses["ready"]]
        said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, cwd=ROOT)
        assert said.returncode == 0, said.stderr
        return said.stdout

    try:
        listener.start()
        assert run() == run() == "durable up to message 1000\n"
        assert [row[2] for row in stored(listener)] == list(range(1, 1001))
    finally:
        listener.end()


def test_five_minutes(tmp_path: Path) -> None:
    block = re.search(r"## Five minutes\n.*?```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block
    script = re.sub(r"(?m)^sos-connector", f"{sys.executable} -m connectors", block[1])
    script = script.replace("7431", "27431").replace("7432", "27432")
    script = script.replace(" --embedded ", " --embedded --listen 127.0.0.1:27431 ")
    script = "set -e\n" + script.replace(" &\n", " &\nlistener=$!\ntrap 'kill $listener; wait' EXIT\n", 1)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    said = subprocess.run(
        ["bash", "-c", script], check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment
    )
    assert said.returncode == 0, said.stderr
    assert "100,000 kept, of 100,000" in said.stdout
