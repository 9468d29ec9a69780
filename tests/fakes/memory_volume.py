"""A volume in memory: the rules of journal/volume.py written down as plainly as possible, nothing durable.

It is the model that the real journal is compared with, and what clients of the file protocol are tested against. It
shares no code with the journal but the values and errors that pass through the interface.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, cast

import trio

from journal.errors import FieldValue, JournalCode, JournalError, journal_error
from journal.kept_past import Retention
from journal.statistics import MemberStatistics, VolumeStatistics
from journal.volume import (
    PAGE_ENTRIES_MAX,
    PUT_BYTES_MAX,
    ClaimPage,
    FileStatus,
    MarkValue,
    OpenedFile,
    OperationId,
    Page,
    PathClaim,
    VolumeDescription,
    pieces_of,
)
from tests.fakes.memory_answers import MemoryAnswers, Outcome
from tests.fakes.memory_claims import MemoryClaims

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from journal.volume import Buffer


@dataclass(slots=True)
class Entry:
    """A file, or (content None) a directory."""

    content: bytes | None
    modified_ms: int


def _no(code: JournalCode, message: str, **fields: FieldValue) -> JournalError:
    return journal_error(code, message, fields)


def _ancestors(path: str) -> list[str]:
    """The root first, the path itself not included."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))] if path else []


def _check_path(path: str) -> None:
    parts = path.split("/") if path else []
    spelled = all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in parts)
    if not spelled or "\0" in path or len(path.encode()) > 4096 or len(parts) > 128:
        raise _no(JournalCode.BAD_PATH, "that is not a path of a volume", path=path[:200])


@dataclass
class MemoryVolume:
    """`before_answer` is awaited before each change is answered (it is done by then) and may raise what it likes."""

    name: str = "payments"
    epoch: int = 1
    holder: bytes = bytes(16)
    lost: JournalError | None = None  # why `wait_lost` returns, once `losing` is set
    losing: trio.Event = field(default_factory=trio.Event)
    before_answer: Callable[[], Awaitable[None]] | None = None
    held: list[Callable[[], None]] | None = None  # with a list, answers of `put_soon` wait in it until they are called
    tree: dict[str, Entry] = field(default_factory=lambda: {"": Entry(content=None, modified_ms=0)})
    claimed: MemoryClaims = field(default_factory=MemoryClaims)
    answers: MemoryAnswers = field(default_factory=MemoryAnswers)
    marks: list[dict[str, MarkValue]] = field(default_factory=list)
    in_pieces: dict[str, trio.Event] = field(default_factory=dict)  # what an append joins first, and when it is joined
    still_owned: bool = False  # what the members would say
    pins: dict[str, tuple[int, int]] = field(default_factory=dict)
    admit: Callable[[OperationId, bytes], None] = lambda *_: None  # may raise UNAVAILABLE
    room: trio.Event | None = None  # changes wait for it before they are made
    _last_ms: int = 0

    @property
    def runs(self) -> int:
        """How many changes were really run, repetitions not counted."""
        return self.answers.runs

    async def put(
        self,
        path: str,
        payload: Buffer,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> FileStatus:
        if len(payload) > PUT_BYTES_MAX:
            raise _no(JournalCode.TOO_LARGE, "too large for one put")
        _check_path(path)

        def run() -> FileStatus:
            return self._publish(path, bytes(payload), overwrite=overwrite, claim=claim, modified_ms=modified_ms)

        return await self.once(operation, run)

    async def append(
        self,
        path: str,
        data: Buffer,
        *,
        size: int,
        modified_ms: int,
        operation: OperationId,
        claim: PathClaim | None = None,
    ) -> FileStatus:
        if len(data) > PUT_BYTES_MAX:
            raise _no(JournalCode.TOO_LARGE, "too large for one append")
        _check_path(path)

        def run() -> FileStatus:
            self.claimed.check(path, claim)
            entry = self._entry(path)
            if entry.content is None:
                raise _no(JournalCode.IS_DIRECTORY, f"{path or '/'} is a directory", path=path)
            if (len(entry.content), entry.modified_ms) != (size, modified_ms):
                raise _no(JournalCode.CHANGED, f"{path} is another one", path=path, modified_ms=entry.modified_ms)
            self.tree[path] = Entry(content=entry.content + bytes(data), modified_ms=self._next_ms())
            return self._status(path)

        return await self.once(operation, run)

    @property
    def is_full(self) -> bool:
        return self.room is not None and not self.room.is_set()

    async def join(self, path: str) -> bool:
        if (joined := self.in_pieces.pop(path, None)) is not None:
            await joined.wait()
        return joined is not None

    async def is_still_owned(self) -> bool:
        return self.still_owned

    async def wait_room(self) -> None:
        if self.room is not None:
            await self.room.wait()

    def put_soon(
        self,
        path: str,
        payload: bytes,
        *,
        payload_crc: int,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None,
        modified_ms: int | None,
        answered: Callable[[Outcome], None],
    ) -> bool:
        """At once, or when the test lets `held` go; not at all while there is something before the answer."""
        if self.before_answer is not None or self.is_full:
            return False
        _check_path(path)

        def run() -> FileStatus:
            return self._publish(path, payload, overwrite=overwrite, claim=claim, modified_ms=modified_ms)

        outcome = self.answers.once(operation, run, answers=FileStatus)
        if self.held is None:
            answered(outcome)
        else:
            self.held.append(lambda: answered(self.answers.once(operation, run, answers=FileStatus)))
        return True

    async def open_write(
        self,
        path: str,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> MemoryWrite:
        _check_path(path)
        await trio.lowlevel.checkpoint()

        def publish(content: bytes) -> FileStatus:
            return self._publish(path, content, overwrite=overwrite, claim=claim, modified_ms=modified_ms)

        return MemoryWrite(volume=self, operation=operation, publish=publish)

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        content = self._entry(path).content
        if content is None:
            raise _no(JournalCode.IS_DIRECTORY, f"{path} is a directory", path=path)
        await trio.lowlevel.checkpoint()
        return OpenedFile(self._status(path), pieces_of(content, offset, length))

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing((await self.open_read(path, offset, length)).pieces) as pieces:
            async for piece in pieces:
                yield piece

    async def stat(self, path: str) -> FileStatus:
        self._entry(path)
        return self._status(path)

    async def list(self, path: str, *, after: str = "", limit: int = PAGE_ENTRIES_MAX) -> Page:
        if self._entry(path).content is not None:
            return Page(entries=(self._status(path),), more=False)
        prefix = path + "/" if path else ""
        below = (other[len(prefix) :] for other in self.tree if other and other.startswith(prefix))
        names = sorted((name for name in below if "/" not in name and name > after), key=str.encode)
        entries = tuple(self._status(prefix + name) for name in names[:limit])
        return Page(entries=entries, more=len(names) > limit)

    async def mkdirs(self, path: str, *, operation: OperationId, claim: PathClaim | None = None) -> None:
        _check_path(path)

        def run() -> None:
            self.claimed.check(path, claim)
            self._make_directories([*_ancestors(path), path], self._next_ms())

        await self._once(operation, run)

    async def delete(
        self, path: str, *, recursive: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> bool:
        _check_path(path)

        def run() -> bool:
            self.claimed.check(path, claim, subtree=True)
            below = self._below(path)
            if path not in self.tree or (not path and not below):
                return False
            if below and not recursive:
                raise _no(JournalCode.NOT_EMPTY, f"{path} is not empty", path=path)
            for gone in [*below, path]:
                del self.tree[gone]
            self.claimed.end_within(path)
            if not path:
                self.tree[""] = Entry(content=None, modified_ms=self._next_ms())
            else:
                self._touch_parent(path, self._next_ms())
            return True

        return bool(await self._once(operation, run, answers=bool))

    async def rename(
        self, source: str, target: str, *, overwrite: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> None:
        _check_path(source)
        _check_path(target)

        def run() -> None:
            self.claimed.check(source, claim, subtree=True)
            self.claimed.check(target, claim, subtree=True)
            if source == target and source in self.tree:
                return
            self._check_rename(source, target, overwrite=overwrite)
            now = self._next_ms()
            self.tree.pop(target, None)
            self._make_directories(_ancestors(target), now)
            for moved in [source, *self._below(source)]:
                self.tree[target + moved[len(source) :]] = self.tree.pop(moved)
            self.claimed.end_within(source)
            self._touch_parent(source, now)
            self._touch_parent(target, now)

        await self._once(operation, run)

    async def claim(self, path: str, claim: PathClaim, *, operation: OperationId, whose: str = "") -> None:
        del whose  # nobody makes so many claims here
        _check_path(path)

        def run() -> None:
            self.claimed.check(path, claim)
            self.claimed.add(path, claim)

        await self._once(operation, run)

    async def claims(self, *, after: str | None = None, limit: int = PAGE_ENTRIES_MAX) -> ClaimPage:
        return self.claimed.page(after, limit)

    async def release(self, path: str, claim: PathClaim, *, operation: OperationId) -> bool:
        _check_path(path)

        return bool(await self._once(operation, lambda: self.claimed.release(path, claim), answers=bool))

    async def pin(self, name: str, *, lsn: int, seconds: int, operation: OperationId, whose: str = "") -> None:
        del whose  # nor so many pins

        def run() -> None:
            self.pins[name] = (lsn, seconds)
            if not seconds:
                del self.pins[name]

        await self._once(operation, run)

    async def mark(self, values: Mapping[str, MarkValue], *, operation: OperationId) -> None:
        await self._once(operation, lambda: self.marks.append(dict(values)))

    async def describe(self) -> VolumeDescription:
        return VolumeDescription(servers=("a:7400", "b:7400"), retention=Retention(seconds=3600))

    def now_ms(self) -> int:
        return max(self._last_ms, time.time_ns() // 1_000_000)

    async def wait_lost(self) -> JournalError:
        await self.losing.wait()
        assert self.lost is not None
        return self.lost

    def statistics(self) -> VolumeStatistics:
        return VolumeStatistics(
            epoch=self.epoch,
            written_lsn=self.runs,
            acknowledged_lsn=self.runs,
            oldest_lsn=0,
            tree_bytes=0,
            may_lose=0,
            files=sum(entry.content is not None for entry in self.tree.values()),
            members=(MemberStatistics(address="a:7400", in_sync=True, lag_bytes=0),),
        )

    def query_commits(self) -> dict[str, int]:
        return {}

    def lose(self, reason: JournalError) -> None:
        """Somebody else has the volume now."""
        self.lost = reason
        self.losing.set()

    async def once(self, operation: OperationId, run: Callable[[], Outcome]) -> FileStatus:
        return cast("FileStatus", await self._once(operation, run, answers=FileStatus))

    async def _once(self, operation: OperationId, run: Callable[[], Outcome], *, answers: type = NoneType) -> Outcome:
        """Run the change now and remember what came of it, or give the first answer again."""
        await self.wait_room()
        outcome = self.answers.once(operation, run, answers=answers)
        await trio.lowlevel.checkpoint()
        if self.before_answer is not None:
            await self.before_answer()
        if isinstance(outcome, JournalError):
            raise outcome
        return outcome

    def _publish(
        self, path: str, content: bytes, *, overwrite: bool, claim: PathClaim | None, modified_ms: int | None
    ) -> FileStatus:
        self.claimed.check(path, claim)
        existing = self.tree.get(path)
        if existing is not None and existing.content is None:
            raise _no(JournalCode.IS_DIRECTORY, f"{path or '/'} is a directory", path=path)
        if existing is not None and not overwrite:
            raise _no(JournalCode.ALREADY_EXISTS, f"{path} exists", path=path)
        self._check_parents(path)
        now = self._next_ms()
        self._make_directories(_ancestors(path), now)
        self.tree[path] = Entry(content=content, modified_ms=now if modified_ms is None else modified_ms)
        self._touch_parent(path, now)
        return self._status(path)

    def _check_rename(self, source: str, target: str, *, overwrite: bool) -> None:
        moved = self._entry(source)
        if not source or not target or target.startswith(source + "/"):
            raise _no(JournalCode.BAD_REQUEST, f"{source or '/'} cannot become {target or '/'}")
        existing = self.tree.get(target)
        if existing is not None and existing.content is None:
            raise _no(JournalCode.IS_DIRECTORY, f"{target} is a directory", path=target)
        if existing is not None and not overwrite:
            raise _no(JournalCode.ALREADY_EXISTS, f"{target} exists", path=target)
        if existing is not None and moved.content is None:
            raise _no(JournalCode.NOT_DIRECTORY, f"{target} is a file", path=target)
        for below in self._below(source):
            _check_path(target + below[len(source) :])
        self._check_parents(target)

    def _check_parents(self, path: str) -> None:
        for ancestor in _ancestors(path):
            entry = self.tree.get(ancestor)
            if entry is not None and entry.content is not None:
                raise _no(JournalCode.NOT_DIRECTORY, f"{ancestor} is a file", path=ancestor)

    def _make_directories(self, paths: Sequence[str], now: int) -> None:
        for path in paths:
            entry = self.tree.get(path)
            if entry is None:
                self.tree[path] = Entry(content=None, modified_ms=now)
                self._touch_parent(path, now)
            elif entry.content is not None:
                raise _no(JournalCode.NOT_DIRECTORY, f"{path} is a file", path=path)

    def _touch_parent(self, path: str, now: int) -> None:
        self.tree[path.rpartition("/")[0]].modified_ms = now

    def _below(self, path: str) -> Sequence[str]:
        return [other for other in self.tree if path in _ancestors(other)]

    def _entry(self, path: str) -> Entry:
        _check_path(path)
        entry = self.tree.get(path)
        if entry is None:
            raise _no(JournalCode.NOT_FOUND, f"there is no {path}", path=path)
        return entry

    def _status(self, path: str) -> FileStatus:
        entry = self.tree[path]
        return FileStatus(
            path=path,
            is_directory=entry.content is None,
            size=0 if entry.content is None else len(entry.content),
            modified_ms=entry.modified_ms,
        )

    def _next_ms(self) -> int:
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        return self._last_ms


@dataclass
class MemoryWrite:
    """A large file on its way into a MemoryVolume."""

    volume: MemoryVolume
    operation: OperationId
    publish: Callable[[bytes], FileStatus]
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False

    async def write(self, data: Buffer) -> None:
        assert not self.ended
        self.pieces.append(bytes(data))
        await trio.lowlevel.checkpoint()

    async def commit(self) -> FileStatus:
        self.ended = True
        return await self.volume.once(self.operation, lambda: self.publish(b"".join(self.pieces)))

    async def cancel(self) -> None:
        self.ended = True
        self.pieces.clear()
        await trio.lowlevel.checkpoint()
