"""A listener's part in the registry: it asks for streams, and gives them up. In order, many at once.

While the registry cannot be reached, who asks waits; streams that are open go on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from connectors.ingest.persistent_changes import PersistentChanges
from connectors.registry.claims import NOTHING, free_line, hold_line, join_line
from connectors.registry.registry_log import RegistryLog
from journal.errors import JournalCode, UnavailableError, journal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from journal.volume import Volume

LINES_MAX: Final = 8192
"""In one change of the log: below 1 MiB with the longest names."""
PAUSE_SECONDS: Final = 0.5


class _Wish(NamedTuple):
    """`told` is called with the point that the stream has at least, or None when another listener has it."""

    stream_id: int
    told: Callable[[int | None], None] | None  # None: the stream is given up
    point: int = NOTHING


class StreamRegistry:
    """`run` in a nursery; `hold` and `free` at any time. Wishes are fulfilled in order."""

    def __init__(self, volume: Volume, *, listener: str, epoch: int, points: Mapping[int, int]) -> None:
        """`points`: how far each stream is in the listener's own volume, as recovered."""
        self.waits_for = ""
        self._log = RegistryLog(volume, PersistentChanges().next_operation)
        self._listener = listener
        self._epoch = epoch
        self._points = points
        self._wishes: deque[_Wish] = deque()
        self._wished = trio.Event()

    @property
    def held(self) -> int:
        """How many streams this listener has."""
        return len(self._log.claims.streams_of(self._listener))

    def hold(self, stream_id: int, told: Callable[[int | None], None]) -> None:
        """Ask for a stream. `told` must not raise, and is called later."""
        self._wish(_Wish(stream_id, told))

    def free(self, stream_id: int, point: int) -> None:
        """Give a stream up, of which everything up to this message is durable here, and nothing else ever comes."""
        self._wish(_Wish(stream_id, None, point))

    async def run(self) -> None:
        """Until cancelled. Raises NOT_OWNER when a newer owner of the listener's volume has joined."""
        await self._until_done(self._join)
        while True:
            await self._wished.wait()
            self._wished = trio.Event()
            while self._wishes:
                await self._until_done(self._fulfil)

    def _wish(self, wish: _Wish) -> None:
        self._wishes.append(wish)
        self._wished.set()

    async def _until_done(self, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await do()
            except UnavailableError as error:  # done or not: doing it again changes nothing more
                self.waits_for = f"the stream registry: {error.message}"
            else:
                self.waits_for = ""
                return
            await trio.sleep(PAUSE_SECONDS)

    async def _join(self) -> None:
        """From now on an owner before us says nothing more. Nobody is connected yet: what it had is given up."""
        await self._log.refresh()
        while self._log.claims.epochs.get(self._listener) != self._epoch:
            self._check_newest()
            if not await self._log.add([join_line(self._listener, self._epoch)]):
                await self._log.refresh()
        while streams := self._log.claims.streams_of(self._listener)[:LINES_MAX]:
            self._check_newest()
            known = self._log.claims.points
            lines = [
                free_line(
                    self._listener,
                    self._epoch,
                    stream_id,
                    max(self._points.get(stream_id, NOTHING), known.get(stream_id, NOTHING)),
                )
                for stream_id in streams
            ]
            if not await self._log.add(lines):
                await self._log.refresh()

    async def _fulfil(self) -> None:
        """The first wishes, at once. They stay wishes until they are fulfilled."""
        wishes = [self._wishes[n] for n in range(min(len(self._wishes), LINES_MAX))]
        while True:
            await self._log.refresh()  # what another listener had it may have given up by now
            self._check_newest()
            lines = self._lines_for(wishes)
            if not lines or await self._log.add(lines):
                break
        claims = self._log.claims
        for stream_id, told, _ in wishes:
            self._wishes.popleft()
            if told is not None:
                has = claims.owners.get(stream_id) == self._listener
                told(claims.points.get(stream_id, NOTHING) if has else None)
        if self._log.long:
            await self._log.end_file()
            await self._log.refresh()

    def _lines_for(self, wishes: list[_Wish]) -> list[str]:
        """What has to be added; nothing for streams that we have, or that another one has."""
        owners = self._log.claims.owners
        ours: dict[int, bool] = {}
        lines = []
        for stream_id, told, point in wishes:
            has = ours.get(stream_id, owners.get(stream_id) == self._listener)
            free = stream_id not in owners or ours.get(stream_id) is False
            if told is None and has:
                lines.append(free_line(self._listener, self._epoch, stream_id, point))
                ours[stream_id] = False
            elif told is not None and not has and free:
                lines.append(hold_line(self._listener, self._epoch, stream_id))
                ours[stream_id] = True
        return lines

    def _check_newest(self) -> None:
        newest = self._log.claims.epochs.get(self._listener, 0)
        if newest > self._epoch:
            raise journal_error(
                JournalCode.NOT_OWNER,
                f"volume {self._listener} has another owner now (epoch {newest}), as the stream registry says",
                {"volume": self._listener, "address": None, "epoch": newest},
            )
