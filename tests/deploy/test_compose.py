"""compose.yaml: no engine runs here, so its commands are run as processes, with the secrets that its script makes."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.deployed import COMMANDS, DEPLOY, program_help, without_rights
from tests.system.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "sos" and name not in {"secrets", "create"}]


def test_what_is_named_is_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists() or source in {"./prometheus", "./grafana"}, source
            else:
                assert source in COMPOSE["volumes"]
        assert set(service.get("depends_on", ())) <= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_commands_have_these_options(name: str) -> None:
    program, *arguments = SERVICES[name]["command"]
    said = program_help(program, "serve")
    for argument in arguments:
        if argument.startswith("--"):
            assert re.search(rf"{argument.partition('=')[0]}\b", said), argument
    assert SERVICES[name]["read_only"]
    assert SERVICES[name]["cap_drop"] == ["ALL"]


@pytest.mark.slow
def test_it_all_runs_together(tmp_path: Path) -> None:
    """The secrets, three servers, service and standby by the commands of the file; a client with its token and TLS."""
    etc = tmp_path / "etc"
    names = SERVICES["secrets"]["command"][2:]
    environment = os.environ | {"PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"}
    for _ in range(2):  # the second time it leaves what is there
        subprocess.run([DEPLOY / "compose" / "secrets", etc, *names], check=True, env=environment, timeout=600)
    ports = {name: free_port() for name in OURS}
    with ExitStack() as stack:
        for name in OURS:
            home = tmp_path / name
            home.mkdir()
            (home / "etc").mkdir()
            for path in etc.iterdir():
                (home / "etc" / path.name).write_bytes(path.read_bytes())
            text = (home / "etc" / "sos.toml").read_text()
            (home / "etc" / "sos.toml").write_text(
                text.replace("0.0.0.0:7400", f"0.0.0.0:{ports[name]}").replace("9400", "0")
            )
            if name == "journal":  # the volume is made before it; the second time it is there
                script = _placed("create", home, ports)[-1].replace("$$", "$")
                for _ in range(2):
                    subprocess.run(["sh", "-eu", "-c", script], check=True, env=environment, timeout=600)
            stack.enter_context(without_rights(_placed(name, home, ports), home, ready=ports[name]))
        services = f"localhost:{ports['journal']},localhost:{ports['standby']}"
        access = ["--service", services, "--tls-ca", str(etc / "server.crt"), "--token-file", str(etc / "spark.token")]
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "greeting").write_text("hello\n")
        for verb in (["import", str(tmp_path / "in"), "sos://payments/q1"], ["cat", "sos://payments/q1/greeting"]):
            command = [str(COMMANDS / "sos-journal"), *verb, *access]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            assert done.returncode == 0, done.stderr
        assert done.stdout == "hello\n"


def _placed(name: str, home: Path, ports: dict[str, int]) -> list[str]:
    """A command of the file, with names and folders of this machine instead of the containers'."""
    words = []
    for word in SERVICES[name]["command"]:
        placed = word.replace("/etc/sos", f"{home}/etc").replace("/var/lib/sos", str(home)).replace("7480", "0")
        placed = placed.replace("0.0.0.0:7420", f"0.0.0.0:{ports.get(name)}").replace("9420", "0")
        for other, port in ports.items():
            placed = re.sub(rf"\b{other}:(7400|7420)", f"localhost:{port}", placed)
        words.append(placed)
    return words
