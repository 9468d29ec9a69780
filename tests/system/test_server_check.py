"""``sos-server check`` and ``sos-server token`` as somebody types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sos_client.wire import messages as m
from tests.fakes.scripted_client import append, data
from tests.system.server_process import SERVER, serving


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SERVER, *arguments], capture_output=True, text=True, check=False, timeout=600)


def report(root: Path) -> tuple[int, dict[str, Any]]:
    ended = run("check", "--root", str(root), "--json")
    assert ended.stderr == ""
    return ended.returncode, json.loads(ended.stdout)


async def test_check(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        client = await server.entered()
        await client.send(append("log"), data(0, bytes(range(256)) * 4000), m.End())
        while not isinstance(await client.receive(), m.Ended):
            pass
        running = run("check", "--root", str(server.root))
        assert running.returncode == 9
        assert "stop it first" in running.stderr
        assert server.terminate() == 0

    code, found = report(server.root)
    assert code == 0
    assert (found["whole"], found["damage"], found["objects"], found["namespaces"]) == (True, [], 1, 1)
    assert found["verified_bytes"] >= 1_024_000

    damaged = max((server.root / "objects").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else -1)
    with damaged.open("r+b") as file:
        file.seek(500_000)
        file.write(b"\xff\x00\xff")
    code, found = report(server.root)
    assert code == 8
    assert not found["whole"]
    assert "ns/log" in found["damage"][0]
    plain = run("check", "--root", str(server.root))
    assert "DAMAGE: object ns/log" in plain.stdout


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=str)
@pytest.mark.parametrize(("identity", "code"), [(None, 2), ("nonsense", 8)], ids=["whole", "damaged"])
def test_a_report_that_nobody_sees(tmp_path: Path, flags: tuple[str, ...], identity: str | None, code: int) -> None:
    if identity is not None:
        (tmp_path / "identity").write_text(identity)
    with Path("/dev/full").open("wb") as full:
        command = [*SERVER, "check", "--root", str(tmp_path), *flags]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=600)
    assert ended.returncode == code
    assert ended.stderr == b"sos-server: the report cannot be shown: No space left on device\n"


def test_check_of_nothing(tmp_path: Path) -> None:
    assert run("check", "--root", str(tmp_path / "none")).returncode == 2


def test_tokens_are_shown_once_and_kept_hashed(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    made = run("token", "--tokens", str(path), "--name", "a", "--namespace", "x-*", "--right", "read", "--days", "1.5")
    assert made.returncode == 0
    token = made.stdout.strip()
    assert len(bytes.fromhex(token)) == 32
    assert token not in path.read_text()
    again = run("token", "--tokens", str(path), "--name", "a")
    assert again.returncode == 2
    assert "already" in again.stderr
    assert run("token", "--tokens", str(path), "--name", "b", "--right", "write").returncode == 2
    assert run("token", "--tokens", str(tmp_path / "no" / "where"), "--name", "b").returncode == 2


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--name", "b", "--days", "1e300"), "cannot expire"),
        (("--name", "b", "--days", "inf"), "cannot expire"),
        (("--name", "b", "--days", "nan"), "cannot expire"),
        (("--name", ""), "name must be a text"),
        (("--name", "b", "--namespace", ""), "namespaces must be a list of names or globs"),
    ],
    ids=str,
)
def test_a_token_that_no_server_would_take_is_not_made(tmp_path: Path, flags: tuple[str, ...], sentence: str) -> None:
    path = tmp_path / "tokens.toml"
    refused = run("token", "--tokens", str(path), *flags)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("sos-server: ")
    assert sentence in refused.stderr
    assert not path.exists()


def test_a_token_that_nobody_saw(tmp_path: Path) -> None:
    command = [*SERVER, "token", "--tokens", str(tmp_path / "tokens.toml"), "--name", "lost"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=600)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr
    assert b"take the entry 'lost' out of" in ended.stderr
