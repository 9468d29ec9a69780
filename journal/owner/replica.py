"""One task for each member: discover what it holds, fill it from the log, then send what is written as it is written.

Belongs here: connections to members while serving, what their refusals mean. What counts towards k is decided in
replica_progress.py, how a member is filled in member_filling.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from journal.copies.copies import MemberCopy
from journal.copies.member_filling import Filling, verified_bytes
from journal.copies.volume_reader import whole_snapshot
from journal.errors import FULL, DamagedJournalError, JournalError
from journal.owner.replica_progress import Standing
from sos_client.nurseries import background, ungrouped
from sos_client.retry import RetryPolicy
from sos_client.wire.errors import ErrorCode, RefusedError, SosError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.copies.copies import Copy
    from journal.owner.log import Log
    from journal.records.chain_rules import ChainLink
    from journal.records.membership import Member
    from journal.records.settings import JournalSettings, Surroundings
    from sos_client.append_stream import AppendStream
    from sos_client.client import SosClient

_BATCH_BYTES: Final = 1 << 20  # what one send takes from the tail: several frames, so that a slow member holds little
_WATCH_SECONDS: Final = 1.0
_DAMAGED_SECONDS: Final = 20.0  # between looks at a copy that is damaged: each reads a segment
_NEWER_CLAIM: Final = frozenset({ErrorCode.FENCED, ErrorCode.STALE_EPOCH})


class NotTheMemberError(SosError):
    """The server at the member's address, or the namespace on it, is another one: what the member held is lost."""


class LacksSnapshotError(SosError):
    """The member follows the log, but has not taken an index snapshot that members must hold."""


class Replica:
    """One member, for as long as this owner serves."""

    def __init__(
        self,
        member: Member,
        log: Log,
        *,
        volume: str,
        settings: JournalSettings,
        surroundings: Surroundings,
        doubtful: Sequence[ChainLink],
        sources: Callable[[], Sequence[Copy]],
        on_connected: Callable[[], object],
        on_fenced: Callable[[], None],
    ) -> None:
        self.member = member
        self.copy: MemberCopy | None = None  # while there is a connection: others may read from it
        self.client: SosClient | None = None
        self._given: frozenset[str] = frozenset()  # index snapshots that it was seen to hold when it was filled
        self.problem: str | None = None  # why the member does not follow, in words
        self._log = log
        self._volume = volume
        self._policy = RetryPolicy(pause_seconds_max=settings.pause_seconds_max)
        self._surroundings = surroundings
        self._events = surroundings.log
        self._doubtful = doubtful  # segments that were seen damaged here: the member counts when they are whole again
        self._sources = sources
        self._on_connected = on_connected
        self._on_fenced = on_fenced

    @property
    def is_in_sync(self) -> bool:
        return self._log.progress.members[self.member].standing is Standing.IN_SYNC

    async def run(self) -> None:
        """Follow until the member has a newer owner. Never raises but when it is cancelled."""
        failures = 0
        while True:
            before = self._log.progress.members[self.member].synced
            try:
                await self._converse()
            except RefusedError as error:
                if error.code in _NEWER_CLAIM:
                    self._fenced(error)
                    return
                self._lost(error)
            except DamagedJournalError as error:
                self._lost(error)
                await trio.sleep(_DAMAGED_SECONDS)
            except (SosError, JournalError) as error:
                self._lost(error)
            progressed = self._log.progress.members[self.member].synced > before
            failures = 1 if progressed else failures + 1
            await trio.sleep(self._policy.pause_seconds(failures, self._surroundings.chance.random()))

    async def _converse(self) -> None:
        with ungrouped():
            async with self._surroundings.open_member(self.member.address) as client:
                await self._serve(client)

    async def _serve(self, client: SosClient) -> None:
        await self._check_identity(client)
        await client.fence(self._volume, self._log.epoch, self._log.holder)
        self._log.granted.add(self.member)
        self.client, self.copy = client, MemberCopy(client, label=str(self.member), volume=self._volume)
        self._on_connected()
        try:
            await self._mend_doubtful(client)
            while True:
                self._log.progress.found(self.member)
                await self._follow_while_there_is_room(client)
        finally:
            self.client = self.copy = None

    async def _check_identity(self, client: SosClient) -> None:
        if client.server_identity != self.member.identity:
            raise NotTheMemberError(f"the server at {self.member} is another one than the volume's member")
        try:
            info = await client.use(self._volume)
        except RefusedError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise NotTheMemberError(f"{self.member} has lost the volume: replace the member") from error
            raise
        if info.incarnation != self.member.incarnation:
            raise NotTheMemberError(f"{self.member} has lost the volume and has a new one: replace the member")

    async def _mend_doubtful(self, client: SosClient) -> None:
        """Write again, beside it, what is damaged here. DamagedJournalError (LOST) as long as it is whole nowhere."""
        assert self.copy is not None
        filling = Filling(client, self._volume, epoch=self._log.epoch, holder=self._log.holder)
        for link in self._doubtful:
            assert link.end is not None
            try:
                async for _ in verified_bytes([self.copy], link, start=link.start, end=link.end):
                    pass
            except DamagedJournalError:
                await filling.write_again(link, end=link.end, copies=self._sources())
                await self.copy.list()  # which says from where it is to be read now
        self._doubtful = ()

    async def _follow_while_there_is_room(self, client: SosClient) -> None:
        """A member that is full takes nothing, but the connection stays: it is read from, and may have room soon."""
        try:
            await self._follow(client)
        except RefusedError as error:
            if error.code not in FULL:
                raise
            self._lost(error)
            await trio.sleep(self._policy.pause_seconds_max)

    async def _follow(self, client: SosClient) -> None:
        """Fill the member until it is so near the end that memory has the rest; then stream."""
        filling = Filling(client, self._volume, epoch=self._log.epoch, holder=self._log.holder)
        while True:
            link, size = await self._fill(filling)
            position = self._log.tail.index_at(link.start + size)
            if position is not None:
                await _Streaming(self, self._log, client, self._volume).run(link, size, *position)
            await trio.lowlevel.checkpoint()

    async def _fill(self, filling: Filling) -> tuple[ChainLink, int]:
        """Everything retained, up to what memory has; returns the segment at that point and its size on the member."""
        sizes = await filling.sizes()
        copies = [copy for copy in self._sources() if copy is not self.copy]
        self._given = await self._fill_snapshots(filling, sizes, copies)
        at = 0
        while True:
            link = self._log.links[at]
            size, sealed = sizes.get(link.segment, (0, False))
            stop = link.end if link.end is not None else max(self._log.tail.start, link.start)
            end = min(stop, self._log.tail.start)  # memory gives up more while the member is filled up to here
            if sealed and link.end is not None and link.start + size < link.end:  # by whoever knew another history
                await filling.write_again(link, end=link.end, copies=self._sources())
                size = link.end - link.start
            elif link.start + size < end:
                await filling.segment(link, size=size, end=end, copies=copies)
                size = end - link.start
            if link.end is None or link.start + size < link.end:
                return link, size
            if not sealed:
                await filling.seal(link.segment, size=size)
            at = self._index_behind(link)

    async def _fill_snapshots(
        self, filling: Filling, sizes: dict[str, tuple[int, bool]], copies: Sequence[Copy]
    ) -> frozenset[str]:
        """The index snapshots that stand for what was trimmed, checked; the names of those that the member has now."""
        given = set()
        for name, snapshot in list(self._log.progress.snapshots.items()):
            if sizes.get(name) != (snapshot.size, True):
                try:
                    data = await whole_snapshot(copies, name)
                except DamagedJournalError as error:
                    if not self._log.progress.drop(name, trim=max(self._log.segment.trim, self._log.segment.oldest)):
                        raise
                    self._events.error(
                        "a damaged index snapshot is done without: another one stands for it", error=str(error)
                    )
                    continue
                await filling.snapshot(name, data)
            given.add(name)
        return frozenset(given)

    def check_snapshots(self) -> None:
        """LacksSnapshotError if there is one that the member was not given: then it does not count until it has it."""
        missing = self._log.progress.missing_snapshots(self.member)
        if missing:
            raise LacksSnapshotError(f"{self.member} has not got the index snapshot {missing[0]}: it is given to it")

    def _index_behind(self, link: ChainLink) -> int:
        """The next segment; the chain may have been trimmed meanwhile, so it is found by its start."""
        assert link.end is not None
        return next(at for at, one in enumerate(self._log.links) if one.start >= link.end)

    def caught_up(self, synced: int) -> None:
        """The member holds the whole retained chain up to here."""
        self.problem = None
        progress = self._log.progress
        if synced < progress.members[self.member].synced:
            self._events.error(
                "a member had lost what it had acknowledged, and was filled again", member=self.member, after_lsn=synced
            )
        progress.caught_up(self.member, held_from=progress.trim, synced=synced, snapshots=self._given)
        self._log.advanced()

    def advanced(self, synced: int) -> None:
        """The member has synced up to here."""
        if self._log.progress.advanced(self.member, synced):
            self._log.advanced()

    def _lost(self, error: SosError | JournalError) -> None:
        problem = str(error)
        must_act = isinstance(error, NotTheMemberError | DamagedJournalError) and problem != self.problem
        if self.problem is None or must_act:  # often only a restart at first, and then it came back empty
            self._events.warning("a member does not follow", member=self.member, reason=problem)
        self.problem = problem
        self._log.progress.lost_contact(self.member)

    def _fenced(self, error: RefusedError) -> None:
        epoch, holder = error.fields.get("epoch"), error.fields.get("holder")
        self._log.progress.fenced(
            self.member,
            epoch=epoch if isinstance(epoch, int) else 0,
            holder=holder if isinstance(holder, bytes) else b"",
        )
        self.problem = str(error)
        self._events.warning("a member has a newer owner", member=self.member, reason=str(error))
        self._on_fenced()


class _Streaming:
    """One member that takes what is written, segment by segment, through one append each."""

    def __init__(self, replica: Replica, log: Log, client: SosClient, volume: str) -> None:
        self._replica = replica
        self._log = log
        self._client = client
        self._volume = volume
        self._skip = 0  # bytes of the next record that the member has already

    async def run(self, link: ChainLink, size: int, index: int, skip: int) -> None:
        """Until the member falls behind what memory has. Raises what ended the append."""
        self._skip = skip
        self._replica.caught_up(link.start + size)
        while True:
            behind, index = await self._segment(link, size, index)
            if behind:
                return
            link = next(one for one in self._log.links if one.start >= (link.start + 1))
            size = 0

    async def _segment(self, link: ChainLink, size: int, index: int) -> tuple[bool, int]:
        """One segment until it ends: (whether the member has fallen behind, position in the tail)."""
        async with (
            self._client.append(
                self._volume, link.segment, size=size, epoch=self._log.epoch, holder=self._log.holder, resume=False
            ) as stream,
            background() as nursery,
        ):
            stream.report(lambda synced: self._replica.advanced(link.start + synced))
            nursery.start_soon(_watch, stream, self._replica)
            behind, index = await self._send(stream, link, index)
            await stream.wait_synced()
        if not behind:
            filling = Filling(self._client, self._volume, epoch=self._log.epoch, holder=self._log.holder)
            await filling.seal(link.segment, size=stream.synced)
        return behind, index

    async def _send(self, stream: AppendStream, link: ChainLink, index: int) -> tuple[bool, int]:
        while True:
            try:
                batch, following = self._log.tail.take(index, _BATCH_BYTES)
            except LookupError:
                return True, index
            if batch is None:
                await self._log.grown.park()
            elif str(batch.segment.name) != link.segment:
                return False, index
            else:
                await stream.send(batch.data[self._skip :] if self._skip else batch.data)
                index, self._skip = following, 0


async def _watch(stream: AppendStream, replica: Replica) -> None:
    """Notice also when nothing is written that the member is gone, or somebody else's, or lacks an index snapshot."""
    while True:
        await trio.sleep(_WATCH_SECONDS)
        replica.check_snapshots()
        await stream.send(b"")
