"""An object store in memory that commits when told to, for tests of sessions: only what they see is true to life."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import TYPE_CHECKING

import trio

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.messages import ObjectInfo
from sos_server.objects.object_files import VerifiedBytes, fresh_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.wire.data_run import DataRun
    from sos_server.storage.contents import Claim

ROOM_BYTES = 1 << 20


class MemoryAppender:
    def __init__(
        self,
        stored: MemoryObject,
        instance: bytes,
        on_progress: Callable[[], None],
        on_evicted: Callable[[RefusedError], None],
    ) -> None:
        self.stored = stored
        self.instance = instance
        self.on_progress = on_progress
        self.on_evicted = on_evicted
        self.pending = bytearray()
        self.closed_by: RefusedError | None = None
        self.changed = trio.Event()

    @property
    def written(self) -> int:
        return len(self.stored.content) + len(self.pending)

    @property
    def synced(self) -> int:
        return len(self.stored.content)

    @property
    def has_room(self) -> bool:
        return len(self.pending) < self.stored.store.room_bytes

    def append_run(self, run: DataRun) -> None:
        offset = run.offset
        for crc, payload in zip(run.crcs, run.payloads, strict=True):
            self.append(offset, crc, payload)
            offset += len(payload)

    def append(self, offset: int, crc: int, payload: memoryview) -> None:
        if self.closed_by is not None:
            raise self.closed_by
        assert offset == self.written
        assert crc32c(payload) == crc
        self.stored.store.check_space()
        self.pending += payload
        self.stored.store.dirty[self] = None
        if self.stored.store.commits_at_once:
            self.stored.store.commit()

    async def wait_room(self) -> None:
        while not self.has_room and self.closed_by is None:
            await self.changed.wait()

    async def end(self) -> None:
        while self.written != self.synced and self.closed_by is None:
            await self.changed.wait()
        if self.closed_by is not None:
            raise self.closed_by
        self.stored.appender = None

    def abandon(self) -> None:
        self.pending.clear()
        if self.stored.appender is self:
            self.stored.appender = None

    def commit(self) -> None:
        self.stored.content += self.pending
        self.pending.clear()
        self._changed()
        self.stored.grow()
        self.on_progress()

    def close(self, refusal: RefusedError) -> None:
        self.closed_by = refusal
        self.pending.clear()
        self.stored.appender = None
        self._changed()
        self.on_evicted(refusal)

    def _changed(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class MemoryObject:
    def __init__(self, store: MemoryStore, name: str) -> None:
        self.store = store
        self.name = name
        self.number = next(store.numbers)
        self.content = bytearray()
        self.sealed = False
        self.damaged = False
        self.epoch = 0
        self.appender: MemoryAppender | None = None
        self.grown = trio.Event()

    def grow(self) -> None:
        self.grown.set()
        self.grown = trio.Event()


class MemoryNamespace:
    def __init__(self, store: MemoryStore, name: str) -> None:
        self.store = store
        self.name = name
        self.incarnation = name.encode().ljust(16, b"\0")[:16]
        self.claim: Claim | None = None
        self.objects: dict[str, MemoryObject] = {}

    async def fence(self, claim: Claim, *, still_allowed: Callable[[], object] = lambda: None) -> None:
        await trio.lowlevel.checkpoint()
        still_allowed()
        current = self.claim
        if current is not None and current != claim and claim.epoch <= current.epoch:
            raise RefusedError(ErrorCode.STALE_EPOCH, epoch=current.epoch, holder=current.holder)
        self.claim = claim
        for stored in self.objects.values():
            if stored.appender is not None and current != claim:
                stored.appender.close(RefusedError(ErrorCode.FENCED, epoch=claim.epoch, holder=claim.holder))

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
    ) -> MemoryAppender:
        await trio.lowlevel.checkpoint()
        still_allowed()
        self._check_claim(claim)
        self.store.check_space()
        stored = self.objects.get(object_name) or MemoryObject(self.store, object_name)
        if stored.sealed:
            raise RefusedError(ErrorCode.SEALED, **self._state(stored))
        if stored.appender is not None:
            if stored.appender.instance != instance:
                raise RefusedError(ErrorCode.BUSY, object=object_name)
            stored.appender.close(RefusedError(ErrorCode.FENCED, epoch=0, holder=b""))
        if len(stored.content) != size:
            raise RefusedError(ErrorCode.WRONG_SIZE, **self._state(stored))
        used, most = len(self.objects), self.store.namespace_objects_max
        if object_name not in self.objects and most is not None and used >= most:
            raise RefusedError(ErrorCode.QUOTA, f"the namespace has {used} objects", used=used, quota=most)
        if prefix_crc is not None and prefix_crc != crc32c(stored.content):
            raise RefusedError(ErrorCode.WRONG_PREFIX, **self._state(stored))
        self.objects[object_name] = stored
        stored.epoch = claim.epoch if claim else 0
        stored.appender = MemoryAppender(stored, instance, on_progress, on_evicted)
        return stored.appender

    async def seal(
        self, object_name: str, *, size: int, claim: Claim | None, still_allowed: Callable[[], object] = lambda: None
    ) -> ObjectInfo:
        await trio.lowlevel.checkpoint()
        still_allowed()
        self._check_claim(claim)
        stored = self._object(object_name)
        if len(stored.content) != size:
            raise RefusedError(ErrorCode.WRONG_SIZE, **self._state(stored))
        stored.sealed = True
        stored.grow()
        return self.stat(object_name)

    async def delete(self, object_name: str, *, claim: Claim | None) -> None:
        self._check_claim(claim)
        stored = self._object(object_name)
        if not stored.sealed:
            raise RefusedError(ErrorCode.NOT_SEALED, size=len(stored.content))
        del self.objects[object_name]

    @property
    def used_bytes(self) -> int:
        return sum(len(stored.content) for stored in self.objects.values())

    def number_and_size(self, object_name: str) -> tuple[int, int]:
        stored = self._object(object_name)
        return stored.number, len(stored.content)

    def stat(self, object_name: str) -> ObjectInfo:
        stored = self._object(object_name)
        return ObjectInfo(
            name=object_name,
            size=len(stored.content),
            sealed=stored.sealed,
            epoch=stored.epoch,
            crc=crc32c(stored.content),
            server_time=self.store.wall_clock(),
            damaged=stored.damaged,
        )

    def list(self, after: str, limit: int) -> list[ObjectInfo]:
        names = sorted(self.objects)
        start = bisect_right(names, after)
        return [self.stat(name) for name in names[start : start + limit]]

    async def read(
        self, object_name: str, offset: int, length: int, memory: Callable[[int], memoryview] = fresh_memory
    ) -> VerifiedBytes:
        del memory
        await trio.lowlevel.checkpoint()
        content = bytes(self._object(object_name).content[offset : offset + length])
        return VerifiedBytes(content, crc32c(content))

    async def wait_growth(self, object_name: str, beyond: int) -> None:
        stored = self._object(object_name)
        while len(stored.content) <= beyond and not stored.sealed:
            await stored.grown.wait()

    def _object(self, name: str) -> MemoryObject:
        if name not in self.objects:
            raise RefusedError(ErrorCode.NOT_FOUND, what="object", name=name)
        return self.objects[name]

    def _check_claim(self, claim: Claim | None) -> None:
        if claim != self.claim:
            current = self.claim
            raise RefusedError(
                ErrorCode.FENCED, epoch=current.epoch if current else 0, holder=current.holder if current else b""
            )

    def _state(self, stored: MemoryObject) -> dict[str, int]:
        return {"size": len(stored.content), "crc": crc32c(stored.content), "epoch": stored.epoch}


class MemoryStore:
    """``commit`` makes durable what has been appended; with ``commits_at_once`` every append does.

    With ``commits_each_round`` the end of a round of the poller does, as that of a store on a quick disk.
    """

    def __init__(
        self,
        *,
        wall_clock: Callable[[], float],
        commits_at_once: bool = True,
        commits_each_round: bool = False,
        room_bytes: int = ROOM_BYTES,
    ) -> None:
        self.identity = b"memory store 16."
        self.wall_clock = wall_clock
        self.commits_at_once = commits_at_once
        self.commits_each_round = commits_each_round
        self.room_bytes = room_bytes
        self.namespaces: dict[str, MemoryNamespace] = {}
        self.dirty: dict[MemoryAppender, None] = {}
        self.numbers = itertools.count(1)
        self.namespace_objects_max: int | None = None
        self.full = False

    def check_space(self) -> None:
        if self.full:
            raise RefusedError(ErrorCode.NO_SPACE, free=0)

    async def namespace(
        self, name: str, *, create: bool, still_allowed: Callable[[], object] = lambda: None
    ) -> MemoryNamespace:
        await trio.lowlevel.checkpoint()
        if name not in self.namespaces:
            if not create:
                raise RefusedError(ErrorCode.NOT_FOUND, what="namespace", name=name)
            still_allowed()
            self.namespaces[name] = MemoryNamespace(self, name)
        return self.namespaces[name]

    def namespaces_after(self, after: str, limit: int, wanted: Callable[[str], bool]) -> list[MemoryNamespace]:
        names = sorted(name for name in self.namespaces if name > after and wanted(name))
        return [self.namespaces[name] for name in names[:limit]]

    def begin_round(self) -> None:
        pass

    def end_round(self) -> None:
        if self.commits_each_round:
            self.commit()

    def commit(self) -> None:
        dirty, self.dirty = self.dirty, {}
        for appender in dirty:
            appender.commit()
