"""What a start makes of the log files it finds: which count, how far, and what they add to the catalog's contents.

Pure: decisions over headers and bytes. Reading and repairing files is in `starting.py`. Rules: `STORAGE.md`, section
"Recovery".
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

from sos_client.wire.checksum import crc32c, crc32c_combine
from sos_client.wire.errors import DamagedError
from sos_server.storage.log_format import NOTE, ROW_NUMBER, LogHeader, LogScan, scan_log
from sos_server.storage.rows import ObjectDeleted, ObjectSealed, decode_row
from sos_server.storage.run_notes import decode_note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sos_server.storage.catalog_format import CatalogCheckpoint
    from sos_server.storage.contents import Contents, StoredObject
    from sos_server.storage.log_format import ScannedBatch


@dataclasses.dataclass(frozen=True, slots=True)
class Generation:
    """A generation that counts, up to `end`; None for the newest, whose end only its batches say."""

    header: LogHeader
    end: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class LogChain:
    """The generations that count, oldest first, and a sentence for each thing that is missing."""

    generations: list[Generation]
    reports: list[str]


def chain_of(headers: Iterable[LogHeader], checkpoint: CatalogCheckpoint, *, headless: Iterable[int]) -> LogChain:
    """The back-links from the newest header down to the catalog's `replay_from`.

    `headless` are generations of batches in files whose header is damaged. Something is missing when a link leads to
    a generation that is not there, when there is none that the catalog or a headless file knows, or when the catalog
    is older than one that a header knew. What is there is then still in the chain.
    """
    by_generation = {header.generation: header for header in headers if header.generation >= checkpoint.replay_from}
    newest = max(by_generation, default=0)
    known = {generation for generation in headless if generation > newest} | {checkpoint.open_generation} - {0}
    reports = [_missing(generation) for generation in sorted(known - set(by_generation))]
    sequence = max((header.catalog_sequence for header in by_generation.values()), default=0)
    if sequence > checkpoint.sequence:
        reports.append(f"the catalog ends with record {checkpoint.sequence}, but there was a record {sequence}")
    chain: list[Generation] = []
    generation, end = newest, None
    while generation >= checkpoint.replay_from:
        if (header := by_generation.get(generation)) is None:
            reports.append(_missing(generation))
            generation, end = max((g for g in by_generation if g < generation), default=0), None
        else:
            chain.append(Generation(header, end))
            generation, end = header.previous_generation, header.previous_end
    return LogChain(chain[::-1], reports)


def _missing(generation: int) -> str:
    return f"log generation {generation} is needed and is not there, or its header is damaged"


class Replay:
    """Applies batches, in order, to the contents that the catalog gave."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.deleted: list[int] = []
        """Objects whose files may still be there."""
        self.reports: list[str] = []
        """What was found damaged, a sentence each."""
        self.lost_rows = False
        """Whether claims, seals, deletions or names may be among what is gone."""

    def scan(self, log: memoryview, generation: Generation) -> LogScan:
        """Apply a whole log file."""
        scan = LogScan()
        number, nonce = generation.header.generation, generation.header.nonce
        losses = 0
        for batch in scan_log(log, generation=number, nonce=nonce, end=generation.end, scan=scan):
            if len(scan.damage) > losses:
                losses = len(scan.damage)
                self.suspect()
            self._apply(log, batch, number)
        if len(scan.damage) > losses:
            self.suspect()
        if scan.torn is not None:
            self._note_cut(log, scan.torn)
        self.reports += [
            f"log generation {number}: the synced batch at byte {place} is damaged" for place in scan.damage
        ]
        return scan

    def suspect(self) -> None:
        """A part of the log is gone, nobody knows whose: what may have lost bytes at its end is marked as damaged."""
        self.lost_rows = True
        for number, stored in self.contents.objects.items():
            if stored.sealed_time is None and not stored.damaged:
                stored.damaged = True
                self.contents.changed.add(number)

    def accept(self) -> None:
        """An operator does without what is gone. If claims may be, who rests on one must not find it by the old name.

        The same damage gives the same incarnations again, for a start that ended before its first checkpoint.
        """
        if not self.lost_rows:
            return
        self.contents.make_others(hashlib.blake2b("\n".join(self.reports).encode()).digest())
        self.reports.append(
            "claims, seals and deletions may be among what is lost: each namespace has another incarnation now, so "
            "that no volume counts this server as its member before it was replaced"
        )

    def _apply(self, log: memoryview, batch: ScannedBatch, generation: int) -> None:
        for (number, offset, _, crc), position, payload in batch.payloads(log):
            whole = crc32c(payload) == crc
            if number & NOTE:
                self._add_note(number ^ NOTE, offset, payload if whole else b"", generation)
            elif number != ROW_NUMBER:
                self._add_bytes(number, offset, payload, crc, generation, position, whole=whole)
            elif whole:
                self._add_row(payload)
            else:
                self.lost_rows = True
                self.reports.append(f"log generation {generation}: the row at byte {position} is damaged")

    def _add_row(self, payload: memoryview) -> None:
        """Apply a row. One that rests on rows that were lost is lost with them."""
        try:
            row = decode_row(payload)
            self.contents.apply(row)
        except DamagedError as error:
            self.lost_rows = True
            self.reports.append(str(error))
            return
        if isinstance(row, ObjectDeleted):
            self.deleted.append(row.number)
        elif isinstance(row, ObjectSealed):
            self._check_sealed(row)

    def _check_sealed(self, row: ObjectSealed) -> None:
        """A sealed object that is not as long as its row says has lost bytes with a batch before it."""
        stored = self.contents.objects.get(row.number)
        if stored is not None and stored.size < row.size:
            stored.damaged = True
            where = f"{stored.namespace.name}/{stored.name}"
            self.reports.append(f"object {where} was sealed with {row.size} bytes, {stored.size} are left")

    def _add_bytes(
        self, number: int, offset: int, payload: memoryview, crc: int, generation: int, position: int, *, whole: bool
    ) -> None:
        stored = self.contents.objects.get(number)
        if stored is None or offset + len(payload) <= stored.copied:
            return
        if offset != stored.size:
            self._lose(stored, f"bytes from offset {stored.size} to {offset} were lost from the log")
            return
        if not whole:
            stored.damaged = True
            self.reports.append(f"object {stored.namespace.name}/{stored.name}: damaged at offset {offset}, in the log")
        stored.logged_bytes().add(offset, len(payload), crc, generation, position)
        joined = crc32c(payload, stored.crc) if whole else crc32c_combine(stored.crc, crc, len(payload))
        stored.namespace.used_bytes += len(payload)
        stored.grow(offset + len(payload), joined)
        self.contents.changed.add(number)

    def _add_note(self, number: int, offset: int, payload: memoryview | bytes, generation: int) -> None:
        """A run, synced in the object's own file. Without its note nobody knows how long it is."""
        stored = self.contents.objects.get(number)
        if stored is None or offset < stored.copied:
            return
        note = decode_note(offset, payload)
        if note is None:
            self._lose(stored, f"what the log says of a run at offset {offset} is damaged")
        elif offset != stored.size:
            self._lose(stored, f"bytes from offset {stored.size} to {offset} were lost from the log")
        else:
            stored.logged_bytes().add_note(note, generation)
            stored.namespace.used_bytes += note.length
            stored.grow(note.end, note.crc_after(stored.crc))
            self.contents.changed.add(number)

    def _lose(self, stored: StoredObject, what: str) -> None:
        stored.damaged = True
        stored.read_only = what
        self.reports.append(f"object {stored.namespace.name}/{stored.name}: {what}")

    def _note_cut(self, log: memoryview, torn: ScannedBatch) -> None:
        """Say of each object how much was received and never acknowledged, as far as the torn batch still tells."""
        for (number, offset, length, _), _, payload in torn.payloads(log):
            note = decode_note(offset, payload) if number & NOTE else None
            if number != ROW_NUMBER and (stored := self.contents.objects.get(number & ~NOTE)) is not None:
                stored.cut_bytes += note.length if note is not None else length
                self.contents.changed.add(stored.number)
