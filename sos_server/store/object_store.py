"""The store as a server sees it: opens a root, commits in the background, hands out namespaces.

This module joins the parts and owns their tasks. What a commit does to objects is here; which changes are allowed is
in `namespace.py`, how they become durable in `commit_log.py`, how the log becomes free again in `copying.py`.
"""

from __future__ import annotations

import errno
import heapq
import secrets
from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.names import check_name
from sos_server.objects.object_files import ObjectFiles
from sos_server.objects.object_writing import ObjectWriter
from sos_server.storage.contents import LoggedBytes
from sos_server.storage.log_format import BATCH_HEADER_BYTES, ENTRY, NOTE
from sos_server.storage.rows import NamespaceMade, ObjectDeleted, Row
from sos_server.store.commit_log import CommitLog, refusal_for
from sos_server.store.copying import Copier
from sos_server.store.counting import check_one_more_namespace
from sos_server.store.namespace import Appender, Namespace
from sos_server.store.runs import Runs
from sos_server.store.settings import StoreSettings
from sos_server.store.space import Space
from sos_server.store.starting import OpenedRoot, open_root
from sos_server.store.statistics import StoreStatistics
from sos_server.store.stored_reader import StoredReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.disk.disk import Disk
    from sos_server.store.gathering import GatheredBatch

INCARNATION_BYTES: Final = 16
RETRY_SECONDS: Final = 1.0
"""After copying failed for want of room, and for a look at the room that others leave."""
FREE_FILES_MIN: Final = 2
"""Under load this many are made ahead: writing a new one beside a fast stream halves its speed."""
CLOSE_COPY_SECONDS: Final = 5.0
"""A graceful stop copies for this long at most; what is left is replayed at the next start."""


class ObjectStore:
    """Everything below one root. Nothing is acknowledged unless `run` runs.

    `damage` says what the start found damaged, a sentence each.
    """

    def __init__(
        self,
        disk: Disk,
        opened: OpenedRoot,
        settings: StoreSettings,
        wall_clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        report: Callable[[str], None],
    ) -> None:
        self.identity = opened.identity
        self.damage = opened.reports
        self.contents = opened.contents
        self.settings = settings
        self.statistics = StoreStatistics()
        self.wall_clock = wall_clock
        self.space = Space(disk, settings.reserve_bytes)
        self.log = CommitLog(opened.files, settings, self.statistics, self, lambda: opened.catalog.checkpoint.sequence)
        self._random_bytes = random_bytes
        self._report = report
        self._commits_fail = self._broken_reported = False
        self._stuck_reported: str | None = None
        self._catalog = opened.catalog
        self._files = opened.files
        self._object_files = ObjectFiles(disk, settings.object_files_open_max)
        self.reader = StoredReader(self._object_files, opened.files, self.statistics, report)
        given_up = [stored for stored in opened.contents.objects.values() if stored.read_only is not None]
        writer = ObjectWriter(disk, given_up, report)
        self._copier = Copier(
            *(disk, opened.contents, opened.catalog, opened.files, self._object_files, writer, self.statistics, report)
        )
        self.runs = Runs(*(settings, opened.contents, self.log, writer, self._copier, self.space, self.statistics))
        for number in opened.deleted:
            self._copier.delete_file(number)
        self._namespaces: dict[str, Namespace] = {}
        self._making = trio.Lock()
        self._copy_wanted = trio.Event()
        self._file_filled = trio.Event()
        self._tasks: trio.CancelScope | None = None

    @classmethod
    async def open(
        cls,
        disk: Disk,
        *,
        settings: StoreSettings | None = None,
        wall_clock: Callable[[], float],
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        report: Callable[[str], None] = lambda _: None,
    ) -> ObjectStore:
        """Lock the root and recover what is in it: time grows with the log and the number of objects, not their size.

        `report` is given a sentence, once, for each thing that the disk fails to do or to keep from then on.
        Raises DiskLockedError, OSError, and DamagedError when what was synced is not there.
        """
        settings = settings or StoreSettings()
        store = cls(disk, await open_root(disk, settings, random_bytes), settings, wall_clock, random_bytes, report)
        await store._begin()
        return store

    async def _begin(self) -> None:
        """Open a new generation of the log. Without a free file: copy one; on a full disk, go on in the newest."""
        if not self._files.free:
            try:
                await self._copier.copy(self.settings.copy_bytes_max)
            except OSError as error:
                self._note_stuck(error)
        if self._files.free:
            await self.log.begin()
        else:
            self._files.go_on_in_newest()
        await self._look_for_space()

    async def run(self) -> None:
        """Commit, and copy the log, until `close`. Cancelled, it stops like a crash: nothing acknowledged is lost."""
        try:
            with trio.CancelScope() as self._tasks:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.log.run)
                    nursery.start_soon(self.runs.run)
                    nursery.start_soon(self._add_files)
                    nursery.start_soon(self._copy)
        finally:
            self._tasks = None

    async def close(self) -> None:
        """Commit what was put in, copy what can be copied in a few seconds, end `run` and give all handles back."""
        if self._tasks is not None:
            await self.log.flush()
            with trio.move_on_after(CLOSE_COPY_SECONDS):
                await self.copy_everything()
        if self._tasks is not None:
            self._tasks.cancel()
        self._object_files.close()
        self._catalog.close()
        self._files.close()

    async def copy_everything(self) -> None:
        """Bring all that was committed before to the objects' files, so that a start has nothing to replay."""
        try:
            await self._copy_full_files()
            await self.log.change_files()
            await self._copy_full_files()
        except OSError as error:
            self._note_stuck(error)

    async def namespace(
        self, name: str, *, create: bool, still_allowed: Callable[[], object] = lambda: None
    ) -> Namespace:
        """The namespace of this name, made durable first when it is new and `create` says so.

        `still_allowed` is called after the last wait before it is made; what it raises refuses it. RefusedError:
        NOT_FOUND, BAD_NAME, QUOTA, NO_SPACE, IO_ERROR.
        """
        check_name(name)
        if name not in self.contents.namespaces:
            await self._make_namespace(name, still_allowed if create else None)
        return self._known(name)

    @property
    def refuses_appends(self) -> bool:
        """Whether every append is refused now: for want of room, or until a restart."""
        return self.space.full or self.log.broken is not None

    def namespaces(self) -> list[Namespace]:
        """All there are, in order of name."""
        return [self._known(name) for name in sorted(self.contents.namespaces)]

    def namespaces_after(self, after: str, limit: int, wanted: Callable[[str], bool]) -> list[Namespace]:
        """The first `limit` of those that are wanted and whose names come after `after`, in order of name."""
        names = (name for name in self.contents.namespaces if name > after and wanted(name))
        return [self._known(name) for name in heapq.nsmallest(limit, names)]

    def _known(self, name: str) -> Namespace:
        if (namespace := self._namespaces.get(name)) is None:
            namespace = self._namespaces[name] = Namespace(self.contents.namespaces[name], self)
        return namespace

    async def commit(self, row: Row) -> None:
        """Return when the row is durable. RefusedError: it never will be."""
        await self.log.settle(self.log.submit(row))

    def begin_round(self) -> None:
        """Many appends may come in until `end_round`, which commits them together."""
        self.log.hold()

    def end_round(self) -> None:
        self.log.commit_held()

    def logged(self, batch: GatheredBatch) -> None:
        """A batch has taken room in the log, and will take as much in the objects' files."""
        self.space.logged(batch.disk_bytes, len(batch.rows))

    def committed(self, batch: GatheredBatch, generation: int, position: int) -> None:
        """A batch is durable: apply its rows, note where its bytes lie, tell its appenders."""
        self._commits_fail = False
        for row in batch.rows:
            self.contents.apply(row)
            if isinstance(row, ObjectDeleted):
                self._copier.delete_file(row.number)
                self._copy_wanted.set()
        position += BATCH_HEADER_BYTES
        objects = self.contents.objects
        notes = iter(batch.notes)
        for number, offset, length, crc in ENTRY.iter_unpack(batch.directory):
            if (stored := objects.get(number)) is not None:
                if stored.logged is None:
                    stored.logged = LoggedBytes()
                stored.logged.add(offset, length, crc, generation, position)
            elif number & NOTE:
                note = next(notes)
                if (stored := objects.get(number ^ NOTE)) is not None:
                    stored.logged_bytes().add_note(note, generation)
            position += length
        for appender, (written, crc) in batch.appenders.items():
            appender.advance(written, crc)

    def failed(self, batches: list[GatheredBatch], refusal: RefusedError) -> None:
        """Batches are lost: their appenders are back at what is synced, and closed."""
        for batch in batches:
            for appender in batch.appenders:
                appender.lose(refusal)
        for stored in self.contents.forget_expected():
            if isinstance(stored.appender, Appender):
                stored.appender.evict(refusal)
        if refusal.code is ErrorCode.NO_SPACE:
            self.space.full = True
        if batches and not self._commits_fail:
            self._report(f"a commit failed: {refusal.message}")
            self._commits_fail = True
        if refusal is self.log.broken and not self._broken_reported:
            self._report(f"no file of the commit log can be written: {refusal.message}")
            self._broken_reported = True

    def file_filled(self) -> None:
        """The log needs another free file, now or when the current one is full."""
        self._file_filled.set()

    def use_settings(self, settings: StoreSettings) -> None:
        """Retention, reserve, quotas and counts from now on; an append that has begun keeps the quota it began with."""
        self.settings = settings
        self.space.reserve_bytes = settings.reserve_bytes

    async def _make_namespace(self, name: str, still_allowed: Callable[[], object] | None) -> None:
        async with self._making:
            if name in self.contents.namespaces:
                return
            if still_allowed is None:
                raise RefusedError(ErrorCode.NOT_FOUND, what="namespace", name=name)
            still_allowed()
            if self.space.full:
                raise self.space.refusal()
            check_one_more_namespace(self.contents, self.settings)
            incarnation = self._random_bytes(INCARNATION_BYTES)
            await self.commit(NamespaceMade(self.contents.take_number(), name, incarnation))

    async def _add_files(self) -> None:
        """Whenever a log file is full: make another while there may be more, so that commits need not wait."""
        while True:
            await self._file_filled.wait()
            self._file_filled = trio.Event()
            try:
                while len(self._files.free) < FREE_FILES_MIN and self._files.may_grow():
                    await self._files.grow()
                    self.log.file_freed()
            except OSError:
                self._files.stop_growing()
            self._copy_wanted.set()

    async def _copy(self) -> None:
        """Copy when half of the log is full, when nothing was committed for a while, and when room is needed."""
        while True:
            with trio.move_on_after(RETRY_SECONDS if self.log.stuck else self.settings.idle_copy_seconds):
                await self._copy_wanted.wait()
            self._copy_wanted = trio.Event()
            try:
                await self._copier.sweep()
                await self._copy_what_is_due()
            except OSError as error:
                self._note_stuck(error)
            await self._look_for_space()

    async def _copy_what_is_due(self) -> None:
        idle = trio.current_time() - self.log.last_commit_time > self.settings.idle_copy_seconds
        if idle:
            await self.log.change_files()
        while idle or self.log.stuck or self._files.copy_is_due():
            copied = await self._copier.copy(self.settings.copy_bytes_max)
            self.log.stuck = None
            if not copied:
                break
            self.log.file_freed()
        if idle:
            self._copier.give_memory_back()
            self.runs.give_memory_back()
        if not self._files.free and not self._files.may_grow() and self._files.copy_is_due():
            self._note_stuck(OSError(errno.EIO, "objects whose files cannot be written keep all of the commit log"))

    async def _copy_full_files(self) -> None:
        while await self._copier.copy(self.settings.copy_bytes_max):
            self.log.file_freed()

    def _note_stuck(self, error: OSError) -> None:
        """Copying cannot make room: whoever waits for it is refused."""
        if error.strerror != self._stuck_reported:
            self._report(f"the commit log cannot be copied: {error.strerror}")
            self._stuck_reported = error.strerror
        self.log.stuck = error
        self.log.file_freed()

    async def _look_for_space(self) -> None:
        stuck = refusal_for(self.log.stuck) if self.log.stuck is not None else None
        if stuck is None:
            self._stuck_reported = None
        await self.space.look(self._files.uncopied_bytes, stuck=stuck)
