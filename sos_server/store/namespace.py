"""A namespace as its clients see it: claims, appenders, seals, deletes, and reads of what is synced.

Here is decided who may change what, and in which order. All that a change needs is checked without an await before
its row or bytes go into the batch, so rows lie in the log in the order in which they were decided. Everything is
refused with RefusedError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.limits import EPOCHS_AHEAD_MAX
from sos_client.wire.messages import ObjectInfo
from sos_client.wire.names import check_name
from sos_server.objects.object_files import fresh_memory
from sos_server.storage.contents import Claim, StoredNamespace, StoredObject
from sos_server.storage.rows import Claimed, EpochRaised, ObjectDeleted, ObjectMade, ObjectSealed
from sos_server.store.appender import Appender
from sos_server.store.counting import check_one_more_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.objects.object_files import VerifiedBytes
    from sos_server.store.object_store import ObjectStore

__all__ = ["Appender", "Claim", "Namespace"]

READ_BYTES_MAX: Final = 1 << 20


class Namespace:
    """One per name and store. `name`, `incarnation` and `claim` are what is durable."""

    def __init__(self, stored: StoredNamespace, store: ObjectStore) -> None:
        self._stored = stored
        self._store = store
        self._fencing = trio.Lock()
        self._coming_claim: Claim | None = None
        """A claim on its way to the disk: the one before already counts for nothing."""

    @property
    def name(self) -> str:
        return self._stored.name

    @property
    def incarnation(self) -> bytes:
        return self._stored.incarnation

    @property
    def claim(self) -> Claim | None:
        return self._stored.claim

    @property
    def used_bytes(self) -> int:
        """What a quota counts: synced bytes and those on their way."""
        return self._stored.used_bytes

    async def fence(self, claim: Claim, *, still_allowed: Callable[[], object] = lambda: None) -> None:
        """Make `claim` the current one. What older appenders sent is synced or dropped when this returns.

        Here and below, `still_allowed` is called after the last wait before the change; what it raises refuses it.
        """
        async with self._fencing:
            still_allowed()
            current = self._stored.claim
            if current == claim:
                return
            if current is None and claim.epoch == 0:
                sentence = "the namespace was never claimed, which is epoch 0; a claim needs a greater epoch"
                raise RefusedError(ErrorCode.STALE_EPOCH, sentence, epoch=0, holder=b"")
            if current is not None and claim.epoch <= current.epoch:
                raise RefusedError(ErrorCode.STALE_EPOCH, epoch=current.epoch, holder=current.holder)
            self._check_reach(claim)
            self._coming_claim = claim
            try:
                for stored in [*self._stored.objects.values(), *self._stored.making.values()]:
                    if isinstance(stored.appender, Appender):
                        stored.appender.evict(_fenced(claim))
                await self._store.commit(Claimed(self._stored.number, claim.epoch, claim.holder))
            finally:
                self._coming_claim = None

    def _check_reach(self, claim: Claim) -> None:
        """Refuse an epoch that leaves too few for those who come after, whatever the present one is.

        A claim must be able to follow on all servers that one of them was given, in one step.
        """
        epoch, holder = (self._stored.claim.epoch, self._stored.claim.holder) if self._stored.claim else (0, b"")
        last = int(self._store.wall_clock()) + EPOCHS_AHEAD_MAX
        if claim.epoch > last:
            sentence = f"epoch {claim.epoch} is too far ahead of this server's clock: {last} is the last for now"
            raise RefusedError(ErrorCode.STALE_EPOCH, sentence, epoch=epoch, holder=holder)

    async def start_append(
        self,
        object_name: str,
        *,
        size: int,
        prefix_crc: int | None,
        claim: Claim | None,
        instance: bytes,
        on_progress: Callable[[], None],
        on_evicted: Callable[[RefusedError], None],
        still_allowed: Callable[[], object] = lambda: None,
    ) -> Appender:
        """The right to append to an object (made when absent) that has exactly `size` bytes.

        A predecessor is evicted, and what it sent synced or dropped, when the caller may do that: under the current
        claim, or, in a namespace never claimed, when it is of the same client instance. `on_progress` is called after
        each commit that advanced the appender, `on_evicted` at most once.
        """
        check_name(object_name)
        self._check_claim(claim)
        if (stored := self._stored.objects.get(object_name) or self._stored.making.get(object_name)) is not None:
            await self._displace(stored, instance)
            still_allowed()
            self._check_claim(claim)
            stored = self._stored.objects.get(object_name) or self._stored.making.get(object_name)
        self._check_room(size)
        if stored is None:
            stored = self._make(object_name, size)
        else:
            self._check_appendable(stored, size, prefix_crc)
        stored.appender = appender = Appender(
            stored,
            self._store.log,
            self._store.space,
            self._store.runs,
            instance=instance,
            quota_bytes=self._store.settings.quota_for(self.name),
            on_progress=on_progress,
            on_evicted=on_evicted,
        )
        return appender

    async def seal(
        self, object_name: str, *, size: int, claim: Claim | None, still_allowed: Callable[[], object] = lambda: None
    ) -> ObjectInfo:
        """Make the object immutable at exactly `size` bytes. Sealing it again at the same size changes nothing."""
        self._check_claim(claim)
        stored = self._find(object_name)
        await self._displace(stored, None)
        still_allowed()
        self._check_claim(claim)
        stored = self._find(object_name)
        if stored.size != size or stored.appender is not None:
            raise _wrong_size(stored)
        if stored.sealed_time is None:
            stored.seals_coming += 1
            try:
                now = self._store.wall_clock()
                await self._store.commit(ObjectSealed(stored.number, stored.size, stored.crc, now))
            finally:
                stored.seals_coming -= 1
        return self._info(stored)

    async def delete(self, object_name: str, *, claim: Claim | None) -> None:
        """Remove a sealed object whose retention is over."""
        self._check_claim(claim)
        stored = self._find(object_name)
        if stored.sealed_time is None:
            raise RefusedError(ErrorCode.NOT_SEALED, size=stored.size)
        now = self._store.wall_clock()
        remaining = stored.sealed_time + self._store.settings.retention_seconds - now
        if remaining > 0:
            raise RefusedError(ErrorCode.RETAINED, seconds=int(remaining) + 1, server_time=int(now))
        await self._store.commit(ObjectDeleted(stored.number))

    def number_and_size(self, object_name: str) -> tuple[int, int]:
        """Which object has this name now (the number is never that of another one), and its synced bytes."""
        stored = self._find(object_name)
        return stored.number, stored.size

    def stat(self, object_name: str) -> ObjectInfo:
        """What is known of the object, synced bytes only."""
        return self._info(self._find(object_name))

    def list(self, after: str, limit: int) -> list[ObjectInfo]:
        """The first `limit` objects whose names come after `after`, in order of name."""
        return [self._info(stored) for stored in self._stored.page(after, limit)]

    async def read(
        self, object_name: str, offset: int, length: int, memory: Callable[[int], memoryview] = fresh_memory
    ) -> VerifiedBytes:
        """Up to `length` (at most 1 MiB) of the synced bytes from `offset` on, and their CRC; fewer where they end.

        They may lie in what `memory` gives, and are good as long as that is.
        RANGE when `offset` is beyond them, DAMAGED (with the offset) when bytes are not those that were stored.
        """
        stored = self._find(object_name)
        if offset > stored.size:
            raise RefusedError(ErrorCode.RANGE, size=stored.size)
        length = min(length, READ_BYTES_MAX, stored.size - offset)
        return await self._store.reader.read(stored, offset, length, memory)

    async def wait_growth(self, object_name: str, beyond: int) -> None:
        """Return when the object has more than `beyond` synced bytes, is sealed, or is gone (NOT_FOUND)."""
        while True:
            stored = self._find(object_name)
            if stored.size > beyond or stored.sealed_time is not None:
                return
            if not isinstance(stored.growth, trio.Event):
                stored.growth = trio.Event()
            await stored.growth.wait()

    def _find(self, object_name: str) -> StoredObject:
        check_name(object_name)
        if (stored := self._stored.objects.get(object_name)) is None:
            raise RefusedError(ErrorCode.NOT_FOUND, what="object", name=object_name)
        return stored

    def _make(self, object_name: str, size: int) -> StoredObject:
        """A new object, its row in the batch before any of its bytes, so that its name is durable when they are."""
        if size:
            raise RefusedError(ErrorCode.WRONG_SIZE, size=0, crc=0, epoch=0)
        check_one_more_object(self._stored, self._store.contents, self._store.settings)
        epoch = self._stored.claim.epoch if self._stored.claim is not None else 0
        number = self._store.contents.take_number()
        stored = StoredObject(number, self._stored, object_name, epoch)
        self._store.log.submit(ObjectMade(number, self._stored.number, object_name, epoch))
        self._store.contents.expect(stored)
        return stored

    def _check_claim(self, claim: Claim | None) -> None:
        current = self._coming_claim or self._stored.claim
        if current is not None and claim != current:
            raise _fenced(current)
        if current is None and claim is not None:
            raise RefusedError(ErrorCode.FENCED, "the namespace was never claimed; FENCE it first", epoch=0, holder=b"")

    def _check_room(self, size: int) -> None:
        space = self._store.space
        if self._store.log.broken is not None:
            raise self._store.log.broken
        if space.full:
            raise space.refusal()
        quota = self._store.settings.quota_for(self.name)
        if quota is not None and self._stored.used_bytes >= quota:
            raise RefusedError(ErrorCode.QUOTA, used=self._stored.used_bytes, quota=quota)

    def _check_appendable(self, stored: StoredObject, size: int, prefix_crc: int | None) -> None:
        if stored.appender is not None:
            raise RefusedError(ErrorCode.BUSY, object=stored.name)
        if stored.sealed_time is not None or stored.seals_coming:
            raise RefusedError(ErrorCode.SEALED, size=stored.size, crc=stored.crc, epoch=stored.epoch)
        if stored.read_only is not None:
            raise RefusedError(ErrorCode.IO_ERROR, reason=stored.read_only)
        if size != stored.size:
            raise _wrong_size(stored)
        if prefix_crc is not None and prefix_crc != stored.crc:
            raise RefusedError(ErrorCode.WRONG_PREFIX, size=stored.size, crc=stored.crc, epoch=stored.epoch)
        claim = self._stored.claim
        if claim is not None and claim.epoch > stored.epoch:
            self._store.log.submit(EpochRaised(stored.number, claim.epoch))

    async def _displace(self, stored: StoredObject, instance: bytes | None) -> None:
        """Evict the object's appender if this caller may, and wait until what was sent is synced or dropped."""
        appender = stored.appender
        if isinstance(appender, Appender):
            if self._stored.claim is None and appender.instance != instance:
                raise RefusedError(ErrorCode.BUSY, object=stored.name)
            appender.evict(RefusedError(ErrorCode.BUSY, "a newer append took this one's place", object=stored.name))
        if stored.unsynced_bytes:
            await self._store.log.flush()

    def _info(self, stored: StoredObject) -> ObjectInfo:
        return ObjectInfo(
            name=stored.name,
            size=stored.size,
            sealed=stored.sealed_time is not None,
            epoch=stored.epoch,
            crc=stored.crc,
            server_time=self._store.wall_clock(),
            cut_bytes=stored.cut_bytes,
            damaged=stored.damaged,
        )


def _fenced(claim: Claim) -> RefusedError:
    return RefusedError(ErrorCode.FENCED, epoch=claim.epoch, holder=claim.holder)


def _wrong_size(stored: StoredObject) -> RefusedError:
    return RefusedError(ErrorCode.WRONG_SIZE, size=stored.size, crc=stored.crc, epoch=stored.epoch)
