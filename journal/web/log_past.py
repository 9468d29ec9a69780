"""What only the log knows: batches that Spark has purged, who took the volume over, who claimed what.

Read beside the serving, a little at a time, the newest segment first; never more than once.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from journal.checkpoint.layout import batch_of
from journal.owner.query_facts import BatchTimes
from journal.records.change import (
    CONTENT_KINDS,
    RESTORED,
    ClaimChange,
    MarkChange,
    ReleaseChange,
    content_path,
    decode_change,
)
from journal.records.record import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from journal.copies.volume_reader import VolumeReader
    from journal.records.record import Record
    from journal.volume import MarkValue

BATCHES_MAX: Final = 20_000
"""Of all queries of a volume together; the oldest are left out."""
HAPPENED_MAX: Final = 200
RECORDS_AT_ONCE: Final = 50
QUIET_PAUSE_SECONDS: Final = 0.005
BUSY_PAUSE_SECONDS: Final = 0.2
"""After each of this many records: a quarter of a per cent of the processor while many batches are written."""
_LOOKED_AT: Final = CONTENT_KINDS | {Kind.CLAIM, Kind.RELEASE, Kind.MARK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Something that the log keeps: when, what, who."""

    time_ms: int
    event: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreProof:
    """When somebody has restored what the log keeps, and compared it; `path` is "/" for all of the volume."""

    time_ms: int
    path: str
    files: int
    bytes: int


@dataclass(slots=True)
class LogPast:
    """What was read so far."""

    batches: dict[str, dict[int, BatchTimes]] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)
    restored: RestoreProof | None = None
    """The last one."""
    read_bytes: int = 0
    whole_bytes: int = 0
    version: int = 0
    _read: dict[int, int] = field(default_factory=dict)
    """Up to where each segment was read, by its start."""
    _batch_count: int = 0

    async def read(self, reader: VolumeReader, *, is_busy: Callable[[], bool]) -> None:
        """Everything up to where the reader's log ends, from the newest segment back to the oldest. May be cancelled,
        and goes on where it was."""
        lengths = reader.lengths()
        self.whole_bytes = sum(lengths.values())
        self._note_headers(reader)
        count = 0
        for start, length in sorted(lengths.items(), reverse=True):
            done, stop = self._read.get(start, start), start + length
            if done >= stop:
                continue
            async with aclosing(reader.records(done, stop)) as records:
                async for record in records:
                    self._note(record)
                    self._read[start] = record.header.end_lsn
                    count += 1
                    if count % RECORDS_AT_ONCE == 0:
                        self._tell(lengths)
                        await trio.sleep(BUSY_PAUSE_SECONDS if is_busy() else QUIET_PAUSE_SECONDS)
            self._read[start] = max(self._read.get(start, 0), stop)
        self._read = {start: end for start, end in self._read.items() if start in lengths}
        self._tell(lengths)

    def _tell(self, lengths: dict[int, int]) -> None:
        self.read_bytes = sum(max(0, self._read.get(start, start) - start) for start in lengths)
        self.version += 1

    def _note_headers(self, reader: VolumeReader) -> None:
        known = {(one.time_ms, one.event) for one in self.happened}
        epoch = 0
        for link in reader.chain.links:
            header, time_ms = reader.chain.headers[link.segment], reader.chain.times[link.segment]
            if header.epoch != epoch and epoch:
                holder = header.holder.hex()[:12]
                self._happen(known, time_ms, "taken over", f"epoch {header.epoch}, by holder {holder}…")
            epoch = header.epoch
            if header.accepted_loss:
                self._happen(known, time_ms, "loss accepted", header.accepted_loss)

    def _happen(self, known: set[tuple[int, str]], time_ms: int, event: str, text: str) -> None:
        if (time_ms, event) not in known:
            self.happened.append(Happened(time_ms=time_ms, event=event, text=text))
            self.happened.sort(key=lambda one: -one.time_ms)
            del self.happened[HAPPENED_MAX:]

    def _note(self, record: Record) -> None:
        header = record.header
        if header.kind not in _LOOKED_AT:
            return
        change = decode_change(header, record.meta)
        content = content_path(change)
        if content is not None and ("offsets/" in content or "commits/" in content):
            self._note_batch(content, header.time_ms)
        match change:
            case ClaimChange(path=path, application=application):
                self._happen(set(), header.time_ms, "claim", f"{path or '/'} by {application}")
            case ReleaseChange(path=path):
                self._happen(set(), header.time_ms, "claim released", path or "/")
            case MarkChange(values=values) if RESTORED in values:
                self._note_restored(values, header.time_ms)
            case _:
                pass

    def _note_restored(self, values: Mapping[str, MarkValue], time_ms: int) -> None:
        if self.restored is None or time_ms > self.restored.time_ms:
            files, size = values.get(f"{RESTORED}_files", 0), values.get(f"{RESTORED}_bytes", 0)
            self.restored = RestoreProof(
                time_ms=time_ms,
                path=str(values[RESTORED]),
                files=files if isinstance(files, int) else 0,
                bytes=size if isinstance(size, int) else 0,
            )

    def _note_batch(self, path: str, time_ms: int) -> None:
        found = batch_of(path)
        if found is None:
            return
        query, log, number = found
        batches = self.batches.setdefault(query, {})
        if number not in batches:
            if self._batch_count < BATCHES_MAX:
                self._batch_count += 1
            elif batches and number > (oldest := min(batches)):
                del batches[oldest]
            else:
                return
            batches[number] = BatchTimes(number=number)
        if log == "offsets":
            batches[number].planned_ms = time_ms
        else:
            batches[number].committed_ms = time_ms
