"""Looks after an ingest log: who has read how far, what may be deleted, whether a reader holds the sources back.

It looks at the volume every second, which costs next to nothing: the volume is in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from connectors.ingest import places
from connectors.ingest.block import HEAD_BYTES, received_ms_of
from connectors.ingest.drain_order import DRAIN_BYTES_MAX, parse_drain
from connectors.ingest.reader_position import READER_BYTES_MAX, READERS_MAX, ReaderPosition, parse_reader
from connectors.ingest.retention import bytes_behind, files_to_delete
from journal.errors import JournalCode, JournalError
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.ingest.ingest_log import IngestLog
    from connectors.ingest.retention import MessageRetention
    from journal.volume import FileStatus, Volume
    from sos_client.serving.event_log import EventLog

LOOK_SECONDS: Final = 1.0


class Upkeep:
    """`run` in a nursery as long as the log is this process's. What it has seen last can be read at any time."""

    def __init__(
        self,
        volume: Volume,
        ingest: IngestLog,
        retention: MessageRetention,
        *,
        now_ms: Callable[[], int],
        log: EventLog,
        drain: Callable[[str], None],
    ) -> None:
        """`drain` is called with an address when somebody wants all sources to go there.

        `now_ms` is the volume's clock, which gave its files their times: it does not follow who sets a clock at once.
        """
        self.readers: list[ReaderPosition] = []
        self.oldest_received_ms: int | None = None
        self.retention = retention
        self._volume = volume
        self._ingest = ingest
        self._now_ms = now_ms
        self._log = log
        self._drain = drain
        self._seen: dict[str, tuple[FileStatus, ReaderPosition]] = {}
        self._oldest: int | None = None  # what `oldest_received_ms` is of

    @property
    def oldest_sequence(self) -> int:
        """The first message that there still is; the next one, if there is none."""
        files = self._ingest.files
        return files[0].first if files else self._ingest.next_sequence

    def lag_bytes(self, reader: ReaderPosition) -> int:
        """How far behind it is."""
        return bytes_behind(self._ingest.files, self._ingest.next_sequence, reader.needs)

    async def run(self) -> None:
        """Look after it until cancelled. Raises what ends the ownership of the volume."""
        while True:
            await self.look()
            await self._ingest.gather_blocks()
            await self._look_for_drain()
            await trio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Once."""
        too_many = await self._read_readers()
        self._hold_back()
        await self._date_oldest()
        if too_many:
            self._log.warning("too many readers", readers_max=READERS_MAX)
            return
        gone = files_to_delete(
            self._ingest.files,
            readers=[reader.needs for reader in self.readers],
            streams_from=self._ingest.streams_from,
            retention=self.retention,
            now_ms=self._now_ms(),
        )
        await self._ingest.delete_files(gone)
        if gone:
            self._log.info("messages deleted", files=len(gone), oldest_sequence=self.oldest_sequence)

    async def _look_for_drain(self) -> None:
        try:
            pieces = [piece async for piece in self._volume.read(places.DRAIN, 0, DRAIN_BYTES_MAX)]
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            return
        order = parse_drain(b"".join(pieces))
        if order is not None and order.epoch == self._volume.epoch:
            self._drain(order.address)

    async def _read_readers(self) -> bool:
        """Whether there are more than are looked at."""
        try:
            page = await self._volume.list(places.READERS, limit=READERS_MAX)
        except JournalError as error:
            if error.code is not JournalCode.NOT_FOUND:
                raise
            self._seen, self.readers = {}, []
            return False
        before, self._seen = self._seen, {}
        for status in page.entries:
            if status.is_directory:
                continue
            known = before.get(status.path)
            if known is not None and known[0] == status:
                self._seen[status.path] = known
                continue
            try:
                pieces = [piece async for piece in self._volume.read(status.path, 0, READER_BYTES_MAX)]
            except JournalError as error:
                if error.code is not JournalCode.NOT_FOUND:
                    raise
                continue  # it has just ended
            name = status.path.rpartition("/")[2]
            self._seen[status.path] = status, parse_reader(name, b"".join(pieces), status.modified_ms)
        self.readers = [reader for _, reader in self._seen.values()]
        return page.more

    def _hold_back(self) -> None:
        most, reason = self.retention.lag_bytes_max, ""
        for reader in self.readers if most else ():
            behind = self.lag_bytes(reader)
            if behind > most:
                name = printable(reader.name)
                reason = f"reader {name} is {behind:,} bytes behind, more than {most:,} (--reader-lag-max)"
                break
        if bool(reason) != bool(self._ingest.held_back):
            self._log.warning("sources wait" if reason else "sources go on", reason=reason)
        self._ingest.held_back = reason

    async def _date_oldest(self) -> None:
        """When the oldest message was received: how far back a checkpoint can be rewound, as a time."""
        files = self._ingest.files
        if not files:
            self.oldest_received_ms = self._oldest = None
        elif files[0].first != self._oldest:
            head = [piece async for piece in self._volume.read(places.log_file(files[0].first), 0, HEAD_BYTES)]
            self._oldest, self.oldest_received_ms = files[0].first, received_ms_of(b"".join(head))
