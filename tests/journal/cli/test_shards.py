"""Verbs on a volume that is spread over shards, whose services and server are real: one volume for who uses it."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.opening import open_whole_volume
from journal.gateway.client.sharded_volume import ShardedVolume
from tests.journal.cli.conftest import Cli
from tests.journal.cli.servers import process
from tests.journal.cli.shards import BATCHES, NAMES, Shards, files_up_to, place, write
from tests.system.service_process import children_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
    (found,) = [json.loads(line) for line in status.stdout.splitlines()]
    assert (found["volume"], found["verdict"], found["files"]) == ("payments", "OK", len(files))
    assert [one["volume"] for one in found["shards"]] == NAMES
    shown = shards.at_server("status", "payments").stdout
    assert "payments, spread over 2 shards" in shown
    assert shown.count("verdict ") == 1
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
    for verb in (["log"], ["repair", "--accept-loss", "--dry-run"]):
        refused = shards.at_server(*verb, "payments")
        assert refused.exit_code != 0
        assert f"name it instead: {NAMES[0]} to {NAMES[1]}" in str(refused.exception)
        assert shards.at_server(*verb, NAMES[1]).exit_code == 0
    refused = shards.at_server("ls", "payments", "--at", "100")
    assert "an LSN is of one journal" in str(refused.exception)
    refused = shards.at_server("ls", NAMES[1], "--at", "batch:0")
    assert "this shard never has commits: say payments" in str(refused.exception)
    for again in (["create", "payments"], ["create", "payments", "--shards", "3"]):
        assert "there is a volume payments.shard-0-of-2 already" in str(shards.at_server(*again).exception)
    assert "name of a shard" in str(shards.at_server("create", "other.shard-0-of-2").exception)


def test_what_an_answer_is_as_of_is_said_for_each_shard(shards: Shards) -> None:
    trio.run(write, shards.services, files_up_to(BATCHES))
    path = "sos://payments/q/state/0/1/3.delta"
    told = json.loads(shards.at_server("stat", path, "--at", "batch:2", "--json").stdout)
    assert list(told["moments"]) == NAMES
    assert told["moments"][NAMES[0]] == told["lsn"] != told["moments"][NAMES[1]]
    words = ", ".join(f"LSN {lsn} of {name}" for name, lsn in told["moments"].items())
    assert f"as of     {words}" in shards.at_server("stat", path, "--at", "batch:2").stdout
    restored = shards.at_server("restore", "sos://payments/q", str(shards.root / "then"), "--at", "batch:2")
    assert f"as of {words}" in restored.stdout
    plan = shards.at_both("rewind", "sos://payments/q", "--to", "batch:2", "--plan")
    assert f"goes back to batch 2 ({words})" in plan.stdout
    assert "LSN OF SHARD 0" in shards.at_server("batches", "payments").stdout


def test_room_is_counted_in_all_shards(shards: Shards) -> None:
    files = files_up_to(BATCHES)
    trio.run(write, shards.services, files)
    for look in (shards.at_server, shards.at_services):
        (used,) = [json.loads(line) for line in look("du", "payments", "--json").stdout.splitlines()]
        assert (used["query"], used["live_bytes"]) == ("q", sum(len(data) for data in files.values()))
        parts = [json.loads(look("du", name, "--json").stdout.splitlines()[0]) for name in NAMES]
        assert used["day_bytes"] == sum(part["day_bytes"] for part in parts)


def test_the_volumes_list_has_it_once(shards: Shards) -> None:
    assert shards.at_server("create", "plain").exit_code == 0
    listed = [json.loads(line) for line in shards.at_server("volumes", "list", "--json").stdout.splitlines()]
    assert [(one["volume"], one.get("shards")) for one in listed] == [("payments", NAMES), ("plain", None)]
    assert listed[0]["last_served_at"] == shards.services
    assert "payments (2 shards)" in shards.at_server("volumes", "list").stdout


def test_one_address_is_enough_to_find_all_shards(shards: Shards) -> None:
    files = files_up_to(2)
    trio.run(write, shards.services, files)
    for address in shards.services.split(","):
        listed = shards.cli("ls", "-R", "sos://payments/q", "--json", "--service", address)
        assert listed.exit_code == 0, listed.output
        found = [json.loads(line) for line in listed.stdout.splitlines()]
        assert {one["path"] for one in found if not one["directory"]} == {f"q/{name}" for name in files}


def test_members_are_shown_and_changed_in_all_shards(shards: Shards, tmp_path: Path) -> None:
    with process("sos_server", "--root", str(tmp_path / "b"), "--listen", "127.0.0.1:0") as (_, more):
        plan = shards.at_server("members", "add", "payments", more, "--dry-run", "--json")
        assert [json.loads(line)["volume"] for line in plan.stdout.splitlines()] == NAMES
        assert shards.at_server("members", "add", NAMES[1], more).exit_code == 0  # as if it had been cut short
        done = shards.at_server("members", "add", "payments", more)
        assert done.exit_code == 0, done.output
        assert f"{NAMES[1]} is so already" in done.stdout
        shown = shards.at_server("members", "show", "payments", "--json")
        found = [json.loads(line) for line in shown.stdout.splitlines()]
        assert [one["volume"] for one in found] == NAMES
        assert [{m["address"] for m in one["members"]} for one in found] == [{shards.server, more}] * 2
        again = shards.at_server("members", "add", "payments", more)
        assert "are so already" in str(again.exception)
        gone = shards.at_server("members", "remove", "payments", more, "--yes")
        assert gone.exit_code == 0, gone.output
        trio.run(write, shards.services, files_up_to(1))


def test_every_shard_is_repaired(shards: Shards) -> None:
    repaired = shards.at_server("repair", "payments")
    assert repaired.exit_code == 0, repaired.output
    for name in NAMES:
        assert f"{name}\n" in repaired.stdout
    assert repaired.stdout.count("every copy that answers is whole") == 2
    verified = shards.at_server("verify", "payments", "--json")
    assert [json.loads(line)["volume"] for line in verified.stdout.splitlines()] == NAMES


def test_a_fork_that_was_cut_short_does_not_keep_its_name(shards: Shards) -> None:
    """One shard has its part at the target, HOME has not: nothing is listed, and nothing can be made there."""
    trio.run(write, shards.services, files_up_to(2))

    async def leave() -> None:
        async with open_whole_volume(shards.services.split(","), "payments") as volume:
            assert isinstance(volume, ShardedVolume)
            for shard in volume.volumes[1:]:
                await shard.put("q2/state/0/1/1.delta", b"left", overwrite=False, operation=volume.new_operation())

    trio.run(leave)
    fork = ["fork", "sos://payments/q", "sos://payments/q2", "--at", "batch:1"]
    assert "`sos-journal rm -r` of the path that was to be made deletes it" in str(shards.at_both(*fork).exception)
    assert shards.at_services("rm", "-r", "sos://payments/q2", "--yes").exit_code == 0
    assert shards.at_both(*fork).exit_code == 0
    assert "there is nothing at" in str(shards.at_services("rm", "-r", "sos://payments/q3", "--yes").exception)


def test_a_volume_is_dropped_with_all_its_shards(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with process("sos_server", "--root", str(tmp_path / "a"), "--listen", "127.0.0.1:0") as (_, server):
        assert cli("create", "payments", "--shards", "3", "--servers", server).exit_code == 0
        would = json.loads(cli("volumes", "drop", "payments", "--dry-run", "--json", "--servers", server).stdout)
        assert (would["volume"], would["objects"], would["servers"]) == ("payments", 3, [server])
        assert cli("volumes", "drop", "payments.shard-1-of-3", "--yes", "--servers", server).exit_code == 0
        dropped = cli("volumes", "drop", "payments", "--yes", "--servers", server)  # goes on where it was cut short
        assert dropped.exit_code == 0, dropped.output
        assert "deleted 2 objects" in dropped.stdout
        assert cli("volumes", "list", "--json", "--servers", server).stdout == ""
        assert "there is no volume payments" in str(cli("volumes", "drop", "payments", "--servers", server).exception)


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
