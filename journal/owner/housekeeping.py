"""What an owner does beside writing: index snapshots at each roll, trimming, copying forward, deleting.

Belongs here: the background task and its order: a trim is written, then carried by an acknowledged segment header, and
only then is anything deleted. Until a header is written a pin may still undo the trim; from then on older moments
cannot be pinned: both are decided where that header stands in the log, for this owner and for the next. What may go is
retention.py's to say. Nothing here holds up a write: what fails is tried again at the next roll.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from journal.copies.member_filling import Filling
from journal.errors import JournalError
from journal.image import nodes
from journal.image.index_snapshot import SnapshotObject, encode_snapshot, name_of_snapshot
from journal.image.nodes import Extent
from journal.owner import retention as rules
from journal.owner.earlier_snapshots import earlier_boundaries, references_of, with_references
from journal.owner.retention import Boundary
from journal.records.change import RelocateChange, TrimChange
from journal.records.record import Lsn
from journal.volume import VolumeDescription
from sos_client.nurseries import beside
from sos_client.wire.errors import ErrorCode, RefusedError, SosError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from journal.copies.local_log import LocalLog
    from journal.image.image import Image
    from journal.kept_past import Retention
    from journal.owner.content import Content
    from journal.owner.log import Log
    from journal.owner.replica import Replica
    from journal.owner.replica_set import ReplicaSet
    from journal.records.settings import JournalSettings
    from sos_client.serving.event_log import EventLog

_WAITING_MAX: Final = 2  # rolls whose images wait: each is a copy of the tree, and a later one makes up for an earlier
_LOOK_SECONDS: Final = 10.0  # how often it is seen whether a segment has become old
_TELL_AGAIN_SECONDS: Final = 600.0
_UNCLEANED: Final = "what retention has given up stays there and fills the disk; the token needs the right delete"
_JUMPED: Final = (
    "times of files go on as if it had not, and come nearer to it by half of the time that passes from now on; nothing "
    "grows old by it; set the clock right if it is wrong now"
)


class Housekeeping:
    """One task for one journal."""

    def __init__(
        self,
        volume: str,
        *,
        log: Log,
        pending: Image,
        shown: Image,
        local: LocalLog,
        replicas: ReplicaSet,
        content: Content,
        settings: JournalSettings,
        events: EventLog,
        write: Callable[..., object],
        roll: Callable[[], None],
    ) -> None:
        """`write` adds a record to the log, `roll` begins its next segment; `shown` is the acknowledged image."""
        self._volume = volume
        self._log = log
        self._pending = pending
        self._shown = shown
        self._local = local
        self._replicas = replicas
        self._content = content
        self._settings = settings
        self._events = events
        self._write = write
        self._roll = roll
        self.uncleaned_members: set[str] = set()
        """Addresses where what retention has given up could not be deleted the last time."""
        self._uncleaned: dict[tuple[str, str], tuple[float, int]] = {}  # when it was told last, how often since
        self._proposed = 0, 0  # how far the next header may trim, and the moment whose image that rests on
        self._boundaries: dict[int, Boundary] = {}  # where images can be had from
        self._step = 0, 0, 0  # what a segment was begun for while nothing was written
        self._last_end = 0  # where the log ended at the last look
        self._looked_back = False
        self._looking_back = trio.Lock()
        self._last: SnapshotObject | None = None
        self._last_lsn = 0
        self._last_first_needed = 0  # where the log could begin by the last index snapshot
        self._waiting: deque[tuple[Image, int]] = deque(maxlen=_WAITING_MAX)
        self._rolled = trio.lowlevel.ParkingLot()
        most, retained = settings.segment_bytes_max, self.retention.bytes
        self.segment_bytes_max = min(most, max(retained // 8, 1)) if retained else most

    @property
    def retention(self) -> Retention:
        """What this owner was told, else what the volume was made with."""
        told = self._settings.retention
        return told if told.is_limited else self._log.segment.retention

    def description(self) -> VolumeDescription:
        """What is to be known for reading the log."""
        return VolumeDescription(
            servers=tuple(member.address for member in self._log.segment.membership.members),
            retention=self.retention,
        )

    def start(self, nursery: trio.Nursery) -> None:
        """Work until the nursery is cancelled."""
        nursery.start_soon(self._run)
        nursery.start_soon(self._grow_old)

    def segment_opened(self, image: Image, lived_ms: int) -> None:
        """The acknowledged image has come to where a segment begins: a copy of it, for housekeeping alone.

        `lived_ms`: when that was, as its header says it: to every owner the same, and never before the truth.
        """
        self._waiting.append((image, lived_ms))
        self._rolled.unpark_all()

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                await self._rolled.park()
            image, lived_ms = self._waiting.popleft()
            try:
                await self._deal_with(image, lived_ms)
            except (SosError, JournalError) as error:
                self._events.warning("housekeeping is put off", lsn=image.lsn, error=str(error))

    async def _grow_old(self) -> None:
        """A volume in which little is written rolls by time, too: else its past would never end. Watch the clock."""
        log, seconds = self._log, self.retention.seconds
        apart_ms = log.clock_jump_ms()
        if apart_ms < 0:  # it was set back, or more than 1,000 records a second were written just before
            self._events.error(
                "the volume's clock is ahead of this machine's, and waits for it", seconds=-apart_ms / 1000
            )
        elif apart_ms:
            self._events.error(
                "this machine's clock is ahead of most servers'", seconds=apart_ms / 1000, meaning=_JUMPED
            )
        while True:
            await trio.sleep(_LOOK_SECONDS)
            await self._look_back_early()
            jump_ms = log.clock_jump_ms()
            if jump_ms:
                self._events.error("the wall clock jumped", seconds=jump_ms / 1000, meaning=_JUMPED)
            age_ms = log.lived_ms() - log.segment_lived_ms
            quiet = log.has_content and log.acknowledged.lsn == log.end and not log.acknowledged.stopped
            is_old = seconds and age_ms >= seconds * 1000 // 4
            if self._may_forget() or (quiet and (is_old or log.may_step)):
                self._roll()

    def _may_forget(self) -> bool:
        """Whether a volume in which nothing has been written since the last look has a past that a segment could end.

        Once for each step towards that: what does not come to its end so waits for a segment that is begun anyway.
        """
        log, past = self._log, self._horizon(self.retention)
        idle, self._last_end = log.end == self._last_end == log.acknowledged.lsn, log.end
        if not idle or log.acknowledged.stopped or past is None or past.lsn <= log.segment.oldest:
            return False
        step, self._step = self._step, (past.lsn, *self._proposed)
        return step != self._step

    async def _deal_with(self, image: Image, lived_ms: int) -> None:
        first_needed = rules.first_needed(self._log.links, image.lsn, references_of(image))
        grown, freed = image.lsn - self._last_lsn, first_needed - self._last_first_needed
        is_due = rules.is_snapshot_due(self._last, grown=grown, freed=freed if self.retention.is_limited else 0)
        if is_due and await self._store_snapshot(image, lived_ms):
            self._last_first_needed = first_needed
        if not self.retention.is_limited:
            return
        await self._look_back()
        header = self._shown.segment
        settled = None if header is None else self._boundaries.get(header.oldest)
        if settled is not None:
            await self._delete(settled)
        early = self._horizon(self.retention.third)
        past = await self._resolved(self._horizon(self.retention))
        if early is not None:
            log, live = self._log, image.tree.objects_in_use()
            chosen = rules.to_relocate(log.links, early, past, end=log.end, live=live)
            await self._relocate(image, {link.segment for link in chosen})
        if past is not None and past.lsn <= self._pinned():
            target = rules.trim_target(self._log.links, past)
            self._propose(target, past)

    def _propose(self, trim: int, past: Boundary) -> None:
        trim = max(trim, self._log.segment.trim)
        if trim:
            if trim > self._pending.trim:
                self._write(TrimChange(lsn=Lsn(trim)))
            self._proposed = trim, past.lsn

    def settled(self) -> dict[str, int]:
        """What the header that is written now says of the past: what was proposed, unless a pin has come since.

        A trim that an earlier owner has proposed does not count: what it rests on is not known. Nor does one for whose
        oldest moment a member that counts lacks the index snapshot.
        """
        header, (trim, oldest) = self._log.segment, self._proposed
        stands = self._log.progress.may_trim(oldest)
        if not stands or oldest <= header.oldest or trim > self._shown.trim or oldest > self._pinned():
            trim, oldest = header.trim, header.oldest
        return {"trim": trim, "oldest": oldest}

    async def _look_back(self) -> None:
        """Once: what earlier owners have left."""
        async with self._looking_back:
            if self._looked_back:
                return
            earlier, holding = await earlier_boundaries(self._log, self._replicas)
            self._boundaries = earlier | self._boundaries
            for boundary in earlier.values():
                self._log.progress.keep(boundary.snapshot, holding[boundary.lsn])
            self._looked_back = True

    async def _look_back_early(self) -> None:
        """Without waiting for a roll: a member that was filled since is given what stands for older moments, too."""
        if self._looked_back or not self._log.progress.has_quorum():
            return
        try:
            await self._look_back()
        except (SosError, JournalError) as error:
            self._events.warning("what earlier owners have left could not be looked at", error=str(error))

    async def _resolved(self, boundary: Boundary | None) -> Boundary | None:
        if boundary is None:
            return None
        resolved = await with_references(boundary, self._replicas.sources())
        if resolved is None:
            del self._boundaries[boundary.lsn]
        else:
            self._boundaries[boundary.lsn] = resolved
        return resolved

    def _horizon(self, retention: Retention) -> Boundary | None:
        log, pinned = self._log, [self._pinned()]
        return rules.horizon(
            self._boundaries.values(), end=log.end, lived_ms=log.lived_ms(), retention=retention, pinned=pinned
        )

    def _pinned(self) -> int:
        """The oldest moment that somebody keeps; the log's end if nobody does.

        Asked again after each wait: a pin that came meanwhile counts.
        """
        log = self._log
        pins, lived_ms, paused_ms = self._pending.pins.values(), log.lived_ms(), log.segment.paused_ms
        return min((pin.lsn for pin in pins if pin.expires_ms - paused_ms > lived_ms), default=log.end)

    # ---- index snapshots

    async def _store_snapshot(self, image: Image, lived_ms: int) -> bool:
        """Write the image beside the segments, here and on every member that answers; whether enough have taken it."""
        name = str(name_of_snapshot(image, epoch=self._log.segment.epoch))
        data = await beside(image.item_count, lambda: encode_snapshot(image))
        await self._local.store(name, data)
        holding = [replica.member for replica in self._connected() if await self._give(replica, name, data)]
        snapshot = SnapshotObject(name=name, size=len(data))
        if not self._log.progress.is_durable_on(holding):
            return False
        self._last, self._last_lsn = snapshot, image.lsn
        self._log.progress.keep(snapshot, holding)
        self._boundaries[image.lsn] = Boundary(
            lsn=image.lsn, lived_ms=lived_ms, snapshot=snapshot, references=references_of(image)
        )
        return True

    async def _give(self, replica: Replica, name: str, data: bytes) -> bool:
        filling = self._filling(replica)
        if filling is None:
            return False
        try:
            await filling.snapshot(name, data)
        except (SosError, JournalError) as error:
            self._events.warning(
                "a member has not taken an index snapshot", member=replica.member, object=name, error=str(error)
            )
            return False
        return True

    # ---- trimming and deleting

    async def _delete(self, past: Boundary) -> None:
        """What lies before the trim that the last acknowledged header carries goes, and index snapshots not needed."""
        log = self._log
        assert self._shown.segment is not None
        trim = self._shown.segment.trim
        if trim > log.progress.trim:
            log.progress.trimmed(trim)
            log.drop_before(trim)
        if not trim:
            return
        self._boundaries = {lsn: one for lsn, one in self._boundaries.items() if lsn >= past.lsn}
        kept = [name for name, one in log.progress.snapshots.items() if one.lsn >= past.lsn]
        if not kept:
            return
        log.progress.keep_only(kept)
        for name in rules.superfluous(await self._local.names(), log.links, kept, trim=past.lsn):
            await self._local.forget(name)
        for replica in self._connected():
            if log.progress.missing_snapshots(replica.member):
                continue  # what it has of the past is all that it has
            try:
                await self._delete_on(replica, kept, past.lsn)
            except (SosError, JournalError) as error:
                self.uncleaned_members.add(replica.member.address)
                self._tell_uncleaned(replica.member.address, str(error))
            else:
                self.uncleaned_members.discard(replica.member.address)

    def _tell_uncleaned(self, member: str, error: str) -> None:
        """Each segment would say it again: the first time, and once in a while how often since."""
        told, since = self._uncleaned.get((member, error), (-_TELL_AGAIN_SECONDS, 0))
        if trio.current_time() - told < _TELL_AGAIN_SECONDS:
            self._uncleaned[member, error] = told, since + 1
            return
        self._uncleaned[member, error] = trio.current_time(), 0
        self._events.warning(
            "a member could not be cleaned", member=member, error=error, again=since, meaning=_UNCLEANED
        )

    async def _delete_on(self, replica: Replica, kept: list[str], before: int) -> None:
        filling = self._filling(replica)
        if filling is None:
            return
        sizes = await filling.sizes()
        for name in rules.superfluous(sizes, self._log.links, kept, trim=before):
            try:
                await filling.delete(name)
            except RefusedError as error:
                if error.code is not ErrorCode.RETAINED:  # the server keeps it for longer than the volume asks
                    raise

    # ---- copying forward

    async def _relocate(self, image: Image, segments: set[str]) -> None:
        """Write live content of these segments once more at the end of the log."""
        if not segments:
            return
        for path, extent in await beside(image.item_count, lambda: list(_extents_in(image, segments))):
            data = await self._content.extent(extent)
            await self._log.wait_room()
            self._write(RelocateChange(path=path, object=extent.object, offset=extent.offset), data)
            await self._log.acknowledged.wait(self._log.end)  # one at a time: writers come first

    def _connected(self) -> list[Replica]:
        return [one for one in self._replicas.connected() if one.is_in_sync]

    def _filling(self, replica: Replica) -> Filling | None:
        if replica.client is None:
            return None
        log = self._log
        return Filling(replica.client, self._volume, epoch=log.epoch, holder=log.holder)


def _extents_in(image: Image, segments: set[str]) -> Iterator[tuple[str, Extent]]:
    """(path, extent) of all content in some segments."""
    for path, node in nodes.walk("", image.tree.root):
        if not isinstance(node, nodes.Directory):
            for number, offset, length, crc in nodes.extents_of(node):
                segment = image.tree.objects[number]
                if segment in segments:
                    yield path, Extent(object=segment, offset=offset, length=length, crc=crc)
