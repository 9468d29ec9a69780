"""A volume that this process owns, as the page shows it: how its members stand, whether it could acknowledge now."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.volume_reader import open_reader
from journal.errors import JournalError
from journal.records.shards import parse_shard
from journal.web.outlook import Quorum, outlook
from sos_client.web.sampling import LogPace, Since
from sos_client.wire.errors import SosError
from sos_client.wire.holders import shown_holder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from journal.copies.volume_reader import VolumeReader
    from journal.files.plain_directory import PlannedFile
    from journal.image.image import Image
    from journal.owner.journal import Journal
    from journal.owner.replica import Replica
    from journal.volume import FileStatus
    from journal.web.outlook import Outlook

PING_SECONDS: Final = 1.0
"""A member that does not answer so soon could not acknowledge now, whatever was known of it before."""


class OwnedView:
    """Its tree and content, for whoever looks through a query. Implements TreeView."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def walk(self, path: str) -> AsyncIterator[FileStatus]:
        for status in list(self._journal.acknowledged.tree.walk(path)):  # as it is before the first wait
            yield status

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        return self._journal.read(path, offset, length)

    def groups(self, files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
        return [[file] for file in files]

    async def read_group(self, files: Sequence[PlannedFile]) -> list[bytes]:
        return [b"".join([piece async for piece in self.read(file.status.path)]) for file in files]


class OwnedVolumeStatus:
    """For as long as this process owns the volume. Implements VolumeSource."""

    def __init__(self, journal: Journal, *, place: str, is_busy: Callable[[], bool]) -> None:
        self.journal = journal
        self.place = place
        self.is_busy = is_busy
        self._view = OwnedView(journal)
        self.pace = LogPace()
        self._since = Since()
        self._shard = parse_shard(journal.name)

    @property
    def volume(self) -> str:
        return self.journal.name

    @property
    def image(self) -> Image:
        return self.journal.acknowledged

    async def whole(self) -> tuple[Image, OwnedView]:
        await trio.lowlevel.checkpoint()
        return self.image, self._view

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[VolumeReader]:
        """Of the copy beside this service; of the members' where that has not all."""
        local = self.journal.local.copy
        if local is not None:
            try:
                reader = await open_reader(self.volume, [local])
            except JournalError:
                pass
            else:
                if not reader.chain.is_part:
                    yield reader
                    return
        yield await open_reader(self.volume, self.journal.replicas.sources())

    def take(self, now: float) -> None:
        """Every second."""
        self.pace.take(now, self.journal.log.end)
        self.members(now)  # which notes since when each is as it is

    @property
    def gap_bytes(self) -> int:
        return self.journal.log.end - self.journal.acknowledged_lsn

    @property
    def stuck_seconds(self) -> float:
        """How long the oldest write that is not acknowledged has waited."""
        return self.pace.behind_seconds(self.journal.acknowledged_lsn, time.time()) if self.gap_bytes else 0.0

    def outlook(self) -> Outlook:
        progress = self.journal.log.progress
        counting = set(progress.counting())
        quorums = [
            Quorum(
                members=len(one.members), needed=one.acknowledgements, in_sync=len(counting.intersection(one.members))
            )
            for one in progress.membership.configurations
        ]
        return outlook(quorums, stuck_seconds=self.stuck_seconds)

    def live(self) -> dict[str, object]:
        journal, now = self.journal, time.time()
        statistics = journal.statistics()
        grown = self.pace.bytes_per_day(now)
        return {
            "volume": journal.name,
            **({} if self._shard is None else {"shard_of": self._shard.volume}),
            "owned": True,
            "outlook": self.outlook().as_json(),
            "epoch": journal.epoch,
            "holder": shown_holder(journal.holder).hex(),
            "acknowledgements": journal.log.segment.membership.configuration.acknowledgements,
            "members": self.members(now),
            "written_lsn": statistics.written_lsn,
            "acknowledged_lsn": statistics.acknowledged_lsn,
            "log_bytes": statistics.written_lsn - journal.log.links[0].start,
            "files": statistics.files,
            "live_bytes": sum(journal.acknowledged.tree.live_bytes),
            "tree_bytes": statistics.tree_bytes,
            "tree_bytes_max": journal.settings.tree_bytes_max,
            **journal.housekeeping.retention.as_json(),
            "bytes_per_day": None if grown is None else round(grown),
        }

    def members(self, now: float) -> list[dict[str, object]]:
        progress, rows = self.journal.log.progress, []
        counting = set(progress.counting())
        for one in sorted(self.journal.replicas.status(), key=lambda one: one.member.address):
            counts = one.member in counting
            behind = 0.0 if counts and not one.lag_bytes else self.pace.behind_seconds(one.synced, now)
            rows.append(
                {
                    "address": one.member.address,
                    "in_sync": counts,
                    "standing": one.standing.value,
                    "lag_bytes": one.lag_bytes,
                    "lag_seconds": round(behind, 1),
                    "since_ms": self._since.of(one.member, (one.standing, counts), int(now * 1000)),
                    "problem": one.problem or "",
                }
            )
        return rows

    def urgent(self) -> object:
        """What a page must be told at once."""
        return self.outlook(), tuple((one.standing, one.problem) for one in self.journal.replicas.status())

    async def unready(self) -> str | None:
        """Asks the members that count: who was stopped or cut off a moment ago is found out only so."""
        look = self.outlook()
        if look.may_lose < 0:
            return look.sentence
        progress = self.journal.log.progress
        counting = set(progress.counting())
        asked = [one for one in self.journal.replicas.replicas.values() if one.member in counting]
        answered = []

        async def ask(replica: Replica) -> None:
            try:
                if replica.client is not None:
                    await replica.client.ping()
                    answered.append(replica.member)
            except SosError:
                pass

        with trio.move_on_after(PING_SECONDS):
            async with trio.open_nursery() as nursery:
                for replica in asked:
                    nursery.start_soon(ask, replica)
        if progress.is_durable_on(answered):
            return None
        return f"{len(answered)} of {len(progress.members)} machines answer within {PING_SECONDS:g} s, which is too few"
