"""What `sos-journal web` shows: a volume as its servers have it, when no service is asked. Implements StatusSource.

Belongs here: a volume that is spread over shards is one here, too. What it is made of, ServersWatch finds out; how the
shards' values become one, shards_as_one.py says.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, UnavailableError
from journal.records.moments import Now
from journal.records.shards import HOME
from journal.shards.whole_reader import WholeReader, settle
from journal.web.outlook import outlook, unknown
from journal.web.servers_watch import LOOK_SECONDS_MAX, now_ms
from journal.web.shards_as_one import live_of, members_of
from journal.web.volume_details import VolumeDetails
from sos_client.nurseries import together
from sos_client.web.sampling import Since

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.copies.volume_reader import VolumeReader
    from journal.files.diagnosing import TreeView
    from journal.image.image import Image
    from journal.records.shards import Shard
    from journal.web.outlook import Outlook
    from journal.web.servers_watch import ServersWatch
    from sos_client.web.status_source import ViewerSight

    ViewOf = Callable[[VolumeReader, Image], TreeView]

WATCHED_SECONDS: Final = 15.0
"""Servers are asked for this long after the last look at the page."""
WHOLE_SECONDS: Final = 10.0
"""For so long the joined tree of all shards is good enough to look through: all queries of one look share it."""


class ServersSource:
    """One volume on its servers. `run` in a nursery. Also VolumeSource, for its details."""

    def __init__(
        self,
        volume: str,
        watches: Sequence[ServersWatch],
        *,
        shards: Sequence[Shard] = (),
        view_of: ViewOf,
        address: str,
        place: str,
    ) -> None:
        """`watches`: the volume, or each of its shards, in order. `view_of` gives content. `address`: of the page.

        `place`: the tool's options that lead to the servers.
        """
        self.volume = volume
        self.place = place
        self._watches = tuple(watches)
        self._shards = tuple(shards)
        self._home = watches[HOME]
        self._view_of = view_of
        self._address = address
        self._since = Since()
        self._details = VolumeDetails(self)
        self._started_ms = now_ms()
        self._last_look = trio.current_time()
        self._looked_at = trio.Event()
        self._joined: tuple[float, Image, TreeView] | None = None

    @property
    def names(self) -> Sequence[str]:
        return (self.volume,)

    # ---- the volume, for its details

    @property
    def image(self) -> Image:
        return self._home.image

    async def whole(self) -> tuple[Image, TreeView]:
        if not self._shards:
            await trio.lowlevel.checkpoint()
            assert self._home.reader is not None, "there is an image only after a reader"
            return self._home.image, self._view_of(self._home.reader, self._home.image)
        if self._joined is None or trio.current_time() - self._joined[0] >= WHOLE_SECONDS:
            with trio.move_on_after(LOOK_SECONDS_MAX) as looking:
                reader = await self._whole_reader()
                image = await reader.image(Now())
                self._joined = trio.current_time(), image, self._view_of(reader, image)
            if looking.cancelled_caught:
                message = f"the shards of {self.volume} could not be read within {LOOK_SECONDS_MAX:g} s"
                raise UnavailableError(JournalCode.UNAVAILABLE, message)
        assert self._joined is not None
        return self._joined[1:]

    async def _whole_reader(self) -> WholeReader:
        """HOME first: what that refers to, the others then have."""
        readers: dict[str, VolumeReader] = {}

        async def read(watch: ServersWatch) -> None:
            async with watch.opened() as reader:
                await settle(reader)
                readers[watch.volume] = reader

        await read(self._home)
        async with together() as nursery:
            for watch in self._watches[HOME + 1 :]:
                nursery.start_soon(read, watch)
        return WholeReader(self._shards, [readers[shard.name] for shard in self._shards])

    def reader(self) -> AbstractAsyncContextManager[VolumeReader]:
        """HOME's, which has all batches and claims."""
        return self._home.opened()

    def is_busy(self) -> bool:
        return False  # whoever writes is another process

    async def run(self) -> None:
        """Ask the servers while somebody looks, until cancelled."""
        while True:
            await self._looked_at.wait()
            async with trio.open_nursery() as nursery:
                for watch in self._watches:
                    nursery.start_soon(watch.watch)
                nursery.start_soon(self._details.read_past)
                while (left := self._last_look + WATCHED_SECONDS - trio.current_time()) > 0:  # noqa: ASYNC110
                    await trio.sleep(left)  # there may have been another look meanwhile
                nursery.cancel_scope.cancel()
            self._joined = None  # its copies are closed
            self._looked_at = trio.Event()

    # ---- what is shown

    def _outlook(self) -> Outlook:
        for watch in self._watches:
            if watch.reader is None:
                which = f"{watch.volume}: " if self._shards else ""
                return unknown(f"Unknown: {which}{watch.failure}.")
        return outlook([quorum for watch in self._watches for quorum in watch.quorums()])

    def urgent(self) -> object:
        return [watch.answering() for watch in self._watches], self._outlook()

    def live(self, sight: ViewerSight) -> dict[str, object]:
        volume: dict[str, object] = {"volume": self.volume, "owned": False, "outlook": self._outlook().as_json()}
        if self._shards:
            volume |= {"members": members_of(self._watches, self._since), **live_of(self._watches)}
        else:
            volume |= {"members": self._home.members(), **self._home.live()}
        return {
            "kind": "servers",
            "version": version("sos-checkpoints"),
            "time_ms": now_ms(),
            "started_ms": self._started_ms,
            "address": self._address,
            "volumes": [volume] if self.volume in sight.names else [],
        }

    @property
    def details_version(self) -> int:
        return self._details.version

    def details(self, sight: ViewerSight) -> dict[str, object]:
        seen = self.volume in sight.names and self._home.reader is not None
        return {"details": [self._details.as_json()] if seen else [], "events": []}

    async def refresh(self) -> None:
        self._last_look = trio.current_time()
        self._looked_at.set()
        with trio.move_on_after(LOOK_SECONDS_MAX):
            for watch in self._watches:
                await watch.known.wait()
        if self._home.reader is not None:
            await self._details.refresh()

    async def unready(self) -> str | None:
        await self.refresh()
        look = self._outlook()
        return None if look.may_lose >= 0 else look.sentence
