"""`sos-connector relay`, `receive` and `committed` as processes, with a driver that says what Spark's says."""

from __future__ import annotations

import hashlib
import json
import random
import signal
from typing import TYPE_CHECKING

import pytest
import trio

from connectors.relay.staged_rows import StagedRow
from journal.errors import JournalCode, JournalError
from tests.connectors.relay.processes import RunningProgram, relay_house
from tests.connectors.relay.staging_driver import QUERY, staging_driver

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow  # each starts three processes or more


def lines(*rows: bytes) -> bytes:
    return b"".join(row + b"\n" for row in rows)


def transactions_of(log: Path) -> list[str]:
    """Those that a sink has committed."""
    written = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["transaction"] for line in written if line["kind"] == "committed"]


async def test_batches_come_out_once_and_in_order(tmp_path: Path) -> None:
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses) as driver:
            await driver.batch(0, [b"a", b"b"], [b"c"])
            await driver.batch(1)
            await driver.batch(2, [b""[:0] or b"\xff\x00\n", "ä€".encode()], [], [b"z" * 3_000_000])
            await driver.batch(2, [b"another run of the same batch"])
            await driver.batch(3, [b"end"])
        assert house.committed(0) == lines(b"a", b"b", b"c", b"\xff\x00\n", "ä€".encode(), b"z" * 3_000_000, b"end")
        log = [json.loads(line) for line in (tmp_path / "out-0.log").read_text().splitlines()]
        assert [line["kind"] for line in log] == ["sink", "instance", *["prepared", "committed"] * 4]
        assert log[2]["transaction"] == f"{driver.place}:0:1.1"
        assert house.relay.end(signal.SIGTERM) == 0
        assert house.sinks[0].end(signal.SIGTERM) == 0


async def test_rows_go_to_a_sink_by_their_key(tmp_path: Path) -> None:
    with relay_house(tmp_path, sinks=3) as house:
        rows = [b"%d of %d" % (number, number % 70) for number in range(1000)]
        async with staging_driver(house.relay.address, house.addresses) as driver:
            for batch in range(4):
                await driver.batch(batch, rows[batch * 250 : batch * 250 + 250], key_of=lambda row: row.split()[2])
        committed = [house.committed(sink).splitlines() for sink in range(3)]
    assert sorted(row for each in committed for row in each) == sorted(rows)
    for key in range(70):
        of_key = [row for row in rows if row.endswith(b" %d" % key)]
        assert sum([row for row in each if row.endswith(b" %d" % key)] == of_key for each in committed) == 1
    assert all(committed)


async def test_rows_are_merged_by_their_sequence(tmp_path: Path) -> None:
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses, order="sequence") as driver:
            parts = []
            for part in range(5):
                rows = [StagedRow(number, None, b"%d" % number) for number in range(part, 10_000, 5)]
                parts.append(await driver.stage(0, "r", str(part), rows))
            await driver.commit(0, "r", parts)
        assert house.committed(0) == lines(*(b"%d" % number for number in range(10_000)))


async def test_a_sink_that_is_away_is_waited_for_and_named(tmp_path: Path) -> None:
    with relay_house(tmp_path) as house:
        house.sinks[0].end()
        async with staging_driver(house.relay.address, house.addresses, seconds=15) as driver:
            part = await driver.stage(0, "r", "p", [StagedRow(0, None, b"row")])
            with pytest.raises(JournalError) as error:
                await driver.commit(0, "r", [part])
            where = house.addresses[0]
            status = await trio.to_thread.run_sync(house.status)
            assert status["queries"][0]["phase"] == "none"
            assert "connection refused" in status["queries"][0]["waits_for"]
            assert f"waiting for sink {where} ({where}: connection refused)" in str(error.value)
            house.sinks[0].start()
            await driver.commit(0, "r", [part])
        assert house.committed(0) == b"row\n"


async def test_what_a_query_must_not_do(tmp_path: Path) -> None:
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15, start_time=5) as driver:
            await driver.batch(7, [b"a"])
            with pytest.raises(JournalError, match="the checkpoint was put back to an earlier batch"):
                await driver.batch(6, [b"b"])
            with pytest.raises(JournalError) as lost:
                await driver.commit(8, "r", [["not-staged", 1, 9]])
            assert lost.value.code is JournalCode.NOT_FOUND
            part = await driver.stage(8, "r", "p", [StagedRow(0, None, b"c")])
            with pytest.raises(JournalError) as changed:
                await driver.commit(8, "r", [[*part[:2], part[2] + 1]])
            assert changed.value.code is JournalCode.CHANGED
            with pytest.raises(JournalError, match="has 1 rows, and the manifest says 2"):
                await driver.commit(8, "r", [[part[0], 2, part[2]]])
            assert await driver.abort(8, "r")
            assert not await driver.abort(8, "r")
            driver.start_time = 4
            with pytest.raises(JournalError) as zombie:
                await driver.batch(8, [b"zombie"])
            assert zombie.value.code is JournalCode.FENCED
            driver.start_time = 6
            await driver.batch(8, [b"next"])
        assert house.committed(0) == b"a\nnext\n"


async def test_another_query_does_not_write_where_one_has_written(tmp_path: Path) -> None:
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15) as driver:
            await driver.batch(0, [b"a"])
        async with staging_driver(
            house.relay.address, house.addresses, seconds=15, checkpoint="sos://payments/queries/fork"
        ) as fork:
            with pytest.raises(JournalError, match=f"this sink has rows of {driver.place}, and none of {fork.place}"):
                await fork.batch(1, [b"b"])
        async with staging_driver(house.relay.address, house.addresses, seconds=12, query="other") as other:
            with pytest.raises(JournalError, match=f"this sink has rows of {driver.place}"):
                await other.batch(1, [b"b"])
        assert house.committed(0) == b"a\n"


async def test_relay_and_sinks_are_killed_all_the_time(tmp_path: Path) -> None:
    """The driver, too, comes and goes: it runs the batch again that it was not told about, with other partitions."""
    chance = random.Random(1)
    with relay_house(tmp_path, sinks=2) as house:
        killed = 0

        async def kill() -> None:
            nonlocal killed
            while True:
                await trio.sleep(chance.random() * 0.6)
                victim = chance.choice([house.relay, *house.sinks])
                victim.end()
                await trio.to_thread.run_sync(victim.start)
                killed += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill)
            batch = start_time = 0
            while killed < 6:
                start_time += 1
                async with staging_driver(house.relay.address, house.addresses, start_time=start_time) as driver:
                    while killed < 6:
                        own = [b"%06d" % number for number in range(batch * 50, batch * 50 + 50)]
                        cut = chance.randrange(50)
                        with trio.move_on_after(chance.choice((0.3, 30))) as scope:
                            try:
                                await driver.batch(batch, own[:cut], own[cut:], key_of=lambda row: row[-1:])
                            except JournalError as error:
                                if error.code not in (JournalCode.NOT_FOUND, JournalCode.OUTCOME_UNKNOWN):
                                    raise
                                continue
                        if scope.cancelled_caught:
                            break
                        batch += 1
            nursery.cancel_scope.cancel()
        async with staging_driver(house.relay.address, house.addresses, start_time=start_time + 1) as driver:
            last = [b"%06d" % number for number in range(batch * 50, batch * 50 + 50)]
            await driver.batch(batch, last, key_of=lambda row: row[-1:])
        committed = [house.committed(sink).splitlines() for sink in range(2)]
        assert sorted(committed[0] + committed[1]) == [b"%06d" % number for number in range(batch * 50 + 50)]
        assert all(each == sorted(each) for each in committed)
        transactions = [transactions_of(tmp_path / f"out-{sink}.log") for sink in range(2)]
        assert transactions[0] == transactions[1]


async def test_another_relay_goes_on_on_another_machine(tmp_path: Path) -> None:
    """Nothing of the first one is left but what is on the checkpoint's volume; then it comes back, and has no say."""
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses) as driver:
            await driver.batch(0, [b"a"])
            spool = str(tmp_path / "another-spool")
            second = RunningProgram(
                "second", tmp_path, "connectors", "relay", "--service", house.service.address, "--spool", spool
            )
            try:
                second.start()
                async with staging_driver(second.address, house.addresses) as moved:
                    await moved.batch(0, [b"another run of it"])
                    await moved.batch(1, [b"b"])
                    await driver.batch(1, [b"another run of that"])
                    await driver.batch(2, [b"c"])
                    await moved.batch(3, [b"d"])
            finally:
                second.end()
        assert house.committed(0) == b"a\nb\nc\nd\n"


async def test_a_spool_that_is_full(tmp_path: Path) -> None:
    with relay_house(tmp_path, options=("--spool-bytes", "100K")) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=20) as driver:
            for batch in range(3):
                await driver.batch(batch, [b"x" * 60_000])
            with pytest.raises(JournalError) as full:
                await driver.batch(3, [b"x" * 60_000], [b"y" * 60_000])
            assert full.value.code is JournalCode.NO_SPACE
            assert "--spool-bytes" in str(full.value)


async def test_what_a_driver_that_was_killed_has_staged_makes_room(tmp_path: Path) -> None:
    with relay_house(tmp_path, options=("--spool-bytes", "100K")) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15) as driver:
            for start_time in range(1, 4):
                driver.start_time = start_time
                await driver.stage(0, f"run-{start_time}", "p", [StagedRow(0, None, b"x" * 60_000)])
            driver.start_time = 4
            await driver.batch(0, [b"y" * 60_000])
        assert house.committed(0) == lines(b"y" * 60_000)
        assert house.status()["spool_bytes"] == 0


async def test_a_fork_and_its_original_are_at_one_relay_at_a_time(tmp_path: Path) -> None:
    """They have one query id. The fork's driver is the later one, and the original is past its batches."""
    with relay_house(tmp_path, sinks=2) as house:
        first, second = house.addresses[:1], house.addresses[1:]
        fork_at = {"checkpoint": "sos://payments/queries/fork", "start_time": 2}
        async with (
            staging_driver(house.relay.address, first, seconds=15) as original,
            staging_driver(house.relay.address, second, seconds=15, **fork_at) as fork,
        ):
            for batch in range(50, 54):
                staged = await original.stage(batch, "run", "p", [StagedRow(0, None, b"original %d" % batch)])
                await fork.batch(batch - 7, [b"fork %d" % batch])
                await original.commit(batch, "run", [staged])
        assert house.committed(0) == lines(*(b"original %d" % batch for batch in range(50, 54)))
        assert house.committed(1) == lines(*(b"fork %d" % batch for batch in range(50, 54)))
        queries = house.status()["queries"]
        assert [query["query"] for query in queries] == [QUERY, QUERY]
        assert len({query["checkpoint"] for query in queries}) == 2


async def test_a_query_whose_decisions_began_under_its_id_goes_on(tmp_path: Path) -> None:
    """Its sinks know it by that name, and what is prepared there has it."""
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15, version=1) as driver:
            await driver.batch(0, [b"a"])
            driver.version, driver.start_time = 2, 2
            await driver.batch(1, [b"b"])
        assert house.committed(0) == b"a\nb\n"
        assert transactions_of(tmp_path / "out-0.log") == [f"{QUERY}:0:1.1", f"{QUERY}:1:2.1"]


async def test_a_fork_of_version_1_goes_on_at_the_relay_of_its_original(tmp_path: Path) -> None:
    """It has the original's query id, and batches that the original is past."""
    with relay_house(tmp_path, sinks=2) as house:
        async with staging_driver(house.relay.address, house.addresses[:1], seconds=15, version=1) as driver:
            await driver.batch(50, [b"a"])
            driver.start_time, driver.sinks, driver.checkpoint = 2, house.addresses[1:], "sos://payments/queries/fork"
            await driver.batch(43, [b"b"])
        assert (house.committed(0), house.committed(1)) == (b"a\n", b"b\n")


def planned(text: str) -> dict[str, str]:
    """As the driver says what a batch was planned to have."""
    return {"plan": hashlib.sha256(text.encode()).hexdigest()}


async def test_a_checkpoint_that_was_put_back_by_one_batch(tmp_path: Path) -> None:
    """The batch is planned again and has other rows. What a plan has had committed is answered, under any relay."""
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15) as driver:
            await driver.batch(49, [b"a"])  # by a driver that says nothing of plans
            driver.more = planned("1 to 2")
            await driver.batch(49, [b"the same"])
            await driver.batch(50, [b"b"])
            await driver.batch(50, [b"another run of it"])
            house.relay.end()
            await trio.to_thread.run_sync(house.relay.start)
            await driver.batch(50, [b"another run of it"])
            driver.more, driver.start_time = planned("1 to 5"), 2
            with pytest.raises(JournalError, match="the sinks have another batch 50: the checkpoint was put back"):
                await driver.batch(50, [b"b", b"c"])
        assert house.committed(0) == b"a\nb\n"


async def test_duplicates_are_accepted_for_a_checkpoint_that_was_put_back_by_one_batch(tmp_path: Path) -> None:
    with relay_house(tmp_path, options=("--accept-duplicates",)) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15) as driver:
            driver.more = planned("1 to 2")
            await driver.batch(50, [b"b"])
            driver.more, driver.start_time = planned("1 to 5"), 2
            await driver.batch(50, [b"b", b"c"])
            await driver.batch(50, [b"another run of it"])
            await driver.batch(51, [b"d"])
        assert house.committed(0) == b"b\nb\nc\nd\n"
