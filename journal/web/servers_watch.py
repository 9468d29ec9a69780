"""One journal as its servers have it, looked at while somebody wants to know: connections, log, tree, members.

Belongs here: one connection to each member. Nothing is written, nobody is fenced; whether a service writes at this
moment is not known here. Of a volume that is spread there is one of these for each shard.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.volume_reader import open_reader
from journal.errors import JournalError
from journal.image.image import Image
from journal.records.moments import Now
from journal.web.outlook import Quorum
from sos_client.nurseries import first_of
from sos_client.web.sampling import LogPace, Since
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.copies.copies import MemberCopy
    from journal.copies.volume_reader import VolumeReader

    OpenCopy = Callable[[str], AbstractAsyncContextManager[MemberCopy]]

ASK_SECONDS: Final = 0.4
"""Between two questions to each server, so that one that died is shown within two seconds."""
ANSWER_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
LOOK_SECONDS_MAX: Final = 10.0


@dataclass(slots=True)
class AskedServer:
    """One server: the copy while it answers, else why not."""

    copy: MemberCopy | None = None
    problem: str = "not asked yet"


class ServersWatch:
    """`watch` for as long as somebody looks; what was found last is there in between."""

    def __init__(self, volume: str, servers: Sequence[str], *, open_copy: OpenCopy) -> None:
        self.volume = volume
        self.image = Image()
        self.known = trio.Event()
        """Looked once, whatever was found."""
        self.reader: VolumeReader | None = None
        self.failure = "the servers have not been asked yet"
        self._open_copy = open_copy
        self._servers: dict[str, AskedServer] = {address: AskedServer() for address in servers}
        self._pace = LogPace()
        self._since = Since()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[VolumeReader]:
        """A reader of what those have who answer now."""
        yield await open_reader(self.volume, self._copies())

    async def watch(self) -> None:
        """Ask the servers until cancelled."""
        async with trio.open_nursery() as nursery:
            asked: set[str] = set()
            nursery.start_soon(self._look_regularly)
            while True:
                for address in self._servers.keys() - asked:
                    asked.add(address)
                    nursery.start_soon(self._ask, address)
                await trio.sleep(ASK_SECONDS)

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
                    self.failure, self.reader = error.message, None
                    self.known.set()
            await trio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """The log as those have it who answer; the image goes on from where it was."""
        copies = self._copies()
        if not copies:
            self.failure, self.reader = "no server answers", None
            return
        reader = self.reader
        if reader is None or list(reader.copies) != copies:
            reader = await open_reader(self.volume, copies)
            self.image = await reader.image(Now())
        else:
            await reader.refresh()
            async for record in reader.records(self.image.lsn, reader.acknowledged_lsn):
                self.image.apply_record(record)
        self.reader = reader
        self._pace.take(time.time(), reader.acknowledged_lsn)
        for member in reader.header.membership.members:
            self._servers.setdefault(member.address, AskedServer())
        self.known.set()

    # ---- what is shown

    def answering(self) -> object:
        """Which servers answer; to be compared."""
        return [(address, server.copy is not None) for address, server in self._servers.items()]

    def members(self) -> list[dict[str, object]]:
        reader = self.reader
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
                    "since_ms": self._since.of(member.address, standing, now_ms()),
                    "problem": server.problem,
                }
            )
        return rows

    def quorums(self) -> list[Quorum]:
        """Of each configuration that counts; none while the log cannot be read."""
        if self.reader is None:
            return []
        whole = {str(row["address"]) for row in self.members() if row["in_sync"]}
        return [
            Quorum(
                members=len(one.members),
                needed=one.acknowledgements,
                in_sync=sum(member.address in whole for member in one.members),
            )
            for one in self.reader.header.membership.configurations
        ]

    def live(self) -> dict[str, object]:
        """What the log says of itself; nothing while it cannot be read."""
        if self.reader is None:
            return {}
        header, grown = self.reader.header, self._pace.bytes_per_day(time.time())
        return {
            "epoch": header.epoch,
            "holder": header.holder.hex(),
            "acknowledgements": header.membership.configuration.acknowledgements,
            "acknowledged_lsn": self.reader.acknowledged_lsn,
            "log_bytes": self.reader.acknowledged_lsn - self.reader.chain.links[0].start,
            "files": self.image.tree.file_count,
            "live_bytes": sum(self.image.tree.live_bytes),
            **header.retention.as_json(),
            "bytes_per_day": None if grown is None else round(grown),
        }


def now_ms() -> int:
    return time.time_ns() // 1_000_000
