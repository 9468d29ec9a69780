"""The image in seconds: its steps are run as scripts, and its command without rights. By an engine: test_image.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.deploy.deployed import DEPLOY, program_help, without_rights
from tests.system.ports import free_port
from tests.system.released import ROOT, built

if TYPE_CHECKING:
    from pathlib import Path

DEFINITION = (DEPLOY / "container" / "Containerfile").read_text()


def _command() -> list[str]:
    (found,) = re.findall(r"^CMD (\[.*\])$", DEFINITION, flags=re.MULTILINE)
    return [str(word) for word in json.loads(found)]


def test_what_is_copied_is_there() -> None:
    for script in set(re.findall(r"deploy/container/[a-z]+", DEFINITION)):
        assert (ROOT / script).stat().st_mode & 0o111, f"{script} cannot be run"


def test_it_runs_as_nobody_in_particular() -> None:
    build, *images = DEFINITION.split("\nFROM ")[1:]
    assert "AS build" in build
    assert len(images) == 2
    for image in images:
        assert "USER 10001:10001" in image.partition("CMD")[0]


def test_its_command_has_these_options() -> None:
    said = program_help("sos-server", "serve")
    for word in _command():
        assert not word.startswith("--") or word in said, word


@pytest.mark.slow
def test_its_steps(tmp_path: Path) -> None:
    """`install` puts what is pinned and the wheel into a folder; the copy of `build` is the wheel of a release."""
    target = tmp_path / "sos"
    install = [str(DEPLOY / "container" / "install"), str(ROOT), str(built()[0].parent), str(target)]
    done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    packages = json.loads(subprocess.check_output([target / "bin" / "pip", "list", "--format=json"]))
    assert not {package["name"] for package in packages} & {"pytest", "pyspark"}


def test_health_is_what_the_page_says(tmp_path: Path) -> None:
    """The script of HEALTHCHECK against a server: well while it answers, not when it is gone."""
    state, port, page = tmp_path / "state", free_port(), free_port()
    state.mkdir()
    (state / "sos.toml").write_text("[server]\nlog_level = 'info'\n")
    placed = {"/var/lib/sos/data": str(state / "data"), "/etc/sos/sos.toml": str(state / "sos.toml")}
    placed |= {"127.0.0.1:7480": f"127.0.0.1:{page}"}
    command = [placed.get(word, word) for word in _command()]
    healthy = [sys.executable, str(DEPLOY / "container" / "healthy"), f"127.0.0.1:{page}"]
    with without_rights([*command, "--listen", f"127.0.0.1:{port}"], state, ready=port):
        for path in ("/healthz", "/readyz"):
            done = subprocess.run([*healthy, path], capture_output=True, text=True, check=False, timeout=600)
            assert done.returncode == 0, done.stderr
        assert subprocess.run([*healthy, "/nothing"], capture_output=True, check=False, timeout=600).returncode != 0
    assert subprocess.run(healthy, capture_output=True, check=False, timeout=600).returncode != 0
