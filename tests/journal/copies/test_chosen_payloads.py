"""File content that is made to look like the log: whoever may write a file must not be able to write records with it.

Payloads lie in segments as they are. Nothing looks for a record there by what it looks like: the next one begins where
the one before ends, as a header says whose CRC and chain value are right. So these payloads have all that a record
needs, the chain value included, and the copies are torn and damaged at every place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from journal.copies.local_log import open_local_log
from journal.copies.volume_reader import open_reader
from journal.errors import DamagedJournalError
from journal.records.change import DeleteChange, PutChange, encode_change
from journal.records.record import HEADER_BYTES, ChainHash, Kind, Lsn, encode_record
from journal.records.segment import SegmentReader, decode_segment_header
from journal.takeover.chain_end import assemble
from sos_client.serving.event_log import EventLog
from sos_client.wire.checksum import crc32c
from tests.journal.cluster import new_disk
from tests.journal.copies.test_volume_reader import MemoryCopy
from tests.journal.histories import History

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.records.chain_rules import SegmentFacts
    from journal.records.segment import SegmentHeader

ALL: Final = 0xFFFFFFFF
CRC: Final = 0x50555443  # what the payload is made to have, so that the chain value after it is known before it is made


def tail_for(prefix: bytes, crc: int) -> bytes:
    """Four bytes that give the whole this CRC32C: a linear system of 32 equations."""

    def after(value: int) -> int:
        return crc32c(value.to_bytes(4, "little"), ALL) ^ ALL

    rows = [(after(1 << bit), 1 << bit) for bit in range(32)]
    wanted, solution = crc ^ ALL, 0
    for bit in range(32):
        at = next(index for index, (image, _) in enumerate(rows) if image >> bit & 1)
        image, source = rows.pop(at)
        rows = [(one ^ image, other ^ source) if one >> bit & 1 else (one, other) for one, other in rows]
        if wanted >> bit & 1:
            wanted, solution = wanted ^ image, solution ^ source
    return (solution ^ crc32c(prefix) ^ ALL).to_bytes(4, "little")


def chosen(history: History, *, path: str) -> bytes:
    """A payload for the next record, a put at `path`, that begins with a record which would delete "victim".

    It says that it lies where it does lie, and that it follows the put: its chain value is right.
    """
    meta = encode_change(PutChange(path=path))
    at = Lsn(history.lsn + HEADER_BYTES + len(meta))
    forged = delete_at(at, ChainHash(bytes(8)))
    outer, _ = encode_record(
        kind=Kind.PUT,
        lsn=history.lsn,
        acknowledged_lsn=history.acknowledged,
        time_ms=history.time_ms,
        meta=meta,
        chain=history.chain,
        payload=bytes(len(forged) + 4),
        payload_crc=CRC,
    )
    forged = delete_at(at, ChainHash(outer[HEADER_BYTES - 8 : HEADER_BYTES]))
    return forged + tail_for(forged, CRC)


def delete_at(lsn: Lsn, chain: ChainHash) -> bytes:
    record, _ = encode_record(
        kind=Kind.DELETE,
        lsn=lsn,
        acknowledged_lsn=lsn,
        time_ms=2**40,
        meta=encode_change(DeleteChange(path="victim")),
        chain=chain,
    )
    return record


def attacked() -> tuple[History, bytes, int, int]:
    """A log that ends with such a payload; its one segment, and where the record with the payload begins and ends."""
    history = History()
    history.add(PutChange(path="victim"), b"precious")
    start = history.lsn
    payload = chosen(history, path="evil")
    header = history.add(PutChange(path="evil"), payload)
    assert header.payload_crc == CRC
    reader = SegmentReader(lsn=header.payload_lsn, chain=header.chain)
    reader.feed(payload)
    record = reader.next_record()
    assert record is not None, "whoever began to read there would believe it"
    assert record.header.kind is Kind.DELETE
    (data,) = history.segments.values()
    return history, bytes(data), start, history.lsn


def kinds(data: bytes, *, payloads: bool) -> list[Kind]:
    """What a reader takes of a segment, up to its end or to damage that it cannot pass."""
    reader, taken = SegmentReader(lsn=Lsn(0)), []
    reader.feed(data)
    while not reader.stuck:
        try:
            record = reader.next_record() if payloads or reader.chain is None else reader.skip_payload()
        except DamagedJournalError:
            continue
        if record is None:
            break
        taken.append(record.header.kind)
    return taken


@pytest.mark.parametrize("payloads", [True, False])
def test_a_torn_tail_shows_nothing_of_what_a_payload_says(payloads: bool) -> None:  # noqa: FBT001
    _, data, start, end = attacked()
    for cut in range(start, end):
        taken = kinds(data[:cut], payloads=payloads)
        assert len(taken) == 2 or (len(taken) == 3 and not payloads)
        assert Kind.DELETE not in taken
    assert kinds(data, payloads=payloads) == [Kind.HEADER, Kind.PUT, Kind.PUT]


def test_no_damaged_bit_lets_a_reader_begin_inside_a_payload() -> None:
    """A length, an LSN or a chain value that is another is a damaged header, and nothing says what follows one."""
    _, data, start, _ = attacked()
    for bit in range(8 * HEADER_BYTES):
        harmed = bytearray(data)
        harmed[start + bit // 8] ^= 1 << bit % 8
        assert kinds(bytes(harmed), payloads=True) == [Kind.HEADER, Kind.PUT]


def test_zeros_in_the_place_of_a_header_do_not_either() -> None:
    """As a file system leaves them where a block was not written."""
    _, data, start, _ = attacked()
    harmed = data[:start] + bytes(HEADER_BYTES) + data[start + HEADER_BYTES :]
    assert kinds(harmed, payloads=True) == [Kind.HEADER, Kind.PUT]


async def test_a_takeover_and_a_reader_take_the_payload_for_content_alone() -> None:
    history, data, start, end = attacked()
    (name,) = history.segments
    facts = facts_of(data)
    whole = MemoryCopy("whole", {name: data})
    for cut in (*range(start, end, 7), start + HEADER_BYTES, end - 1):
        torn = MemoryCopy("torn", {name: data[:cut]})
        for copies, lsn in (([torn], start), ([torn, whole], end), ([whole, torn], end)):
            assembly = await assemble(facts, copies, None)
            assert assembly.end.end == lsn
            assert Kind.DELETE not in {record.header.kind for record in assembly.records}
        reader = await open_reader("payments", [torn, whole])
        records = [record.header.kind async for record in reader.records(0)]
        assert Kind.DELETE not in records
    history.open_segment(epoch=2)
    later = MemoryCopy("later", {name: bytes(data) for name, data in history.segments.items()})
    image = await (await open_reader("payments", [torn, later])).image_at(Lsn(end))
    assert (image.tree.stat("victim").size, image.tree.stat("evil").crc) == (8, CRC)


def facts_of(data: bytes) -> Sequence[SegmentFacts]:
    reader = SegmentReader(lsn=Lsn(0))
    reader.feed(data)
    record = reader.next_record()
    assert record is not None
    header: SegmentHeader = decode_segment_header(record.meta)
    return [header.facts]


async def test_a_hole_in_what_was_fetched_is_not_taken_for_content() -> None:
    """Ranges that were fetched lie in one file. A content with the CRC of zeros would come back as zeros."""
    content = b"x" * 96 + tail_for(b"x" * 96, crc32c(bytes(100)))
    assert crc32c(content) == crc32c(bytes(100))
    async with open_local_log(new_disk(), "payments", EventLog()) as local:
        await local.keep("segment", 500, b"behind it")
        assert await local.read("segment", 500, 9) == b"behind it"
        assert await local.read("segment", 100, 100) == b""
