"""Records: what is written is read back; anything else is the one error; every flipped bit is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import DamagedJournalError, JournalCode, JournalError
from journal.records.change import (
    AbandonChange,
    AppendChange,
    Change,
    ChunkChange,
    ClaimChange,
    CommitChange,
    DeleteChange,
    MakeDirectoryChange,
    MarkChange,
    PinChange,
    PutChange,
    RelocateChange,
    RenameChange,
    TrimChange,
    TruncateChange,
    decode_change,
    encode_change,
)
from journal.records.record import (
    FIRST_CHAIN,
    HEADER_BYTES,
    ChainHash,
    Kind,
    Lsn,
    check_meta,
    check_payload,
    decode_header,
    encode_record,
)

NUMBERS = st.integers(0, 2**63 - 1)
PATHS = st.lists(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
        lambda name: name not in {".", ".."}
    ),
    min_size=1,
    max_size=5,
).map("/".join)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
OBJECTS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(PutChange, path=PATHS, modified_ms=st.none() | NUMBERS),
    st.builds(ChunkChange, upload=NUMBERS, offset=NUMBERS),
    st.builds(CommitChange, upload=NUMBERS, path=PATHS, size=NUMBERS, modified_ms=st.none() | NUMBERS),
    st.builds(AbandonChange, upload=NUMBERS),
    st.builds(AppendChange, path=PATHS, size=NUMBERS),
    st.builds(TruncateChange, path=PATHS, size=NUMBERS, tail_crc=st.integers(0, 2**32 - 1)),
    st.builds(DeleteChange, path=PATHS),
    st.builds(RenameChange, source=PATHS, target=PATHS),
    st.builds(MakeDirectoryChange, path=PATHS, modified_ms=st.none() | NUMBERS),
    st.builds(RelocateChange, path=PATHS, object=OBJECTS, offset=NUMBERS),
    st.builds(MarkChange, values=st.dictionaries(TEXTS, TEXTS | NUMBERS, min_size=1, max_size=8)),
    st.builds(TrimChange, lsn=NUMBERS.map(Lsn)),
    st.builds(ClaimChange, path=PATHS, application=TEXTS, start_time=NUMBERS),
    st.builds(PinChange, name=TEXTS, lsn=NUMBERS.map(Lsn), expires_ms=NUMBERS),
)


@given(
    change=CHANGES,
    payload=st.binary(max_size=300),
    lsn=NUMBERS,
    client=st.binary(min_size=16, max_size=16),
    sequence=NUMBERS,
    chain=st.binary(min_size=8, max_size=8).map(ChainHash),
)
def test_what_is_written_is_read_back(
    change: Change, payload: bytes, lsn: int, client: bytes, sequence: int, chain: ChainHash
) -> None:
    data, written = encode_record(
        kind=change.kind,
        lsn=Lsn(lsn),
        acknowledged_lsn=Lsn(lsn // 2),
        time_ms=12345,
        meta=encode_change(change),
        chain=chain,
        payload=payload,
        client=client,
        sequence=sequence,
    )
    header = decode_header(memoryview(data), lsn=Lsn(lsn), before=chain)
    assert header == written
    meta = data[HEADER_BYTES:]
    check_meta(header, meta)
    check_payload(header, payload)
    assert decode_change(header, meta) == change
    assert (header.client, header.sequence, header.time_ms) == (client, sequence, 12345)
    assert header.end_lsn == lsn + len(data) + len(payload)


@given(kind=st.sampled_from([kind for kind in Kind if kind != Kind.HEADER]), meta=st.binary(max_size=60))
def test_any_meta_is_a_change_or_the_one_error(kind: Kind, meta: bytes) -> None:
    _, header = encode_record(kind=kind, lsn=Lsn(0), acknowledged_lsn=Lsn(0), time_ms=0, meta=meta, chain=FIRST_CHAIN)
    try:
        change = decode_change(header, meta)
    except DamagedJournalError:
        return
    assert change.kind == kind


@given(data=st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES + 10))
def test_any_bytes_are_the_one_error(data: bytes) -> None:
    with pytest.raises(DamagedJournalError):
        decode_header(memoryview(data), lsn=Lsn(0), before=FIRST_CHAIN)


def test_every_flipped_bit_of_a_record_is_seen() -> None:
    payload = b"content"
    data, _ = encode_record(
        kind=Kind.PUT, lsn=Lsn(7), acknowledged_lsn=Lsn(3), time_ms=9, meta=encode_change(PutChange(path="a/b")),
        chain=FIRST_CHAIN, payload=payload,
    )  # fmt: skip
    whole = data + payload
    for bit in range(8 * len(whole)):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedJournalError):
            _check(broken, len(data))


def _check(whole: bytearray, payload_at: int) -> None:
    header = decode_header(memoryview(whole), lsn=Lsn(7), before=FIRST_CHAIN)
    check_meta(header, bytes(whole[HEADER_BYTES:payload_at]))
    check_payload(header, bytes(whole[payload_at:]))


def _record(**changed: object) -> bytes:
    values: dict[str, object] = {
        "kind": Kind.TRIM, "lsn": Lsn(100), "acknowledged_lsn": Lsn(50), "time_ms": 1,
        "meta": encode_change(TrimChange(lsn=Lsn(5))), "chain": FIRST_CHAIN,
    }  # fmt: skip
    return encode_record(**(values | changed))[0]  # type: ignore[arg-type]


def test_a_record_moved_elsewhere_is_seen() -> None:
    with pytest.raises(DamagedJournalError, match="belongs at LSN 100"):
        decode_header(memoryview(_record()), lsn=Lsn(0), before=FIRST_CHAIN)


def test_a_record_of_another_history_is_seen() -> None:
    with pytest.raises(DamagedJournalError, match="history") as caught:
        decode_header(memoryview(_record()), lsn=Lsn(100), before=ChainHash(b"\1" * 8))
    assert caught.value.fields["forked"] is True


def test_an_unknown_kind_is_too_new_and_not_damage() -> None:
    with pytest.raises(DamagedJournalError) as caught:
        decode_header(memoryview(_record(kind=200)), lsn=Lsn(100), before=FIRST_CHAIN)
    assert caught.value.code == JournalCode.TOO_NEW


@pytest.mark.parametrize(
    "change",
    [
        PutChange(path="../etc"),
        PutChange(path="a//b"),
        PutChange(path="a\0"),
        PutChange(path="\ud800"),
        PutChange(path="x" * 256),
        DeleteChange(path="/".join("a" * 129)),
        MarkChange(values={}),
        MarkChange(values={"key": "x" * 1000}),
        MarkChange(values={str(n): n for n in range(65)}),
        ClaimChange(path="q", application="", start_time=1),
        TrimChange(lsn=Lsn(-1)),
        TruncateChange(path="a", size=1, tail_crc=2**32),
    ],
)
def test_what_a_reader_would_not_take_is_not_written(change: Change) -> None:
    with pytest.raises(JournalError) as caught:
        encode_change(change)
    assert caught.value.code in {JournalCode.BAD_PATH, JournalCode.BAD_REQUEST}
