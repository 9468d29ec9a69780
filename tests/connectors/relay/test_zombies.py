"""Drivers that have been replaced and do not know it: nothing of theirs is committed after their successor's first.

The relay is a process; with the mistake planted that takes what they say, the same story must come out wrong.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from journal.errors import JournalCode, JournalError
from tests.chaos.connectors.planted import ACCEPT_ZOMBIES
from tests.connectors.relay.processes import relay_house
from tests.connectors.relay.staging_driver import staging_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.connectors.relay.processes import RelayHouse

pytestmark = pytest.mark.slow
DRIVERS = 5
_ALLOWED = (JournalCode.FENCED, JournalCode.BAD_REQUEST)
"""To a driver that was replaced: that it was, or that its batch is one that the sinks are past."""


async def _story(house: RelayHouse, chance: random.Random) -> None:
    """Each driver commits some batches; then those before it, which slept, go on where they were."""
    batch = 0
    asleep: list[tuple[int, int]] = []
    async with staging_driver(house.relay.address, house.addresses, seconds=30) as driver:
        for number in range(1, DRIVERS + 1):
            driver.start_time = number
            for _ in range(chance.randint(1, 3)):
                await driver.batch(batch, [b"%d" % number])
                batch += 1
            asleep.append((number, batch))
            for zombie, due in chance.sample(asleep[:-1], len(asleep) - 1):
                driver.start_time = zombie
                with pytest.raises(JournalError) as refused:
                    await driver.batch(chance.choice((due, batch)), [b"%d, which has slept" % zombie])
                assert refused.value.code in _ALLOWED


async def test_nothing_of_a_zombie_is_committed(tmp_path: Path) -> None:
    with relay_house(tmp_path) as house:
        await _story(house, random.Random(1))
        rows = house.committed(0).decode().split("\n")[:-1]
    assert rows == sorted(rows)
    assert set(rows) == {str(number) for number in range(1, DRIVERS + 1)}


async def test_a_relay_that_takes_what_a_zombie_says_is_caught(tmp_path: Path) -> None:
    launcher = ("tests.chaos.connectors.planted", ACCEPT_ZOMBIES)
    with relay_house(tmp_path, launcher=launcher) as house:
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
            await _story(house, random.Random(1))
        assert b"which has slept" in house.committed(0)
