"""Reads the log from the bytes of segments, as journal/FORMAT.md says, from any number of copies of them. Pure.

Whatever is not whole in one copy is looked for in the others. What the newest header's back-links do not reach never
counted.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from sos_client.wire.checksum import crc32c

Objects = Mapping[str, bytes]
"""What one copy has: a segment's name → its bytes."""

FIXED: Final = struct.Struct(">4sBBHIIQQQ16sQIII8s")
CHAINED_BYTES: Final = 76
MAGIC: Final = b"SOSr"
SEGMENT_NAME: Final = re.compile(r"^([0-9a-f]{16})-([0-9a-f]{8})-([0-9a-f]{32})\.seg$")
REWRITTEN: Final = re.compile(r"^(.*\.seg)\.(\d\d)$")
HEADER: Final = 1


class BrokenLogError(Exception):
    """The copies together do not have the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record: what it says, and where it lies."""

    kind: int
    begin: int
    end: int
    chain: bytes
    time_ms: int
    client: bytes
    sequence: int
    meta: Any
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    name: str
    start: int
    epoch: int
    holder: bytes
    previous: str | None
    previous_end: int
    previous_chain: bytes

    @property
    def age(self) -> tuple[int, int, bytes]:
        return self.epoch, self.start, self.holder


def read_log(copies: Sequence[Objects], *, acknowledged: int | None = None) -> list[LogRecord]:
    """All records of the chosen chain that the copies have, up to `acknowledged` if that is given."""
    standing = [_standing(copy) for copy in copies]
    segments = {one.name: one for copy in standing for name in copy if (one := _header_of(name, copy[name]))}
    if not segments:
        raise BrokenLogError("no copy has a whole header")
    newest = max(segments.values(), key=lambda one: one.age)
    chain: list[tuple[_Segment, int | None]] = [(newest, acknowledged)]
    while (previous := chain[0][0].previous) is not None and previous in segments:
        chain.insert(0, (segments[previous], chain[0][0].previous_end))
    records: list[LogRecord] = []
    for segment, stop in chain:
        if records and (records[-1].end, records[-1].chain) != (segment.previous_end, segment.previous_chain):
            raise BrokenLogError(f"{segment.name} does not follow what lies before LSN {records[-1].end}")
        records += _records_of(segment, stop, standing)
    if acknowledged is not None and records[-1].end < acknowledged:
        raise BrokenLogError(f"acknowledged up to LSN {acknowledged}, the copies have it up to {records[-1].end}")
    return records


def _standing(copy: Objects) -> dict[str, bytes]:
    """What counts for each name: an object written once more stands for the one before."""
    best: dict[str, tuple[int, bytes]] = {}
    for name, content in copy.items():
        rewritten = REWRITTEN.match(name)
        original, number = (rewritten[1], int(rewritten[2])) if rewritten else (name, 0)
        if SEGMENT_NAME.match(original) and number >= best.get(original, (0, b""))[0]:
            best[original] = (number, content)
    return {name: content for name, (_, content) in best.items()}


def _header_of(name: str, content: bytes) -> _Segment | None:
    found = SEGMENT_NAME.match(name)
    assert found is not None
    record = next(_whole_records(content, int(found[1], 16), None), None)
    if record is None or record.kind != HEADER:
        return None
    link = record.meta[6]
    return _Segment(
        name=name,
        start=record.begin,
        epoch=record.meta[3],
        holder=record.meta[4],
        previous=None if link is None else link[0],
        previous_end=0 if link is None else link[1],
        previous_chain=bytes(8) if link is None else link[2],
    )


def _records_of(segment: _Segment, stop: int | None, copies: Sequence[Objects]) -> list[LogRecord]:
    """Record by record from whichever copy goes on. With a `stop`, all up to there must be whole."""
    records: list[LogRecord] = []
    at, chain = segment.start, segment.previous_chain
    while stop is None or at < stop:
        before = at
        for copy in copies:
            content = copy.get(segment.name, b"")[at - segment.start :]
            for record in _whole_records(content, at, chain):
                if stop is not None and record.begin >= stop:
                    break
                records.append(record)
                at, chain = record.end, record.chain
        if at == before:
            if stop is not None:
                raise BrokenLogError(f"no copy has the record at LSN {at} of {segment.name}")
            break
    return records


def _whole_records(content: bytes, lsn: int, chain: bytes | None) -> Iterator[LogRecord]:
    """Records as long as they are whole and follow each other; `chain` None: the first one's past is not looked at."""
    at = 0
    while at + FIXED.size <= len(content):
        fixed = content[at : at + FIXED.size]
        (magic, version, kind, reserved, meta_bytes, payload_bytes, where, _acknowledged, time_ms, client, sequence,
         meta_crc, payload_crc, own_crc, after) = FIXED.unpack(fixed)  # fmt: skip
        end = at + FIXED.size + meta_bytes + payload_bytes
        if magic != MAGIC or version != 1 or reserved or where != lsn or crc32c(fixed[:72]) != own_crc:
            return
        if chain is not None and hashlib.blake2b(chain + fixed[:CHAINED_BYTES], digest_size=8).digest() != after:
            return
        meta = content[at + FIXED.size : at + FIXED.size + meta_bytes]
        payload = content[at + FIXED.size + meta_bytes : end]
        if end > len(content) or crc32c(meta) != meta_crc or crc32c(payload) != payload_crc:
            return
        lsn, chain = lsn + end - at, after
        yield LogRecord(
            kind=kind, begin=where, end=lsn, chain=after, time_ms=time_ms, client=client, sequence=sequence,
            meta=msgpack.unpackb(meta, strict_map_key=False), payload=payload,
        )  # fmt: skip
        at = end
