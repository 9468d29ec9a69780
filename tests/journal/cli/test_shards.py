"""Verbs on a volume that is spread over shards, whose services and server are real: one volume for who uses it."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
import trio

from journal.checkpoint.layout import state_file_of
from journal.gateway.client.opening import open_whole_volume
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.volume import PathClaim
from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import Cli
from tests.journal.cli.servers import process
from tests.system.service_process import children_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

OVER = PathClaim(application="app-over", start_time=1_790_000_000_000)
BATCHES = 5
NAMES = ["payments.shard-0-of-2", "payments.shard-1-of-2"]


def place(name: str) -> tuple[int, int]:
    """As Spark writes: batch after batch, the plan first, then the state, the commit last."""
    last = name.rpartition("/")[2].split(".")[0]
    number = int(last) if last.isdecimal() else -1
    if name.startswith("state/") and number >= 0:
        return number - 1, 1
    return number, 2 if name.startswith("commits/") else 0


def files_up_to(batch: int, run: bytes = b"") -> dict[str, bytes]:
    """What the checkpoint has right after a batch was committed; what `run` wrote can be told apart."""
    files = sorted(checkpoint("hdfs", batches=BATCHES).items(), key=lambda item: place(item[0]))
    kept = {name: data for name, data in files if place(name) <= (batch, 2)}
    return {name: data + run if is_state(name) and not name.endswith("crc") else data for name, data in kept.items()}


def is_state(name: str) -> bool:
    return state_file_of(name.removesuffix(".crc")) is not None


async def write(services: str, files: dict[str, bytes]) -> None:
    async with open_whole_volume(services.split(","), "payments") as volume:
        assert isinstance(volume, ShardedVolume)
        await volume.claim("q", OVER, operation=volume.new_operation())
        for name, data in files.items():
            await volume.put(f"q/{name}", data, overwrite=False, operation=volume.new_operation(), claim=OVER)


class Shards:
    """A volume of two shards on one server, whose services are supervised by one command."""

    def __init__(self, root: Path, server: str, services: str, supervisor: int) -> None:
        self.root, self.server, self.services, self.supervisor = root, server, services, supervisor
        self.cli = Cli(root)

    def at_server(self, *arguments: str) -> Result:
        return self.cli(*arguments, "--servers", self.server)

    def at_services(self, *arguments: str) -> Result:
        return self.cli(*arguments, "--service", self.services)

    def at_both(self, *arguments: str) -> Result:
        return self.at_server(*arguments, "--service", self.services)

    def restored(self, name: str, *arguments: str, path: str = "q") -> dict[str, bytes]:
        target = self.root / name
        result = self.at_server("restore", f"sos://payments/{path}", str(target), *arguments)
        assert result.exit_code == 0, result.output
        return {str(f.relative_to(target)): f.read_bytes() for f in target.rglob("*") if f.is_file()}


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Shards]:
    with process("sos_server", "--root", str(tmp_path / "a"), "--listen", "127.0.0.1:0") as (_, server):
        made = Cli(tmp_path)("create", "payments", "--shards", "2", "--servers", server, "--json")
        assert json.loads(made.stdout)["shards"] == NAMES
        arguments = ["--volume", "payments", "--shards", "2", "--servers", server, "--dir", str(tmp_path / "dir")]
        with process("journal", "serve", *arguments, "--listen", "127.0.0.1:0", "--supervise") as (running, services):
            assert len(services.split(",")) == 2
            yield Shards(tmp_path, server, services, running.pid)
            running.terminate()
            assert running.wait(30) == 0


def test_it_looks_like_one_volume(shards: Shards) -> None:
    files = files_up_to(BATCHES)
    trio.run(write, shards.services, files)
    for look in (shards.at_services, shards.at_server):
        listed = [json.loads(line) for line in look("ls", "-R", "sos://payments/q", "--json").stdout.splitlines()]
        assert {one["path"] for one in listed if not one["directory"]} == {f"q/{name}" for name in files}
        for name in ("state/0/0/3.delta", "state/0/1/3.delta", "offsets/5"):
            assert look("cat", f"sos://payments/q/{name}").stdout_bytes == files[name]
        assert look("doctor", "sos://payments/q").exit_code == 0
    status = shards.at_server("status", "payments", "--json")
    assert status.exit_code == 0, status.output
    assert [json.loads(line)["volume"] for line in status.stdout.splitlines()] == NAMES
    assert "spread over 2 shards: OK" in shards.at_server("status", "payments").stdout
    verified = shards.at_server("verify", "payments", "--spark", "--restore")
    assert verified.exit_code == 0, verified.output
    assert f"restored {len(files)} files" in verified.stdout
    batches = [json.loads(line) for line in shards.at_server("batches", "payments", "--json").stdout.splitlines()]
    assert [(one["batch"], one["state_version"], one["state_files"]) for one in batches[:BATCHES]] == [
        (batch, batch + 1, 2) for batch in range(BATCHES)
    ]


def test_a_batch_is_a_consistent_cut(shards: Shards) -> None:
    trio.run(write, shards.services, files_up_to(BATCHES))
    for batch in range(BATCHES):
        restored = shards.restored(f"batch{batch}", "--at", f"batch:{batch}")
        expected = files_up_to(batch)
        extra = {name for name in restored if name not in expected}
        assert {name: restored[name] for name in expected} == expected
        assert not extra
        assert shards.at_server("doctor", "sos://payments/q", "--at", f"batch:{batch}").exit_code == 0


def test_after_a_rewind_a_batch_is_that_of_the_last_run(shards: Shards) -> None:
    trio.run(write, shards.services, files_up_to(BATCHES, run=b"first"))
    rewound = shards.at_both("rewind", "sos://payments/q", "--to", "batch:1", "--apply", "--yes")
    assert rewound.exit_code == 0, rewound.output
    kept = files_up_to(1, run=b"first")
    assert shards.restored("rewound") == kept
    again = {name: data for name, data in files_up_to(3, run=b"second").items() if name not in kept}
    trio.run(write, shards.services, again)
    assert shards.restored("third", "--at", "batch:3") == kept | again
    assert shards.restored("second", "--at", "batch:2") == {
        name: data for name, data in (kept | again).items() if place(name) <= (2, 2)
    }
    assert shards.restored("last of the first run", "--at", "batch:4")["state/0/1/5.delta"].endswith(b"first")


def test_growing_is_a_fork_with_a_plan(shards: Shards) -> None:
    trio.run(write, shards.services, files_up_to(BATCHES))
    growing = ["fork", "payments", "wider", "--shards", "3", "--at", "batch:2"]
    plan = shards.at_server(*growing, "--dry-run", "--json")
    assert len(json.loads(plan.stdout)["shard_bytes"]) == 3
    assert shards.at_server(*growing).exit_code == 0
    verified = shards.at_server("verify", "wider", "--spark", "--restore")
    assert verified.exit_code == 0, verified.output
    found = [json.loads(line) for line in shards.at_server("ls", "-R", "sos://wider/q", "--json").stdout.splitlines()]
    assert {one["path"] for one in found if not one["directory"]} == {f"q/{name}" for name in files_up_to(2)}
    back = shards.at_both("fork", "sos://payments/q", "sos://payments/q2", "--at", "batch:2")
    assert back.exit_code == 0, back.output
    assert shards.restored("forked", path="q2").keys() == files_up_to(2).keys()
    assert shards.restored("batch of a fork", "--at", "batch:2", path="q2").keys() == files_up_to(2).keys()


def test_a_backup_has_all_shards(shards: Shards) -> None:
    trio.run(write, shards.services, files_up_to(BATCHES))
    saved = shards.root / "backup"
    assert shards.at_server("backup", "payments", str(saved)).exit_code == 0
    target = shards.root / "from backup"
    restored = shards.cli("restore", "sos://payments/q", str(target), "--dir", str(saved), "--at", "batch:4")
    assert restored.exit_code == 0, restored.output
    found = {str(f.relative_to(target)): f.read_bytes() for f in target.rglob("*") if f.is_file()}
    assert found == files_up_to(4)


def test_what_is_of_one_journal_says_so(shards: Shards) -> None:
    for verb in (["repair"], ["volumes", "drop", "--dry-run"], ["web"]):
        assert NAMES[1] in str(shards.at_server(*verb, "payments").exception)
    for verb in (["log"], ["members", "show"], ["du"]):
        refused = shards.at_server(*verb, "payments")
        assert refused.exit_code != 0
        assert NAMES[1] in str(refused.exception)
        assert shards.at_server(*verb, NAMES[1]).exit_code == 0
    refused = shards.at_server("ls", "payments", "--at", "100")
    assert "an LSN is of one journal" in str(refused.exception)
    for again in (["create", "payments"], ["create", "payments", "--shards", "3"]):
        assert "there is a volume payments.shard-0-of-2 already" in str(shards.at_server(*again).exception)
    assert "name of a shard" in str(shards.at_server("create", "other.shard-0-of-2").exception)


def test_a_checkpoint_is_imported_claimed_and_removed(shards: Shards, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    for name, data in files_up_to(2).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    imported = shards.at_services("import", str(folder), "sos://payments/q")
    assert imported.exit_code == 0, imported.output
    assert shards.restored("as imported", "--at", "batch:2").keys() == files_up_to(2).keys()
    trio.run(write, shards.services, {})
    assert shards.at_services("claims", "list", "payments").stdout.count("app-over") == 1
    assert shards.at_services("rm", "-r", "sos://payments/q", "--yes").exit_code == 0
    left = [json.loads(line) for line in shards.at_server("ls", "-R", "payments", "--json").stdout.splitlines()]
    assert left == []


def test_a_killed_shard_is_started_again_where_it_was(shards: Shards) -> None:
    children = children_of(shards.supervisor)
    assert len(children) == 2
    for child in children:
        os.kill(child, signal.SIGKILL)
        trio.run(write, shards.services, {f"state/0/{partition}/{child}.delta": b"1" for partition in range(2)})
    assert not set(children) & set(children_of(shards.supervisor))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--volume", "v", "--shard", "0"],
        ["--volume", "v", "--volume", "w", "--shards", "2"],
        ["--volume", "v", "--shards", "2", "--shard", "2"],
        ["--volume", "v", "--shards", "1"],
    ],
)
def test_shards_that_cannot_be_are_a_mistake_in_the_command(cli: Cli, arguments: list[str]) -> None:
    assert cli("serve", *arguments, "--servers", "127.0.0.1:1", "--dir", "unused").exit_code == 2
