"""The units: `systemd-analyze` accepts them and finds little that they may do; what they start runs with as little."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.deploy.deployed import COMMANDS, DEPLOY, program_help, without_rights
from tests.system.ports import free_port
from tests.system.server_process import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
EXPOSURE_MAX = 1.5
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


def _started(unit: Path) -> list[str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return shlex.split(parser["Service"]["ExecStart"])


@needs_systemd
def test_systemd_accepts_them(tmp_path: Path) -> None:
    for unit in UNITS:
        name = unit.name.replace("@.", "@payments.")
        (tmp_path / name).write_text(unit.read_text().replace("/opt/sos/bin", str(COMMANDS)))
        command = ["systemd-analyze", "verify", "--man=no", f"./{name}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "payments" in line or "sos" in line]
        assert (done.returncode, ours) == (0, []), unit.name


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_they_may_do_little(unit: Path) -> None:
    command = [
        "systemd-analyze",
        "security",
        "--offline=true",
        f"--threshold={int(EXPOSURE_MAX * 10)}",
        f"./{unit.name}",
    ]
    done = subprocess.run(command, cwd=unit.parent, capture_output=True, text=True, check=False, timeout=600)
    (level,) = re.findall(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert (done.returncode, float(level) <= EXPOSURE_MAX) == (0, True), done.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_they_start_has_these_options(unit: Path) -> None:
    program, *arguments = _started(unit)
    verb = [arguments[0]] if not arguments[0].startswith("-") else ["serve"]
    said = program_help(program.rpartition("/")[2], *verb)
    assert program.startswith("/opt/sos/bin/")
    for argument in arguments:
        if argument.startswith("--"):
            assert re.search(rf"{argument}\b", said), argument


def test_a_server_runs_with_so_little(tmp_path: Path) -> None:
    """No rights, no capability, nothing writable but its state, no memory that is written and then run."""
    port, state = free_port(), tmp_path / "state"
    state.mkdir()
    (state / "sos.toml").write_text("[server]\nlog_level = 'info'\n")
    placed = {"/etc/sos/sos.toml": str(state / "sos.toml"), "/var/lib/sos": str(state / "data")}
    _, *arguments = _started(DEPLOY / "systemd" / "sos-server.service")
    command = ["sos-server", *(placed.get(argument, argument) for argument in arguments)]
    with without_rights([*command, "--listen", f"127.0.0.1:{port}"], state, ready=port) as process:
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{process.pid}/status") if ":\t" in line)  # noqa: SIM115
        assert status["CapEff"].strip("0\n") == ""
        done = subprocess.run(
            [COMMANDS / "sos", "ping", "--server", f"127.0.0.1:{port}"], capture_output=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr


def test_what_works_for_it_runs_with_so_little(tmp_path: Path) -> None:
    """Service, listener and relay, as their units start them, each with its own state directory."""
    with serving(tmp_path) as server, ExitStack() as stack:
        servers = {"SOS_SERVERS": server.address}
        for unit, volume, options in (
            ("sos-journal@", "payments", ["--create"]),
            ("sos-connector@", "clicks", ["--create", "--files", "127.0.0.1:0"]),
        ):
            stack.enter_context(_confined(unit, tmp_path, options, servers, volume=volume))
        service = stack.enter_context(_confined("sos-journal@", tmp_path, ["--create"], servers, volume="sinks"))
        stack.enter_context(_confined("sos-relay", tmp_path, [], {"SOS_SERVICE": f"127.0.0.1:{service}"}))


@contextmanager
def _confined(
    name: str, folder: Path, options: list[str], variables: dict[str, str], *, volume: str = ""
) -> Iterator[int]:
    """What a unit starts, with the options and variables that its files have, and no token; its port."""
    (unit,) = (DEPLOY / "systemd").glob(f"{name}.service")
    port, state = free_port(), folder / f"{name}{volume}"
    state.mkdir()
    words = []
    for word in _started(unit)[1:]:
        if word.startswith("$SOS_"):
            words += options
        else:
            words.append(re.sub(r"^/var/lib/[^/]+", str(state), word).replace("%i", volume))
    at = words.index("--token-file")
    del words[at : at + 2]
    command = [unit.name.partition("@")[0] if "@" in unit.name else "sos-connector", *words]
    with without_rights([*command, "--listen", f"127.0.0.1:{port}"], state, ready=port, variables=variables):
        yield port
