"""Batches of millions of rows, sinks that are away for minutes: the relay waits and says for whom, in little memory.

The long forms are for `make soak`.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from connectors.relay.staged_rows import StagedRow
from journal.errors import UnavailableError
from tests.connectors.relay.processes import relay_house
from tests.connectors.relay.staging_driver import staging_driver

if TYPE_CHECKING:
    from tests.connectors.relay.processes import RunningProgram

pytestmark = pytest.mark.slow
ROWS_A_PART = 200_000
MIB = 1024 * 1024
MEMORY_MAX = 160 * MIB
"""Of a relay or a sink, whatever the batch: what Python and its modules take, and some pieces of a MiB or two."""
AWAY_SECONDS_IN_SOAK = float(os.environ.get("SOS_AWAY_SECONDS", "600"))


def memory_peak(program: RunningProgram) -> int:
    """The most that a process has had in memory so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{program.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize(
    "rows", [400_000, pytest.param(10_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
async def test_a_batch_of_many_rows_takes_little_memory(tmp_path: Path, rows: int) -> None:
    with relay_house(tmp_path) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=1800) as driver:
            await driver.batch(0, [b"before"])
            parts = []
            for first in range(0, rows, ROWS_A_PART):
                some = [StagedRow(0, None, b"%d" % number) for number in range(first, first + ROWS_A_PART)]
                parts.append(await driver.stage(1, "run", str(first), some))
            began = time.monotonic()
            while True:
                try:
                    await driver.commit(1, "run", parts)
                except UnavailableError:  # it goes on
                    continue
                break
            seconds = time.monotonic() - began
            await driver.batch(2, [])
            await driver.batch(3, [b"after"])
        peaks = {program.name: memory_peak(program) // MIB for program in (house.relay, house.sinks[0])}
        print(f"{rows:,} rows in {seconds:.1f} s, {rows / seconds:,.0f} a second; MiB: {peaks}")  # noqa: T201
        assert max(peaks.values()) * MIB < MEMORY_MAX, peaks
        committed = house.committed(0)
    expected = b"before\n" + b"".join(b"%d\n" % number for number in range(rows)) + b"after\n"
    assert committed == expected


@pytest.mark.soak
@pytest.mark.timeout(300 + AWAY_SECONDS_IN_SOAK)
async def test_a_sink_that_is_away_for_long_is_waited_for(tmp_path: Path) -> None:
    """CI has a shorter form of it, in test_relay_process. Nothing of the batch is at the other sink meanwhile."""
    with relay_house(tmp_path, sinks=2) as house:
        async with staging_driver(house.relay.address, house.addresses, seconds=15) as driver:
            await driver.batch(0, [b"a", b"b", b"c", b"d"])
            before = [house.committed(sink) for sink in range(2)]
            house.sinks[0].end()
            part = await driver.stage(1, "run", "p", [StagedRow(0, None, b"%d" % number) for number in range(1000)])
            deadline = trio.current_time() + AWAY_SECONDS_IN_SOAK
            waited, said = 0, 0
            while trio.current_time() < deadline:
                with pytest.raises(UnavailableError, match=f"waiting for sink {house.addresses[0]}") as waits:
                    await driver.commit(1, "run", [part])
                found = re.search(r"for (\d+) s", str(waits.value))
                assert found is not None
                assert int(found[1]) > waited
                waited, said = int(found[1]), said + 1
                assert [house.committed(sink) for sink in range(2)] == before
            assert said > AWAY_SECONDS_IN_SOAK / 30
            memory = memory_peak(house.relay)
            house.sinks[0].start()
            await driver.commit(1, "run", [part])
            assert memory < MEMORY_MAX
        rows = b"".join(house.committed(sink) for sink in range(2)).split()
        assert sorted(rows) == sorted([b"a", b"b", b"c", b"d", *(b"%d" % number for number in range(1000))])
