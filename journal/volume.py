"""What a volume offers: the interface that the file protocol serves and that the writer implements.

Belongs here: the protocol class and the values that pass through it. No implementation (but of a file that is in
memory as a whole), no I/O.

Every change carries an operation id; the same id again gets the first answer, also after a restart or a takeover. Every
answer, a refusal included, is given only when the records that it rests on are durable on k members. A call that is
cancelled may or may not have happened: ask again with the same operation id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from journal.errors import JournalError
    from journal.kept_past import Retention

Buffer: TypeAlias = "bytes | bytearray | memoryview"
MarkValue: TypeAlias = "str | int"

PUT_BYTES_MAX = 1024 * 1024  # a larger file is streamed; keeps one operation's memory and its time on the wire small
READ_PIECE_BYTES_MAX = 1024 * 1024
PIN_SECONDS_MAX = 24 * 3600  # a reader that is still not done has gone away; what it held may be cleaned again
PAGE_ENTRIES_MAX = 1000  # one listing answer stays below 1 MiB with paths of a usual length


class OperationId(NamedTuple):  # as FileStatus a tuple: one of each for every change
    """Names one operation of one client, however often it is sent."""

    client: bytes  # 16 random bytes, made by each client process
    sequence: int  # counts the client's operations, from 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PathClaim:
    """Who writes below a path: ordered, the later start wins (the application's name decides between equal ones)."""

    start_time: int  # milliseconds, from the driver
    application: str


class FileStatus(NamedTuple):
    """What is known about a path. `crc` is the CRC32C of the whole content where it is known without reading it."""

    path: str
    is_directory: bool
    size: int
    modified_ms: int
    crc: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Part of a directory in order of names; `more` says whether to ask again with `after` = the last name."""

    entries: tuple[FileStatus, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDescription:
    """Where a volume's log is kept, and how much of the past its owner keeps."""

    servers: tuple[str, ...]
    retention: Retention


class OpenedFile(NamedTuple):
    """A file that is read. `pieces` are verified, and of at most READ_PIECE_BYTES_MAX each; close them (`aclosing`).

    They raise DAMAGED, LOST, UNAVAILABLE. An offset beyond the end yields nothing.
    """

    status: FileStatus
    pieces: AsyncGenerator[bytes, None]


class ClaimedPath(NamedTuple):
    """A path and who has claimed it."""

    path: str
    claim: PathClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPage:
    """Some of the claims in force, in order of paths; `more` says whether to ask again with `after` = the last path."""

    claims: tuple[ClaimedPath, ...]
    more: bool


Answer: TypeAlias = "FileStatus | bool | JournalError | None"
"""What a change may be answered with."""


class StreamedWrite(Protocol):
    """A large file on its way. Nothing of it is visible before commit; without commit it never existed."""

    async def write(self, data: Buffer) -> None:
        """Add bytes; returns when there is room for more, not when they are durable."""

    async def commit(self) -> FileStatus:
        """Publish the file. The precondition (overwrite or not, claim) is decided here, in the one order."""

    async def cancel(self) -> None:
        """Forget the file. Harmless after commit or cancel; never removes what is published."""


class Volume(Protocol):
    """A tree of files, kept by a journal. Paths as in journal/records/paths.py; all errors are JournalError."""

    @property
    def name(self) -> str:
        """Of the volume, as in sos://NAME/path."""

    @property
    def epoch(self) -> int:
        """Of the owner that answers; grows with each takeover."""

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
        """Write a whole small file (≤ PUT_BYTES_MAX), making its parents.

        ALREADY_EXISTS, IS_DIRECTORY, NOT_DIRECTORY, FENCED.

        `modified_ms` keeps a time from elsewhere (import, restore, fork); otherwise it is the record's own time.
        """

    async def open_write(
        self,
        path: str,
        *,
        overwrite: bool,
        operation: OperationId,
        claim: PathClaim | None = None,
        modified_ms: int | None = None,
    ) -> StreamedWrite:
        """Start a large file. Nothing is checked but the path's spelling: preconditions are decided at commit."""

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
        """Add bytes (≤ PUT_BYTES_MAX) at the end of the file that has this size and time; its new status.

        CHANGED if it is another one, or longer, by now: of two writers the later one learns it. NOT_FOUND,
        IS_DIRECTORY, FENCED, TOO_LARGE (also when appends have made the file as large as they can).
        """

    async def open_read(self, path: str, offset: int = 0, length: int | None = None) -> OpenedFile:
        """A file's status, and its bytes from `offset` on. NOT_FOUND, IS_DIRECTORY.

        Both are of the file as it is now, even if it is replaced while it is read.
        """

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes of `open_read` for those who know the status, or need none; opened when the iteration begins."""

    async def stat(self, path: str) -> FileStatus:
        """NOT_FOUND if there is neither file nor directory."""

    async def list(self, path: str, *, after: str = "", limit: int = PAGE_ENTRIES_MAX) -> Page:
        """Children of a directory whose names follow `after`; a file's own status if it is a file. NOT_FOUND."""

    async def mkdirs(self, path: str, *, operation: OperationId, claim: PathClaim | None = None) -> None:
        """Make a directory and its parents; fine if it exists. NOT_DIRECTORY if a file is in the way."""

    async def delete(
        self, path: str, *, recursive: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> bool:
        """Whether there was something to delete. NOT_EMPTY for a directory with content unless `recursive`."""

    async def rename(
        self, source: str, target: str, *, overwrite: bool, operation: OperationId, claim: PathClaim | None = None
    ) -> None:
        """Move a file or a tree, making the target's parents; `overwrite` may replace a file, never a directory."""

    async def claim(self, path: str, claim: PathClaim, *, operation: OperationId) -> None:
        """From now on changes at or below `path` need this claim or a later one. FENCED if a later one is known.

        BAD_REQUEST for the root, and for a start time too far in the future; TOO_LARGE (too many claims). It ends when
        the path is deleted or moved away, or is released.
        """

    async def claims(self, *, after: str | None = None, limit: int = PAGE_ENTRIES_MAX) -> ClaimPage:
        """The claims in force whose paths follow `after` (None: from the start)."""

    async def release(self, path: str, claim: PathClaim, *, operation: OperationId) -> bool:
        """End exactly this claim on exactly this path, for the application that is over; False if there is none.

        FENCED if the path has another claim. A writer with an older claim than the one that ended stays fenced.
        """

    async def pin(self, name: str, *, lsn: int, seconds: int, operation: OperationId) -> None:
        """Keep what the moment `lsn` needs from being cleaned for this long (≤ PIN_SECONDS_MAX); 0 seconds release it.

        A pin of the same name is replaced. OUT_OF_RETENTION if the moment is gone already, BAD_REQUEST, TOO_LARGE (too
        many pins).
        """

    async def mark(self, values: Mapping[str, MarkValue], *, operation: OperationId) -> None:
        """Name this moment by keys and values, e.g. a batch's number."""

    async def describe(self) -> VolumeDescription:
        """For whoever is to read the log itself."""


class ServedVolume(Volume, Protocol):
    """A volume in this process, as the gateway serves it."""

    async def claim(self, path: str, claim: PathClaim, *, operation: OperationId, whose: str = "") -> None:
        """As a volume's. `whose`: the name of the client's token, for its share of the room that claims have."""

    async def pin(self, name: str, *, lsn: int, seconds: int, operation: OperationId, whose: str = "") -> None:
        """As a volume's, with a share of the room that pins have."""

    def admit(self, operation: OperationId, whose: bytes) -> None:
        """Before each change: whose client makes it, as the digest of a token. UNAVAILABLE if theirs take too much."""

    @property
    def is_full(self) -> bool:
        """Whether a change would have to wait for room now."""

    async def wait_room(self) -> None:
        """Return when there may be room; see whether there is. UNAVAILABLE if members do not answer for too long."""

    async def join(self, path: str) -> bool:
        """Before an append: write a file of too many pieces again in few. False, without a wait, if it has fewer.

        UNAVAILABLE, DAMAGED.
        """

    async def is_still_owned(self) -> bool:
        """Whether enough members say, now and within a bounded time, that nobody newer can have had the volume yet."""

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
        answered: Callable[[FileStatus | bool | JournalError | None], None],
    ) -> bool:
        """As `put`, without a task that waits: `answered` is called with the answer, or with the error, when it counts.

        That may be before this returns. False: nothing was done, and `put` must be awaited; likewise when it raises.
        `payload_crc` was compared with the payload.
        """


async def pieces_of(content: bytes, offset: int, length: int | None) -> AsyncGenerator[bytes, None]:
    """The pieces of a file that is in memory as a whole."""
    end = len(content) if length is None else min(len(content), offset + length)
    for start in range(offset, end, READ_PIECE_BYTES_MAX):
        yield content[start : min(end, start + READ_PIECE_BYTES_MAX)]
