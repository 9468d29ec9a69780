"""A listener's part in the registry: it asks for streams, and gives them up. In order, many at once.

While the registry cannot be reached, who asks waits; streams that are open go on. What waits is bounded: one wish for
each stream, the last one, and none for those that nobody has and nobody wants any more.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from connectors.ingest.persistent_changes import PersistentChanges
from connectors.registry.claims import NOTHING, free_line, hold_line, join_line
from connectors.registry.registry_log import RegistryLog
from journal.errors import JournalCode, UnavailableError, journal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from journal.volume import Volume

LINES_MAX: Final = 8192
"""In one change of the log: below 1 MiB with the longest names."""
PAUSE_SECONDS: Final = 0.5
WISHES_BYTES_MAX: Final = 32 << 20
"""Of those who wait for a stream; whoever asks beyond that is refused, and asks again."""
WISH_BYTES: Final = 512
"""About so many are held for each, besides the name of its stream."""


class _Wish(NamedTuple):
    """`told` is called with the point that the stream has at least, or None when another listener has it."""

    stream_id: int
    told: Callable[[int | None], None] | None  # None: the stream is given up
    point: int = NOTHING
    held_bytes: int = 0


class StreamRegistry:
    """`run` in a nursery; `hold` and `free` at any time: of two wishes for a stream the later one counts."""

    def __init__(self, volume: Volume, *, listener: str, epoch: int, points: Mapping[int, int]) -> None:
        """`points`: how far each stream is in the listener's own volume, as recovered."""
        self.waits_for = ""
        self._log = RegistryLog(volume, PersistentChanges().next_operation)
        self._listener = listener
        self._epoch = epoch
        self._points = points
        self._wishes: dict[int, _Wish] = {}
        self._asked: dict[int, _Wish] = {}  # of these the log may have lines by now
        self._held_bytes = 0
        self._wished = trio.Event()

    @property
    def held(self) -> int:
        """How many streams this listener has."""
        return len(self._log.claims.streams_of(self._listener))

    @property
    def waiting(self) -> int:
        """How many wishes are not fulfilled."""
        return len(self._wishes)

    def hold(self, stream_id: int, told: Callable[[int | None], None], *, name_characters: int = 0) -> None:
        """Ask for a stream. `told` must not raise; it may be called at once, when too many wait."""
        held_bytes = WISH_BYTES + name_characters
        if self._held_bytes + held_bytes > WISHES_BYTES_MAX:
            told(None)
        else:
            given_up = self._wishes.get(stream_id)  # and had still: this point the log does not have
            point = given_up.point if given_up is not None else NOTHING
            self._wish(_Wish(stream_id, told, point, held_bytes))

    def free(self, stream_id: int, point: int) -> None:
        """Give a stream up, of which everything up to this message is durable here, and nothing else ever comes."""
        if stream_id in self._asked or self._log.claims.owners.get(stream_id) == self._listener:
            self._wish(_Wish(stream_id, None, point))
        else:  # it was never had
            self._forget(stream_id)

    async def run(self) -> None:
        """Until cancelled. Raises NOT_OWNER when a newer owner of the listener's volume has joined."""
        await self._until_done(self._join)
        while True:
            await self._wished.wait()
            self._wished = trio.Event()
            while self._wishes:
                await self._until_done(self._fulfil)

    def _wish(self, wish: _Wish) -> None:
        self._forget(wish.stream_id)
        self._wishes[wish.stream_id] = wish
        self._held_bytes += wish.held_bytes
        self._wished.set()

    def _forget(self, stream_id: int) -> None:
        """Whoever wished something of this stream before does not wish it any more."""
        before = self._wishes.pop(stream_id, None)
        if before is not None:
            self._held_bytes -= before.held_bytes
            if before.told is not None:
                before.told(None)

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
        """The first wishes, at once. What was asked of the log is asked again until that is known to be done."""
        if not self._asked:
            self._asked = dict(islice(self._wishes.items(), LINES_MAX))
        while True:
            await self._log.refresh()  # what another listener had it may have given up by now
            self._check_newest()
            lines = self._lines_for(self._asked.values())
            if not lines or await self._log.add(lines):
                break
        asked, self._asked = self._asked, {}
        for stream_id, wish in asked.items():
            if self._wishes.get(stream_id) is wish:  # or there is a later one, whose turn comes
                self._fulfilled(wish)
        if self._log.long:
            await self._log.end_file()
            await self._log.refresh()

    def _fulfilled(self, wish: _Wish) -> None:
        del self._wishes[wish.stream_id]
        self._held_bytes -= wish.held_bytes
        if wish.told is not None:
            claims = self._log.claims
            has = claims.owners.get(wish.stream_id) == self._listener
            wish.told(max(wish.point, claims.points.get(wish.stream_id, NOTHING)) if has else None)

    def _lines_for(self, wishes: Iterable[_Wish]) -> list[str]:
        """What has to be added; nothing for streams that we have, or that another one has."""
        lines = []
        for stream_id, told, point, _ in wishes:
            owner = self._log.claims.owners.get(stream_id)
            if told is None and owner == self._listener:
                lines.append(free_line(self._listener, self._epoch, stream_id, point))
            elif told is not None and owner is None:
                lines.append(hold_line(self._listener, self._epoch, stream_id))
        return lines

    def _check_newest(self) -> None:
        newest = self._log.claims.epochs.get(self._listener, 0)
        if newest > self._epoch:
            raise journal_error(
                JournalCode.NOT_OWNER,
                f"volume {self._listener} has another owner now (epoch {newest}), as the stream registry says",
                {"volume": self._listener, "address": None, "epoch": newest},
            )
