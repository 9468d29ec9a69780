"""What `sos-journal web` shows: a volume as its servers have it, when no service is asked. Implements StatusSource.

Belongs here: one connection to each member, kept while somebody looks. Nothing is written, nobody is fenced; whether a
service writes at this moment is not known here.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.volume_reader import open_reader
from journal.errors import JournalError
from journal.image.image import Image
from journal.records.moments import Now
from journal.web.outlook import Quorum, outlook, unknown
from journal.web.volume_details import VolumeDetails
from sos_client.nurseries import first_of
from sos_client.web.sampling import LogPace, Since
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.copies.copies import MemberCopy
    from journal.copies.volume_reader import VolumeReader
    from journal.files.diagnosing import TreeView
    from journal.web.outlook import Outlook
    from sos_client.web.status_source import ViewerSight

    OpenCopy = Callable[[str], AbstractAsyncContextManager[MemberCopy]]
    ViewOf = Callable[[VolumeReader, Image], TreeView]

ASK_SECONDS: Final = 0.4
"""Between two questions to each server, so that one that died is shown within two seconds."""
ANSWER_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
LOOK_SECONDS_MAX: Final = 10.0
WATCHED_SECONDS: Final = 15.0
"""Servers are asked for this long after the last look at the page."""


@dataclass(slots=True)
class AskedServer:
    """One server: the copy while it answers, else why not."""

    copy: MemberCopy | None = None
    problem: str = "not asked yet"


class ServersSource:
    """One volume on its servers. `run` in a nursery. Also VolumeSource, for its details."""

    def __init__(
        self, volume: str, servers: Sequence[str], *, open_copy: OpenCopy, view_of: ViewOf, address: str, place: str
    ) -> None:
        """`view_of` gives content. `address`: of the page. `place`: the tool's options that lead to the servers."""
        self.volume = volume
        self.place = place
        self.image = Image()
        self._open_copy = open_copy
        self._view_of = view_of
        self._address = address
        self._servers: dict[str, AskedServer] = {address: AskedServer() for address in servers}
        self._reader: VolumeReader | None = None
        self._failure = "the servers have not been asked yet"
        self._pace = LogPace()
        self._since = Since()
        self._details = VolumeDetails(self)
        self._started_ms = _now_ms()
        self._last_look = trio.current_time()
        self._looked_at = trio.Event()
        self._known = trio.Event()

    @property
    def names(self) -> Sequence[str]:
        return (self.volume,)

    @property
    def view(self) -> TreeView:
        assert self._reader is not None, "there is an image only after a reader"
        return self._view_of(self._reader, self.image)

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[VolumeReader]:
        yield await open_reader(self.volume, self._copies())

    def is_busy(self) -> bool:
        return False  # whoever writes is another process

    async def run(self) -> None:
        """Ask the servers while somebody looks, until cancelled."""
        while True:
            await self._looked_at.wait()
            async with trio.open_nursery() as nursery:
                asked: set[str] = set()
                nursery.start_soon(self._look_regularly)
                nursery.start_soon(self._details.read_past)
                while trio.current_time() - self._last_look < WATCHED_SECONDS:
                    for address in self._servers.keys() - asked:
                        asked.add(address)
                        nursery.start_soon(self._ask, address)
                    await trio.sleep(ASK_SECONDS)
                nursery.cancel_scope.cancel()
            self._looked_at = trio.Event()

    async def _ask(self, address: str) -> None:
        """Keep a connection, and see whether the server answers."""
        server = self._servers[address]
        while True:
            try:
                async with self._open_copy(address) as copy:
                    while True:
                        with trio.fail_after(ANSWER_SECONDS):
                            await copy.claim()
                        server.copy, server.problem = copy, ""
                        await trio.sleep(ASK_SECONDS)
            except (SosError, trio.TooSlowError, BaseExceptionGroup) as error:
                cause = first_of(error)
                if not isinstance(cause, SosError | trio.TooSlowError):
                    raise
                server.problem = str(cause) or f"does not answer within {ANSWER_SECONDS:g} s"
            finally:
                server.copy = None
            await trio.sleep(ASK_SECONDS)

    def _copies(self) -> list[MemberCopy]:
        return [server.copy for server in self._servers.values() if server.copy is not None]

    async def _look_regularly(self) -> None:
        while True:
            with trio.move_on_after(LOOK_SECONDS_MAX):
                try:
                    await self._look()
                except JournalError as error:
                    self._failure, self._reader = error.message, None
                    self._known.set()
            await trio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """The log as those have it who answer; the image goes on from where it was."""
        copies = self._copies()
        if not copies:
            self._failure, self._reader = "no server answers", None
            return
        reader = self._reader
        if reader is None or list(reader.copies) != copies:
            reader = await open_reader(self.volume, copies)
            self.image = await reader.image(Now())
        else:
            await reader.refresh()
            async for record in reader.records(self.image.lsn, reader.acknowledged_lsn):
                self.image.apply_record(record)
        self._reader = reader
        self._pace.take(time.time(), reader.acknowledged_lsn)
        for member in reader.header.membership.members:
            self._servers.setdefault(member.address, AskedServer())
        self._known.set()

    # ---- what is shown

    def _members(self) -> list[dict[str, object]]:
        reader = self._reader
        if reader is None:
            return []
        rows, newest = [], reader.acknowledged_lsn
        for member in sorted(reader.header.membership.members, key=lambda one: one.address):
            server = self._servers.get(member.address, AskedServer())
            end = reader.chain.ends.get(member.address)
            lag = max(0, newest - end.lsn) if end else newest
            is_up = server.copy is not None
            standing = "has all" if is_up and not lag else "lacks the newest" if is_up else "does not answer"
            rows.append(
                {
                    "address": member.address,
                    "in_sync": is_up and not lag,
                    "standing": standing,
                    "lag_bytes": lag if is_up else 0,
                    "lag_seconds": round(self._pace.behind_seconds(newest - lag, time.time()), 1) if lag else 0.0,
                    "since_ms": self._since.of(member.address, standing, _now_ms()),
                    "problem": server.problem,
                }
            )
        return rows

    def _outlook(self) -> Outlook:
        if self._reader is None:
            return unknown(f"Unknown: {self._failure}.")
        whole = {str(row["address"]) for row in self._members() if row["in_sync"]}
        return outlook(
            [
                Quorum(
                    members=len(one.members),
                    needed=one.acknowledgements,
                    in_sync=sum(member.address in whole for member in one.members),
                )
                for one in self._reader.header.membership.configurations
            ]
        )

    def urgent(self) -> object:
        return [(address, server.copy is not None) for address, server in self._servers.items()], self._outlook()

    def live(self, sight: ViewerSight) -> dict[str, object]:
        volume: dict[str, object] = {
            "volume": self.volume,
            "owned": False,
            "outlook": self._outlook().as_json(),
            "members": self._members(),
        }
        if self._reader is not None:
            header, grown = self._reader.header, self._pace.bytes_per_day(time.time())
            volume |= {
                "epoch": header.epoch,
                "holder": header.holder.hex(),
                "acknowledgements": header.membership.configuration.acknowledgements,
                "acknowledged_lsn": self._reader.acknowledged_lsn,
                "log_bytes": self._reader.acknowledged_lsn - self._reader.chain.links[0].start,
                "files": self.image.tree.file_count,
                "live_bytes": sum(self.image.tree.live_bytes),
                **header.retention.as_json(),
                "bytes_per_day": None if grown is None else round(grown),
            }
        return {
            "kind": "servers",
            "version": version("sos-checkpoints"),
            "time_ms": _now_ms(),
            "started_ms": self._started_ms,
            "address": self._address,
            "volumes": [volume] if self.volume in sight.names else [],
        }

    @property
    def details_version(self) -> int:
        return self._details.version

    def details(self, sight: ViewerSight) -> dict[str, object]:
        seen = self.volume in sight.names and self._reader is not None
        return {"details": [self._details.as_json()] if seen else [], "events": []}

    async def refresh(self) -> None:
        self._last_look = trio.current_time()
        self._looked_at.set()
        with trio.move_on_after(LOOK_SECONDS_MAX):
            await self._known.wait()
        if self._reader is not None:
            await self._details.refresh()

    async def unready(self) -> str | None:
        await self.refresh()
        look = self._outlook()
        return None if look.may_lose >= 0 else look.sentence


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
