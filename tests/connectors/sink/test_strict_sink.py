"""The relay and a sink that is not ours, as strict as Wallaroo's: with every fault rule, killed in every phase."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from tests.connectors.relay.processes import RunningProgram, relay_house
from tests.connectors.relay.staging_driver import staging_driver
from tests.connectors.sink.strict_sink import committed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.connectors.relay.processes import RelayHouse

pytestmark = pytest.mark.slow
COOKIE = {"cookie": "Dragons-Love-Tacos"}


@asynccontextmanager
async def strict_house(
    directory: Path, *, sinks: int = 1, rules: Sequence[tuple[object, ...]] = ()
) -> AsyncIterator[tuple[RelayHouse, list[RunningProgram]]]:
    """The first sink has the rules."""
    rules_file = directory / "rules"
    rules_file.write_text("".join(f"{rule!r}\n" for rule in rules))
    with relay_house(directory, sinks=0) as house:
        programs = []
        try:
            for number in range(sinks):
                options = ["--dir", str(directory / f"strict-{number}")]
                options += ["--rules", str(rules_file)] if number == 0 else []
                program = RunningProgram(f"strict-{number}", directory, "tests.connectors.sink.strict_sink", *options)
                program.start()
                programs.append(program)
            yield house, programs
        finally:
            for program in programs:
                program.end()


VOTES = [(vote, before, after) for vote in (True, False) for before in (True, False) for after in (True, False)]


@pytest.mark.parametrize(("vote", "before", "after"), VOTES)
async def test_what_a_rule_does_to_first_attempts(tmp_path: Path, *, vote: bool, before: bool, after: bool) -> None:
    """A vote that is lost looks the same, whatever it was. In each relay's first attempt of each odd batch."""
    rules = [("txnid-regexp", ":[13]:1\\.[1-4]$", vote, before, after)]
    async with strict_house(tmp_path, sinks=2, rules=rules) as (house, sinks):
        addresses = [sink.address for sink in sinks]
        async with staging_driver(house.relay.address, addresses, more=COOKIE) as driver:
            for batch in range(5):
                await driver.batch(batch, [b"%d-%d\n" % (batch, row) for row in range(20)], key_of=lambda row: row)
        both = [committed(tmp_path / f"strict-{number}").splitlines() for number in range(2)]
        assert sorted(both[0] + both[1]) == sorted(b"%d-%d" % (batch, row) for batch in range(5) for row in range(20))
        assert not any(sink.ended for sink in sinks)
        aborted = (tmp_path / "strict-0" / "txnlog").read_text().count(", False)")
        assert aborted >= (0 if vote and not before else 2)


async def test_a_sink_that_never_wants_a_row(tmp_path: Path) -> None:
    """The batch fails with its name, and nothing of it is anywhere. Without that row the query goes on."""
    async with strict_house(tmp_path, sinks=2, rules=[("stream-content", 1, "boom")]) as (house, sinks):
        addresses = [sink.address for sink in sinks]
        more = {**COOKIE, "attempts": 3}
        async with staging_driver(house.relay.address, addresses, more=more) as driver:
            await driver.batch(0, [b"a\n", b"b\n"])
            with pytest.raises(JournalError, match=f"sink {addresses[0]} has voted to abort each time") as error:
                await driver.batch(1, [b"%d boom\n" % row for row in range(20)])
            assert error.value.code is JournalCode.BAD_REQUEST
            await driver.batch(1, [b"c\n"])
        both = [committed(tmp_path / f"strict-{number}").splitlines() for number in range(2)]
        assert sorted(both[0] + both[1]) == [b"a", b"b", b"c"]


async def test_it_never_dies_whatever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    rules = [
        ("txnid-regexp", ":[0-9]*[37]:[0-9]+.1$", False, False, True),
        ("txnid-regexp", "5:[0-9]+.1$", True, True, True),
    ]
    async with strict_house(tmp_path, sinks=2, rules=rules) as (house, sinks):
        addresses = [sink.address for sink in sinks]
        victims = [house.relay, *sinks]

        async def kill() -> None:
            while True:
                await trio.sleep(chance.random() * 0.5)
                victim = chance.choice(victims)
                assert not victim.ended, victim.log[-2000:]
                victim.end()
                await trio.to_thread.run_sync(victim.start)

        rows = [b"%06d\n" % number for number in range(1200)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill)
            async with staging_driver(house.relay.address, addresses, more=COOKIE) as driver:
                batch = 0
                while batch < 24:
                    try:
                        await driver.batch(batch, rows[batch * 50 : batch * 50 + 50], key_of=lambda row: row)
                    except JournalError as error:
                        assert error.code in (JournalCode.NOT_FOUND, JournalCode.OUTCOME_UNKNOWN), error  # noqa: PT017
                        continue
                    batch += 1
            nursery.cancel_scope.cancel()
        both = [committed(tmp_path / f"strict-{number}").splitlines(keepends=True) for number in range(2)]
        assert sorted(both[0] + both[1]) == rows
        assert all(each == sorted(each) for each in both)
        assert "strict sink:" not in "".join(sink.log for sink in sinks)
