"""Every verb with --json is in the contract, the contract is in docs/json.md, and real output is what both say."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import pytest
import trio

import connectors.cli
import journal.cli
import sos_client.cli
import sos_server.cli
from journal.gateway.client.client import open_volume
from journal.volume import PathClaim
from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import VolumeOnDisk, write_query
from tests.json_contract.contract import PROGRAMS, closed, hold, schemas
from tests.json_contract.document import DOCUMENT, document
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = {
    "sos-journal": ("journal", journal.cli.command),
    "sos": ("sos_client", sos_client.cli.command),
    "sos-server": ("sos_server", sos_server.cli.command),
    "sos-connector": ("connectors", connectors.cli.command),
}
IS_NO_REPORT = {"sos-connector": {"postgres"}}  # there --json says what the rows are
OVER = PathClaim(application="app-over", start_time=1_790_000_000_000)


def _verbs(group: click.Command, path: str = "") -> Iterator[str]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            inner = group.get_command(context, name)
            assert inner is not None
            yield from _verbs(inner, f"{path} {name}".strip())
    elif any("--json" in option.opts for option in group.params):
        yield path


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_verb_with_json_is_in_the_contract(program: str) -> None:
    _, command = COMMANDS[program]
    shared = {"reader"} & schemas(program).keys()
    assert set(_verbs(command)) - IS_NO_REPORT.get(program, set()) == schemas(program).keys() - shared


def test_the_document_is_the_schemas() -> None:
    assert document() == DOCUMENT.read_text(encoding="utf-8"), "python -m tests.json_contract.document --write"


def test_a_field_that_is_not_named_is_seen() -> None:
    value = {"path": "q1", "directory": True, "size": 0, "modified_ms": 1}
    hold("sos-journal", "ls", value)
    for wrong in ({**value, "new": 1}, {**value, "size": "0"}, {"path": "q1"}):
        with pytest.raises(AssertionError):
            hold("sos-journal", "ls", wrong)
    assert closed({"type": "object", "properties": {}, "additionalProperties": True})["additionalProperties"] is True


@dataclass
class House:
    """One server and one service with their pages, and a volume with a query that is over."""

    directory: Path
    server: str
    service: str
    pages: dict[str, str]

    def run(self, program: str, verb: str, *arguments: str, given: str = "", code: int = 0) -> list[Any]:
        """What a verb prints, held against its schema."""
        command = [sys.executable, "-m", COMMANDS[program][0], *verb.split(), *arguments, "--json"]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == code, done.stderr
        told = done.stderr if verb in ("get", "tail") else done.stdout
        values = [json.loads(line) for line in told.splitlines()]
        hold(program, verb, *values)
        return values

    def journal(self, verb: str, *arguments: str, where: str = "", code: int = 0) -> list[Any]:
        options = [f"--{where}", getattr(self, {"servers": "server", "service": "service"}[where])] if where else []
        return self.run("sos-journal", verb, *arguments, *options, code=code)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    root = tmp_path_factory.mktemp("house")
    ports = {name: free_port() for name in ("server", "service")}
    files, log = str(root / "dir"), (root / "log").open("w")
    started = []

    def start(*words: str, web: int) -> str:
        command = [sys.executable, "-m", *words, "--listen", "127.0.0.1:0", "--web", f"127.0.0.1:{web}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        started.append(process)
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("ready"):
            assert line, (root / "log").read_text()
        return line.split()[1]

    try:
        server = start("sos_server", "--root", str(root / "a"), web=ports["server"])
        words = ("journal", "serve", "--volume", "payments", "--servers", server, "--dir", files, "--create")
        service = start(*words, web=ports["service"])
        trio.run(_write, service)
        yield House(root, server, service, {n: f"http://127.0.0.1:{p}/status.json" for n, p in ports.items()})
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()
        log.close()


async def _write(service: str) -> None:
    files = checkpoint("hdfs", batches=4)
    async with open_volume([service], "payments") as volume:
        await volume.claim("q1", OVER, operation=volume.new_operation())
        for name in sorted(files, key=lambda name: (name.startswith("commits/"), name)):
            operation = volume.new_operation()
            await volume.put(f"q1/{name}", files[name], overwrite=False, operation=operation, claim=OVER)
        await volume.claim("junk", OVER, operation=volume.new_operation())


def test_what_sos_journal_says(house: House) -> None:
    q1, scratch = "sos://payments/q1", str(house.directory / "scratch")
    for where in ("servers", "service"):
        assert house.journal("ls", "-R", "payments", where=where)
        house.journal("stat", f"{q1}/metadata", where=where)
        house.journal("doctor", "payments", where=where)
    (found,) = house.journal("status", "payments", where="servers")
    assert found["verdict"] == "OK"
    for arguments in (
        ("members show", "payments"), ("log", "payments"), ("du", "payments"), ("batches", "payments"),
        ("verify", "payments", "--restore", "--spark"), ("repair", "payments"), ("cat", f"{q1}/metadata"),
        ("members add", "payments", "127.0.0.1:9", "--dry-run"), ("restore", q1, f"{scratch}-r"),
        ("backup", "payments", f"{scratch}-b"), ("export", q1, f"{scratch}-e", "--dry-run"),
        ("export", q1, f"{scratch}-e"),
        ("repair", "payments", "--accept-loss", "--dry-run"),
    ):  # fmt: skip
        assert house.journal(*arguments, where="servers") or arguments[0] in ("repair", "export"), arguments
    assert house.journal("spark-conf", "payments", where="service")
    (made,) = house.journal("create", "other", where="servers")
    assert made["members"] == [house.server]
    assert {one["volume"] for one in house.journal("volumes list", where="servers")} == {"payments", "other"}
    house.journal("volumes drop", "other", "--dry-run", where="servers")
    (dropped,) = house.journal("volumes drop", "other", "--yes", where="servers")
    assert (dropped["servers"], dropped["kept_objects"]) == ([house.server], 0)


def test_what_sos_journal_says_of_its_changes(house: House) -> None:
    q1 = "sos://payments/q1"
    house.journal("fork", q1, "sos://payments/q2", "--at", "batch:1", where="service")
    house.journal("fork", q1, "sos://payments/q3", "--dry-run", where="service")
    house.journal("restore", q1, str(house.directory / "plain"), where="service")
    assert len(house.journal("import", str(house.directory / "plain"), "sos://payments/q4", "--dry-run")) > 5
    house.journal("import", str(house.directory / "plain"), "sos://payments/q4", where="service")
    assert len(house.journal("claims list", "payments", where="service")) == 2
    house.journal("rewind", q1, "--to", "batch:1", "--plan", where="service")
    _, done = house.journal("rewind", q1, "--to", "batch:1", "--apply", "--yes", where="service")
    assert done["batch"] == 1
    assert house.journal("claims release", "sos://payments/junk", "--yes", where="service")[0]["released"]
    house.journal("rm", "-r", "sos://payments/q4", "--yes", where="service")


def test_what_sos_journal_says_of_damage_and_differences(tmp_path: Path, house: House) -> None:
    volume = VolumeOnDisk(tmp_path)
    write_query(volume, "q1", "hdfs", batches=4)
    volume.save()
    here = ("--dir", str(tmp_path))
    assert {one["what"] for one in house.journal("diff", "sos://payments/q1", "batch:1", "now", *here)} == {"added"}
    first = volume.segment_files()[0]
    data = bytearray(first.read_bytes())
    data[next(header for header in volume.history.headers if header.payload_bytes).payload_lsn] ^= 1
    first.write_bytes(data)
    (report, *_) = house.journal("verify", "payments", *here, code=8)
    assert report["faults"]


def test_what_sos_says(house: House, tmp_path: Path) -> None:
    def sos(verb: str, *arguments: str, given: str = "") -> Any:
        return house.run("sos", verb, *arguments, "--server", house.server, given=given)[-1]

    sos("put", "n/o", given="hello")
    sos("append", "n/o", given=" you")
    for arguments in (("ping",), ("stat", "n/o"), ("stat", "n"), ("ls", "n"), ("ls",), ("get", "n/o"), ("tail", "n/o")):
        sos(*arguments)
    assert sos("seal", "n/o")["sealed"] is True
    sos("rm", "n/o")
    claim = sos("fence", "m")
    assert claim["epoch"] == 1
    sos("bench", "b", "--seconds", "0.2", "--connections", "1")


def test_what_sos_server_says(house: House, tmp_path: Path) -> None:
    root = str(tmp_path / "server")
    words = [sys.executable, "-m", "sos_server", "--root", root, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        process.terminate()
    assert house.run("sos-server", "check", "--root", root)[0]["whole"] is True


def test_what_the_pages_say(house: House) -> None:
    deadline = time.monotonic() + 600
    while True:
        found = {}
        for name, url in house.pages.items():
            with urllib.request.urlopen(url, timeout=600) as reply:
                found[name] = json.loads(reply.read())
            hold("status", name, found[name])
        details = found["service"]["details"]
        if found["service"]["now"] and details and details[0]["queries"] and details[0]["queries"][0]["state"]:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def test_what_the_logs_say(house: House) -> None:
    lines = (house.directory / "log").read_text().splitlines()
    assert len(lines) > 2
    hold("log", "line", *map(json.loads, lines))
