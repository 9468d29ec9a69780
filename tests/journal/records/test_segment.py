"""Segments: names, headers, and the reader that tells a torn tail from damage."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import DamagedJournalError, JournalCode
from journal.kept_past import Retention
from journal.records.change import MarkChange, PutChange
from journal.records.membership import Configuration, Membership
from journal.records.record import FIRST_LSN, HEADER_BYTES, Epoch, Lsn, Record
from journal.records.segment import (
    SegmentHeader,
    SegmentName,
    SegmentReader,
    decode_segment_header,
    encode_segment_header,
    parse_segment_name,
    read_end,
)
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.names import check_name
from tests.journal.histories import MEMBERS, History


def _history() -> History:
    history = History()
    history.add(PutChange(path="a"), b"first")
    history.add(MarkChange(values={"batch": 7}))
    history.add(PutChange(path="b/c"), bytes(500))
    return history


def _segment(history: History) -> bytes:
    return bytes(next(reversed(history.segments.values())))


def _read_all(reader: SegmentReader) -> list[Record]:
    records = []
    while (record := reader.next_record()) is not None:
        records.append(record)
    return records


@given(start=st.integers(0, 2**63 - 1), epoch=st.integers(1, 2**32 - 1), holder=st.binary(min_size=16, max_size=16))
def test_a_name_says_where_when_and_whose(start: int, epoch: int, holder: bytes) -> None:
    name = SegmentName(start=Lsn(start), epoch=Epoch(epoch), holder=holder)
    assert parse_segment_name(check_name(str(name))) == name


@given(st.text(max_size=70))
def test_other_names_are_no_segments(text: str) -> None:
    assert parse_segment_name(text) is None


def test_names_sort_in_the_order_of_the_log() -> None:
    names = [SegmentName(start=Lsn(lsn), epoch=Epoch(1), holder=bytes(16)) for lsn in (0, 255, 256, 10**12)]
    assert sorted(map(str, names)) == [str(name) for name in names]


@given(size=st.integers(1, 700))
def test_pieces_of_any_size_give_the_same_records(size: int) -> None:
    history = _history()
    data, reader, records = _segment(history), SegmentReader(lsn=Lsn(0)), []
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        records += _read_all(reader)
    assert [record.header for record in records] == history.headers
    assert bytes(records[1].payload) == b"first"
    assert (reader.lsn, reader.chain, reader.buffered_bytes) == (history.lsn, history.chain, 0)


def test_reading_starts_at_any_record_whose_chain_is_known() -> None:
    history = _history()
    before = history.headers[1]
    reader = SegmentReader(lsn=before.end_lsn, chain=before.chain, payloads=False)
    reader.feed(_segment(history)[before.end_lsn :])
    assert [record.header for record in _read_all(reader)] == history.headers[2:]


def test_the_next_segment_continues_the_chain() -> None:
    history = _history()
    end, chain = history.lsn, history.chain
    header = history.open_segment(epoch=2)
    assert header.base is not None
    assert (header.base.end, header.base.chain) == (end, chain)
    reader = SegmentReader(lsn=end)
    reader.feed(_segment(history))
    (record,) = _read_all(reader)
    assert decode_segment_header(record.meta) == header
    assert header.facts.start == end


def test_every_truncation_is_a_torn_tail_if_nothing_was_synced_there() -> None:
    history = _history()
    data = _segment(history)
    whole = [0, *(header.end_lsn for header in history.headers)]
    for size in range(len(data) + 1):
        reader = SegmentReader(lsn=Lsn(0))
        reader.feed(data[:size])
        _read_all(reader)
        last = max(end for end in whole if end <= size)
        end = read_end(reader, synced_lsn=Lsn(last))
        assert (end.lsn, end.torn_bytes) == (last, size - last)
        if size < len(data):
            with pytest.raises(DamagedJournalError, match="synced up to"):
                read_end(reader, synced_lsn=Lsn(size + 1))


def test_every_flipped_bit_is_damage_below_the_synced_mark_and_a_tail_beyond_it() -> None:
    history = _history()
    data = _segment(history)
    for bit in range(0, 8 * len(data), 3):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        hit = next(header for header in history.headers if bit // 8 < header.end_lsn)
        reader = SegmentReader(lsn=Lsn(0))
        reader.feed(broken)
        with pytest.raises(DamagedJournalError) as caught:
            _read_all(reader)
        with pytest.raises(DamagedJournalError) as damage:
            read_end(reader, synced_lsn=hit.end_lsn, error=caught.value)
        assert damage.value.fields.get("lsn", hit.lsn) == hit.lsn
        if caught.value.code == JournalCode.DAMAGED:
            assert read_end(reader, synced_lsn=hit.lsn, error=caught.value) is not None


def test_zeros_after_the_synced_mark_are_a_tail() -> None:
    history = _history()
    reader = SegmentReader(lsn=Lsn(0))
    reader.feed(_segment(history) + bytes(4096))
    with pytest.raises(DamagedJournalError) as caught:
        _read_all(reader)
    end = read_end(reader, synced_lsn=history.lsn, error=caught.value)
    assert (end.lsn, end.chain, end.torn_bytes) == (history.lsn, history.chain, 4096)


def test_reading_goes_on_behind_a_damaged_payload_but_not_behind_a_damaged_header() -> None:
    history = _history()
    data = bytearray(_segment(history))
    data[history.headers[1].payload_lsn] ^= 1
    reader = SegmentReader(lsn=Lsn(0))
    reader.feed(data)
    reader.next_record()
    with pytest.raises(DamagedJournalError, match="file bytes"):
        reader.next_record()
    assert [record.header for record in _read_all(reader)] == history.headers[2:]
    data[history.headers[2].lsn + HEADER_BYTES - 1] ^= 1
    reader = SegmentReader(lsn=history.headers[1].end_lsn, chain=history.headers[1].chain)
    reader.feed(data[history.headers[1].end_lsn :])
    assert not reader.stuck
    for _ in range(2):
        with pytest.raises(DamagedJournalError, match="history"):
            reader.next_record()
        assert reader.stuck


def test_a_segment_must_open_with_its_header() -> None:
    history = _history()
    first = history.headers[1]
    reader = SegmentReader(lsn=first.lsn)
    reader.feed(_segment(history)[first.lsn :])
    with pytest.raises(DamagedJournalError, match="open with a header"):
        reader.next_record()


def test_a_header_round_trips_with_a_change_of_members_on_its_way() -> None:
    header = History().open_segment()
    changed = dataclasses.replace(
        header,
        membership=Membership(
            configuration=Configuration(members=MEMBERS[:2], acknowledgements=2),
            replaces=header.membership.configuration,
        ),
        retention=Retention(seconds=3600, bytes=10**9),
        accepted_loss="LSN 5 to 9, by the operator",
    )
    assert decode_segment_header(encode_segment_header(changed)) == changed


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_the_one_error(data: bytes) -> None:
    with pytest.raises(DamagedJournalError):
        decode_segment_header(data)


@given(index=st.integers(0, 10), junk=st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=40) |
       st.lists(st.integers(0, 5), max_size=3))  # fmt: skip
def test_any_value_in_a_header_is_taken_or_refused(index: int, junk: object) -> None:
    header = History().open_segment()
    values = unpack(encode_segment_header(header), string_bytes_max=1000)
    assert isinstance(values, list)
    if isinstance(junk, int) and not -(2**63) <= junk < 2**64:
        return
    values[index] = junk
    try:
        decoded = decode_segment_header(pack(values))
    except DamagedJournalError:
        return
    assert isinstance(decoded, SegmentHeader)


def test_payloads_can_be_stepped_over() -> None:
    history = History()
    history.add(PutChange(path="a"), bytes(1000))
    history.add(PutChange(path="b"), b"short")
    data = bytes(next(iter(history.segments.values())))
    opening, large, short = history.headers
    reader = SegmentReader(lsn=FIRST_LSN)
    reader.feed(data[: opening.end_lsn])
    assert reader.skip_payload() is None, "the first record of a segment is read whole"
    assert reader.next_record() is not None
    reader.feed(data[large.lsn : large.payload_lsn - 1])
    assert reader.skip_payload() is None, "its meta is not there yet"
    assert reader.buffered_bytes == large.payload_lsn - 1 - large.lsn
    reader.feed(data[large.payload_lsn - 1 : large.payload_lsn + 10])
    skipped = reader.skip_payload()
    assert skipped is not None
    assert (skipped.header, skipped.payload, reader.lsn) == (large, b"", large.end_lsn)
    reader.feed(data[short.lsn :])
    assert reader.buffered_bytes == len(data) - short.lsn
    skipped = reader.skip_payload()
    assert skipped is not None
    assert (skipped.header, reader.buffered_bytes) == (short, 0)
