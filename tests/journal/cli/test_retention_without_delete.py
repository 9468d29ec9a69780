"""A service whose token may not delete: the disks fill, and `status` and the log say so, and why."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio

from journal.gateway.client.client import open_volume
from sos_client.serving.access import Right, append_token, new_token
from tests.journal.cli.conftest import Cli
from tests.system.server_process import ServerProcess
from tests.system.service_process import ServiceProcess

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("may_delete", [False, True])
def test_status_says_that_nothing_is_given_up(tmp_path: Path, *, may_delete: bool) -> None:
    rights = {Right.READ, Right.APPEND, Right.FENCE} | ({Right.DELETE} if may_delete else set())
    text, grant = new_token(name="journal", namespaces=("*",), rights=frozenset(rights), expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    (tmp_path / "token").write_text(text)
    server = ServerProcess(tmp_path, "--tokens", str(tmp_path / "tokens.toml"))
    token = ("--token-file", str(tmp_path / "token"))
    service = ServiceProcess(tmp_path / "service", [server.address], *token, "--create", "--keep-bytes", "1M")
    server.start()
    try:
        service.start()
        trio.run(_plan_a_batch, service.address)
        trio.run(_write, service.address, 120)
        deadline = time.monotonic() + 600
        while True:  # what has just been given up is there for a moment, whoever may delete it
            said = {verb: _said(verb, tmp_path, server.address, *token) for verb in ("status", "doctor")}
            if all(keeps is not may_delete for keeps, _ in said.values()):
                break
            assert time.monotonic() < deadline, said
            trio.run(_write, service.address, 10)
    finally:
        service.kill()
        server.kill()
    assert said["status"][1]["verdict"] == ("OK" if may_delete else "WARNING"), said
    told = [json.loads(line) for line in service.log_path.read_text().splitlines()]
    uncleaned = [line for line in told if line["event"] == "a member could not be cleaned"]
    assert len(uncleaned) == (0 if may_delete else 1), "it is told once, then counted"
    assert all("right delete" in line["meaning"] for line in uncleaned)


def _said(verb: str, folder: Path, *where: str) -> tuple[bool, Any]:
    """Whether it says that something is kept that was given up; and all that it says."""
    asked = Cli(folder)(verb, "payments", "--servers", *where, "--json")
    assert asked.stdout, asked
    assert asked.stderr.count("reading the log") == 1, asked.stderr
    (value,) = map(json.loads, asked.stdout.splitlines())
    return any("retention has given up" in one["what"] for one in value["findings"]), value


async def _plan_a_batch(address: str) -> None:
    async with open_volume([address], "payments") as volume:
        await volume.put("q1/offsets/0", b"v1\n{}\n-", overwrite=True, operation=volume.new_operation())


async def _write(address: str, count: int) -> None:
    async with open_volume([address], "payments") as volume:
        for number in range(count):
            data = bytes([number % 256]) * 50_000
            await volume.put("q1/state", data, overwrite=True, operation=volume.new_operation())
