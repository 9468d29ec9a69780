"""Pages that are open: what they are told, and when. While there is none, nothing is done.

What changed is put together once for all who see the same. A page that is slow gets the newest when it is ready for
it, and never what it has missed: nothing is kept for it.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

import trio

from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from sos_client.web.status_source import StatusSource, ViewerSight

LOOK_SECONDS: Final = 0.25
"""How often it is seen whether something urgent has changed: a member that died is shown within two seconds."""
TELL_SECONDS_MIN: Final = 1.0
TELLS_PER_SECOND_MAX: Final = 40
"""All pages together: 200 of them are told of mere numbers every five seconds."""
REFRESH_SECONDS: Final = 2.0
REFRESH_SECONDS_MAX: Final = 5.0
"""What is not found out by then comes with the next look: nobody waits longer for the rest."""
PORTION: Final = 16
PORTION_SECONDS: Final = 0.004
"""This many pages are woken at a time, so that requests are answered in between."""


def json_bytes(value: object) -> bytes:
    """JSON on one line, without anything that could turn a terminal's lines around."""
    return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


class Watchers:
    """`run` in a nursery; `events` for each page."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._count = 0
        self._somebody = trio.Event()
        self._news = trio.lowlevel.ParkingLot()
        self._frames: dict[tuple[ViewerSight, str], bytes] = {}
        self._refreshing = trio.Lock()
        self._refreshed = -math.inf

    @property
    def tell_seconds(self) -> float:
        """How long pages wait for numbers that are not urgent."""
        return max(TELL_SECONDS_MIN, self._count / TELLS_PER_SECOND_MAX)

    async def run(self) -> None:
        """Look while somebody looks; until cancelled."""
        while True:
            await self._somebody.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._refresh_regularly)
                await self._tell_while_watched()
                nursery.cancel_scope.cancel()
            if not self._count:
                self._somebody = trio.Event()
                self._frames.clear()

    async def _tell_while_watched(self) -> None:
        urgent: object = None  # what changes before the first look is told, too
        told = trio.current_time()
        while self._count:
            await trio.sleep(LOOK_SECONDS)
            seen = self._source.urgent()
            if seen != urgent or trio.current_time() - told >= self.tell_seconds:
                urgent, told = seen, trio.current_time()
                self._frames.clear()
                for _ in range(0, len(self._news), PORTION):  # who parks again meanwhile is at the end of the row
                    self._news.unpark(count=PORTION)
                    await trio.sleep(PORTION_SECONDS)

    async def _refresh_regularly(self) -> None:
        while True:
            await self.refresh()
            await trio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Details that are no older than a moment."""
        async with self._refreshing:
            if trio.current_time() - self._refreshed >= REFRESH_SECONDS / 2:
                with trio.move_on_after(REFRESH_SECONDS_MAX):
                    await self._source.refresh()
                self._refreshed = trio.current_time()

    def whole(self, sight: ViewerSight) -> dict[str, object]:
        """All that there is to see now."""
        return {**self._source.live(sight), "next_seconds": self.tell_seconds, **self._source.details(sight)}

    async def events(self, sight: Callable[[], ViewerSight | None]) -> AsyncGenerator[bytes, None]:
        """Server-sent events: `status` with all there is, then `live`, and `details` when they are others.

        Ends when `sight` is None: the token is not valid any more.
        """
        self._count += 1
        self._somebody.set()
        try:
            seen = sight()
            version = self._source.details_version
            if seen is not None:
                yield self._frame(seen, "status")
            while seen is not None:
                await self._news.park()
                seen = sight()
                if seen is None:
                    return
                if version != self._source.details_version:
                    version = self._source.details_version
                    yield self._frame(seen, "details")
                yield self._frame(seen, "live")
        finally:
            self._count -= 1

    def _frame(self, sight: ViewerSight, kind: str) -> bytes:
        key = (sight, kind)
        if key not in self._frames:
            if kind == "status":
                value = self.whole(sight)
            elif kind == "details":
                value = self._source.details(sight)
            else:
                value = {**self._source.live(sight), "next_seconds": self.tell_seconds}
            self._frames[key] = b"event: %s\ndata: %s\n\n" % (kind.encode(), json_bytes(value))
        return self._frames[key]
