"""Servers, services and tools of this tree beside those of the release before: pairings, and an upgrade.

Until there is a release before, it is this tree's own wheel, installed as a user would install it; `SOS_PREVIOUS_WHEEL`
names another. The shim is the third part that may be of another version: what it says is the file protocol, which the
tool speaks here in its place.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.system.ports import free_port
from tests.system.released import previous_commands, release_tool

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.slow
_HERE: Final = Path(sys.executable).parent


def _commands(version: str) -> Path:
    return _HERE if version == "this" else previous_commands()


def _server(version: str, root: Path, port: int) -> AbstractContextManager[str]:
    serving = (str(_commands(version) / "sos-server"), "--root", str(root), "--listen", f"127.0.0.1:{port}")
    running: AbstractContextManager[str] = release_tool().running(*serving, log=root.with_suffix(".log"))
    return running


def _service(version: str, cache: Path, servers: str) -> AbstractContextManager[str]:
    command = (str(_commands(version) / "sos-journal"), "serve", "--volume", "mixed", "--servers", servers)
    options = ("--dir", str(cache), "--listen", "127.0.0.1:0", "--create")
    running: AbstractContextManager[str] = release_tool().running(*command, *options, log=cache.with_suffix(".log"))
    return running


def _tool(version: str, *arguments: str) -> str:
    command = [str(_commands(version) / "sos-journal"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("server", "service"), [("this", "previous"), ("previous", "this")])
def test_every_pairing_writes_and_reads(tmp_path: Path, server: str, service: str) -> None:
    with _server(server, tmp_path / "server", free_port()) as servers:
        with _service(service, tmp_path / "cache", servers) as there:
            for tool, other in (("this", "previous"), ("previous", "this")):
                _import(tool, tmp_path, tool, there)
                assert _tool(other, "cat", f"sos://mixed/{tool}/file", "--service", there) == tool
        assert _tool(server, "cat", "sos://mixed/previous/file", "--servers", servers) == "previous"


def test_an_upgrade_and_the_way_back(tmp_path: Path) -> None:
    """One server after the other, then the service, as journal-service.md says, and all of it back."""
    ports = [free_port() for _ in range(3)]
    steps = [("previous", "previous", "previous"), ("this", "previous", "previous"), ("this", "this", "this")]
    for number, versions in enumerate([*steps, steps[0]]):
        with ExitStack() as stack:
            for which, (port, version) in enumerate(zip(ports, versions, strict=True)):
                stack.enter_context(_server(version, tmp_path / f"server{which}", port))
            servers = ",".join(f"127.0.0.1:{port}" for port in ports)
            there = stack.enter_context(_service(versions[-1], tmp_path / "cache", servers))
            _import("this", tmp_path, f"q{number}", there)
            assert _tool("previous", "cat", f"sos://mixed/q{number}/file", "--service", there) == f"q{number}"
            assert _tool("previous", "cat", "sos://mixed/q0/file", "--service", there) == "q0"


def _import(version: str, folder: Path, name: str, service: str) -> None:
    (folder / name).mkdir()
    (folder / name / "file").write_text(name)
    _tool(version, "import", str(folder / name), f"sos://mixed/{name}", "--service", service)
