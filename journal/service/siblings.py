"""Where the other shards are served of volumes of which this service has some: clients who ask here are told.

Belongs here: what the owners have written on the board, kept for a moment. So one address of any shard's service is
enough to find the whole volume, and a page can say which addresses lead there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, JournalError, journal_error
from journal.records.shards import parse_shard, shards_of
from journal.takeover.owner_board import GIVEN_BACK

if TYPE_CHECKING:
    from collections.abc import Collection

    from journal.records.shards import Shard
    from journal.service.keeper import OwnerBoard

LOOK_UP_SECONDS: Final = 0.5
"""For so long an answer of the board stands, however many clients ask."""
LOOK_UP_SECONDS_MAX: Final = 2.0


@dataclass(slots=True)
class Sighting:
    """What the board said of a shard."""

    epoch: int = 0
    address: str | None = None
    looked_at: float = -1e9


class Siblings:
    """`look_up`, then `elsewhere` says it."""

    def __init__(self, here: Collection[str], board: OwnerBoard) -> None:
        """`here`: names of the volumes that this service has."""
        self._here = frozenset(here)
        self._board = board
        self._seen: dict[str, Sighting] = {}
        self._looking: dict[str, trio.Lock] = {}

    def is_sibling(self, name: str) -> bool:
        """Whether that is a shard of a volume of which this service has another one."""
        shard = parse_shard(name)
        return name not in self._here and shard is not None and not self._here.isdisjoint(_names(shard))

    async def look_up(self, name: str) -> None:
        """Ask the board, unless that was done a moment ago; within a bounded time."""
        async with self._looking.setdefault(name, trio.Lock()):
            seen = self._seen.setdefault(name, Sighting())
            if trio.current_time() - seen.looked_at < LOOK_UP_SECONDS:
                return
            with trio.move_on_after(LOOK_UP_SECONDS_MAX):
                epoch, address = await self._board.look_up(name)
                if epoch:  # otherwise no server has answered: what was known before is the best guess
                    seen.epoch, seen.address = epoch, address
            seen.looked_at = trio.current_time()

    def elsewhere(self, name: str) -> JournalError:
        """For who asks here: NOT_OWNER with the address, UNAVAILABLE if nobody serves it as far as is known."""
        seen = self._seen.get(name, Sighting())
        if not seen.address or seen.address == GIVEN_BACK:
            message = f"{name} is not served at present, as far as the servers know: start its service, or wait for it"
            return journal_error(JournalCode.UNAVAILABLE, message)
        return journal_error(
            JournalCode.NOT_OWNER,
            f"{name} is served at {seen.address}",
            {"volume": name, "address": seen.address, "epoch": seen.epoch},
        )

    async def addresses(self, name: str, mine: str) -> list[str]:
        """Of the services of all shards of the volume that this one is of: `mine`, and what the board says."""
        shard = parse_shard(name)
        found = [mine]
        for other in () if shard is None else _names(shard):
            if self.is_sibling(other):
                await self.look_up(other)
                if address := self._seen[other].address:
                    found.append(address)
        return sorted(dict.fromkeys(found))


def _names(shard: Shard) -> tuple[str, ...]:
    return tuple(one.name for one in shards_of(shard.volume, shard.count))
