"""The batch that is being gathered for the next commit: rows and appended bytes, already as the log will have them.

Bytes are copied once, into a buffer that one write takes as it is (measured: 1.9 times the appends per second
of a list of buffers). A batch is gathered while the one before it is synced, so two buffers take turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from sos_client.wire.checksum import crc32c
from sos_server.storage.log_format import (
    BATCH_HEADER_BYTES,
    BLOCK_BYTES,
    ENTRY,
    NOTE,
    ROW_NUMBER,
    batch_bytes,
    batch_header,
    places_of,
)
from sos_server.storage.rows import Row, encode_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.disk.disk import Buffer
    from sos_client.wire.errors import RefusedError
    from sos_server.storage.run_notes import RunNote
    from sos_server.store.appender import Appender

PIECE_BYTES_MAX: Final = 256 << 10
"""The longest payload of one entry; a reader of logged bytes verifies whole entries."""
ENTRIES_MAX: Final = 16 << 10
"""Tiny appends fill a batch by their number, so that its directory stays small beside its payloads."""
DIRECTORY_MAX: Final = ENTRIES_MAX * ENTRY.size
ROWS_ROOM: Final = 64 << 10
"""Room for rows in a batch that takes no more appends. With more of them the buffer grows."""
DIRECTORY_ROOM: Final = DIRECTORY_MAX + BLOCK_BYTES
NOT_CLOSED: Final = (0, 0)
"""In place of how far an appender reaches, until the batch is closed."""


class GatheredBatch:
    """Owned by the commit log. `appenders` and `rows` wait for the commit, tasks for `decided`.

    `has_room` says whether one more append may be put in: with fewer than `fill_max` bytes, and not too many entries.
    """

    __slots__ = (
        "_buffer",
        "_decided",
        "_fill_max",
        "_last_number",
        "_payload_end",
        "_view",
        "appenders",
        "directory",
        "fill",
        "has_room",
        "is_decided",
        "notes",
        "refusal",
        "rows",
    )

    def __init__(self, buffer: bytearray, fill_max: int) -> None:
        self._take(buffer)
        self._fill_max = fill_max
        self.has_room = True
        self.fill = BATCH_HEADER_BYTES
        self.directory = bytearray()
        self.rows: list[Row] = []
        self.notes: list[RunNote] = []
        """In the order of their entries."""
        self.appenders: dict[Appender, tuple[int, int]] = {}
        """Who put bytes in, and how far they reach of what each has written, with which CRC."""
        self.is_decided = False
        self.refusal: RefusedError | None = None
        self._decided: trio.Event | None = None  # made for whoever waits: most batches are waited for by nobody
        self._last_number = ROW_NUMBER

    def add_piece(self, number: int, offset: int, crc: int, payload: Buffer) -> None:
        """Copy appended bytes, of at most `PIECE_BYTES_MAX`."""
        fill = self.fill
        length = len(payload)
        end = fill + length
        if end > self._payload_end:
            self._grow(end)
        self._view[fill:end] = payload
        self.fill = end
        self._enter(number, offset, length, crc, payload)

    def add_run(self, number: int, offset: int, payloads: Sequence[Buffer], length: int) -> memoryview:
        """Copy payloads that follow one another, of at most `PIECE_BYTES_MAX` together, as one piece; returns it."""
        fill = position = self.fill
        if fill + length > self._payload_end:
            self._grow(fill + length)
        view = self._view  # maybe a new one
        for payload in payloads:
            end = position + len(payload)
            view[position:end] = payload
            position = end
        run = view[fill:position]
        self.fill = position
        self._enter(number, offset, length, crc32c(run), run)
        return run

    def _enter(self, number: int, offset: int, length: int, crc: int, payload: Buffer) -> None:
        """What was just copied into the directory."""
        if number == self._last_number and number and self._join(offset, length, payload):
            return
        directory = self.directory
        directory += ENTRY.pack(number, offset, length, crc)
        self._last_number = number
        self.has_room = self.fill < self._fill_max and len(directory) < DIRECTORY_MAX

    def _join(self, offset: int, length: int, payload: Buffer) -> bool:
        """Let the last entry cover what goes on where it ends.

        With many small appends in flight on a connection that is an entry for each receive instead of each append,
        which the log, its scan, the copying and every read have to look at.
        """
        directory = self.directory
        number, before, before_length, crc = ENTRY.unpack_from(directory, len(directory) - ENTRY.size)
        joined = before_length + length
        if before + before_length != offset or joined > PIECE_BYTES_MAX:
            return False
        entry = (number, before, joined, crc32c(payload, crc))
        ENTRY.pack_into(directory, len(directory) - ENTRY.size, *entry)
        self.has_room = self.fill < self._fill_max
        return True

    def add_note(self, number: int, note: RunNote) -> None:
        """Take a run that is synced in the object's own file, under a durable name."""
        content = note.encode()
        self.add_piece(number | NOTE, note.offset, crc32c(content), content)
        self.notes.append(note)
        self._last_number = ROW_NUMBER

    def add_row(self, row: Row) -> None:
        """Take a change of what the catalog knows."""
        content = encode_row(row)
        self.add_piece(ROW_NUMBER, 0, crc32c(content), content)
        self.rows.append(row)

    @property
    def entries(self) -> int:
        return len(self.directory) // ENTRY.size

    @property
    def places(self) -> int:
        """How many places memory keeps when the batch is durable."""
        if not self.notes:
            return self.entries
        return sum(places_of(number, length) for number, _, length, _ in ENTRY.iter_unpack(self.directory))

    @property
    def is_empty(self) -> bool:
        """Such a batch only says that the one before it was synced."""
        return not self.directory

    @property
    def disk_bytes(self) -> int:
        """What the batch takes in a log file."""
        return batch_bytes(self.fill - BATCH_HEADER_BYTES, self.entries)

    async def decided(self) -> None:
        """Return when the batch is durable, or has a `refusal` and never will be."""
        if not self.is_decided:
            if self._decided is None:
                self._decided = trio.Event()
            await self._decided.wait()

    def decide(self) -> None:
        self.is_decided = True
        if self._decided is not None:
            self._decided.set()

    def close(self) -> None:
        """No appends are taken any more: note how far the commit will bring each appender."""
        for appender in self.appenders:
            self.appenders[appender] = appender.put_in()

    def release(self) -> bytearray:
        """The buffer, for another batch. What `finish` gave must not be used any more."""
        return self._buffer

    def finish(self, *, generation: int, number: int, nonce: bytes) -> memoryview:
        """The batch as bytes for the log."""
        payload_bytes = self.fill - BATCH_HEADER_BYTES
        total = self.disk_bytes
        if total > len(self._buffer):
            self._grow(total)
        view = self._view
        view[:BATCH_HEADER_BYTES] = batch_header(
            generation=generation, number=number, nonce=nonce, payload_bytes=payload_bytes, directory=self.directory
        )
        end = self.fill + len(self.directory)
        view[self.fill : end] = self.directory
        view[end:total] = bytes(total - end)
        return view[:total]

    def _take(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._payload_end = len(buffer) - DIRECTORY_ROOM

    def _grow(self, end: int) -> None:
        """More came at once than there was to be room for: from many connections, or rows from each of them."""
        content = bytes(self._view[: self.fill])
        self._take(bytearray(2 * end + DIRECTORY_ROOM))
        self._view[: self.fill] = content


def buffer_bytes(*, batch_bytes_max: int, append_bytes_max: int) -> int:
    """How large a buffer must be for a batch that had room for one more append."""
    return BATCH_HEADER_BYTES + batch_bytes_max + append_bytes_max + ROWS_ROOM + DIRECTORY_ROOM
