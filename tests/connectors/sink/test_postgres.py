"""`sos-connector postgres` with a real PostgreSQL: the table is the input, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from tests.connectors.relay.processes import RunningProgram, relay_house
from tests.connectors.relay.staging_driver import staging_driver
from tests.connectors.sink.postgres_server import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.connectors.relay.processes import RelayHouse
    from tests.connectors.sink.postgres_server import PostgresServer

pytestmark = pytest.mark.slow
KILLS_IN_SOAK = int(os.environ.get("SOS_POSTGRES_KILLS", "300"))


@contextmanager
def postgres_house(directory: Path, *options: str) -> Iterator[tuple[RelayHouse, PostgresServer, RunningProgram]]:
    with postgres_server(directory / "postgres") as server, relay_house(directory, sinks=0) as house:
        server.ask("CREATE TABLE visits (number int PRIMARY KEY, who text)")
        server.ask("CREATE TABLE bytes (key bytea, value bytea)")
        log = str(directory / "postgres.log")
        sink = RunningProgram("sink", directory, "connectors", "postgres", "--dsn", server.dsn, "--log", log, *options)
        try:
            sink.start()
            yield house, server, sink
        finally:
            sink.end()


async def test_rows_of_any_bytes_and_their_keys(tmp_path: Path) -> None:
    with postgres_house(tmp_path, "--table", "public.bytes") as (house, server, sink):
        async with staging_driver(house.relay.address, [sink.address]) as driver:
            await driver.batch(0, [b"\x00\xff", b"a"], key_of=lambda row: row[:1] + b"\x00")
            await driver.batch(1)
            await driver.batch(2, [b"b"])
        assert server.ask("SELECT key, value FROM bytes ORDER BY value") == [
            (b"\x00\x00", b"\x00\xff"),
            (b"a\x00", b"a"),
            (None, b"b"),
        ]
        assert server.ask("SELECT name, rows FROM sos_sinks") == [("public.bytes", 3)]


async def test_rows_that_the_table_does_not_take(tmp_path: Path) -> None:
    with postgres_house(tmp_path, "--table", "visits", "--json") as (house, server, sink):
        async with staging_driver(house.relay.address, [sink.address], more={"attempts": 2}) as driver:
            await driver.batch(0, [b'{"number": 1, "who": "a"}'])
            for rows in ([b'{"number": 1}'], [b"no json"], [b"\xff"]):
                with pytest.raises(JournalError, match="has voted to abort each time"):
                    await driver.batch(1, [b'{"number": 2}', *rows])
            await driver.batch(1, [b'{"number": 3, "who": "\\u00e9"}'])
        assert server.ask("SELECT * FROM visits ORDER BY number") == [(1, "a"), (3, "é")]
        assert "duplicate key value violates unique constraint" in sink.log
        assert server.ask("SELECT gid FROM pg_prepared_xacts") == []


async def test_what_was_prepared_and_never_voted_for_is_rolled_back_and_named(tmp_path: Path) -> None:
    with postgres_house(tmp_path, "--table", "visits", "--json") as (house, server, sink):
        server.ask("CREATE TABLE other (n int)")
        identity = json.loads((tmp_path / "postgres.log").read_bytes().splitlines()[0])["id"]
        lost = f"sos:visits:{identity}:lost:0:1.1"
        for gid in (lost, "sos:visits:another:lost:0:1.1"):
            server.ask(f"BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION '{gid}'")
        async with staging_driver(house.relay.address, [sink.address]) as driver:
            await driver.batch(0, [b'{"number": 1, "who": "a"}'])
        assert server.ask("SELECT gid FROM pg_prepared_xacts") == [("sos:visits:another:lost:0:1.1",)]
        assert f"rolled back {lost}" in sink.log


@pytest.mark.parametrize(
    "kills", [12, pytest.param(KILLS_IN_SOAK, marks=[pytest.mark.soak, pytest.mark.timeout(20 * KILLS_IN_SOAK)])]
)
async def test_the_table_is_the_input_whatever_is_killed(tmp_path: Path, kills: int) -> None:
    """The relay, the sink, and PostgreSQL itself, in turn by chance; the driver comes and goes, too."""
    chance = random.Random(kills)
    with postgres_house(tmp_path, "--table", "visits", "--json") as (house, server, sink):
        killed = start_time = batch = 0
        began = time.monotonic()

        async def kill() -> None:
            nonlocal killed
            while True:
                await trio.sleep(chance.random() * 0.5)
                victim = chance.choice([house.relay, sink, None])
                if victim is None:
                    server.kill()
                else:
                    victim.end()
                await trio.to_thread.run_sync(server.start if victim is None else victim.start)
                killed += 1
                if killed % 10 == 0:
                    seconds = time.monotonic() - began
                    sys.stdout.write(f"{seconds:6.1f} s  {killed} kills, {start_time} drivers, {batch} batches\n")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill)
            while killed < kills:
                start_time += 1
                async with staging_driver(house.relay.address, [sink.address], start_time=start_time) as driver:
                    while killed < kills:
                        rows = [json.dumps({"number": batch * 20 + n, "who": f"{batch}"}).encode() for n in range(20)]
                        cut = chance.randrange(20)
                        with trio.move_on_after(chance.choice((1, 60))) as scope:
                            try:
                                await driver.batch(batch, rows[:cut], rows[cut:])
                            except JournalError as error:
                                if error.code not in (JournalCode.NOT_FOUND, JournalCode.OUTCOME_UNKNOWN):
                                    raise
                                continue
                        if scope.cancelled_caught:
                            break
                        batch += 1
            nursery.cancel_scope.cancel()
        async with staging_driver(house.relay.address, [sink.address], start_time=start_time + 1) as driver:
            await driver.batch(batch, [json.dumps({"number": batch * 20, "who": "end"}).encode()])
        numbers = [row[0] for row in server.ask("SELECT number FROM visits ORDER BY number")]
        assert numbers[: batch * 20] == list(range(batch * 20))
        assert len(numbers) in (batch * 20 + 1, batch * 20 + 20)  # the last batch may be that of an earlier driver
        assert server.ask("SELECT gid FROM pg_prepared_xacts") == []
        assert batch > 0
