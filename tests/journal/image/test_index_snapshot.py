"""Index snapshots: which one counts, and what is not a snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import DamagedJournalError, JournalCode
from journal.image.image import Image
from journal.image.index_snapshot import (
    SNAPSHOT_VERSION,
    SnapshotName,
    SnapshotObject,
    checked_snapshot,
    decode_snapshot,
    encode_snapshot,
    name_of_snapshot,
    parse_snapshot_name,
    snapshots_on_chain,
)
from journal.records.change import ChunkChange, PutChange
from journal.records.record import ChainHash, Epoch, Lsn
from journal.records.segment import SegmentReader
from sos_client.wire.checksum import crc32c
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.names import check_name
from tests.journal.histories import History


def _image() -> Image:
    history, image = History(), Image()
    history.add(PutChange(path="a/x"), b"1")
    history.add(PutChange(path="a/empty"))
    history.add(ChunkChange(upload=3, offset=0), b"22")
    reader = SegmentReader(lsn=Lsn(0))
    reader.feed(next(iter(history.segments.values())))
    while (record := reader.next_record()) is not None:
        image.apply_record(record)
    return image


def _named(lsn: int, chain: bytes, epoch: int = 1) -> SnapshotName:
    return SnapshotName(lsn=Lsn(lsn), epoch=Epoch(epoch), chain=ChainHash(chain))


@given(lsn=st.integers(0, 2**63 - 1), epoch=st.integers(1, 2**32 - 1), chain=st.binary(min_size=8, max_size=8))
def test_a_name_says_which_moment_of_which_history(lsn: int, epoch: int, chain: bytes) -> None:
    name = _named(lsn, chain, epoch)
    assert parse_snapshot_name(check_name(str(name))) == name


def test_only_snapshots_on_the_chosen_chain_count() -> None:
    good, forked = b"\1" * 8, b"\2" * 8
    boundaries = {100: good, 200: good, 300: good}
    names = [_named(100, good), _named(200, forked, 2), _named(200, good, 3), _named(250, good), _named(300, good)]
    texts = [*map(str, names), "0-readme.txt"]
    assert snapshots_on_chain(texts, boundaries, lsn=299) == [names[2], names[0]]
    assert snapshots_on_chain(texts, boundaries, lsn=99) == []


def test_the_name_is_that_of_the_image() -> None:
    image = _image()
    assert name_of_snapshot(image, epoch=Epoch(9)) == SnapshotName(lsn=image.lsn, epoch=Epoch(9), chain=image.chain)


def test_a_snapshot_is_what_its_name_says() -> None:
    image = _image()
    data, name = encode_snapshot(image), name_of_snapshot(image, epoch=Epoch(9))
    assert checked_snapshot(str(name), data).lsn == image.lsn
    assert SnapshotObject(name=str(name), size=len(data)).lsn == image.lsn
    for wrong in (_named(image.lsn + 1, image.chain), _named(image.lsn, b"12345678"), "no-snapshot"):
        with pytest.raises(DamagedJournalError):
            checked_snapshot(str(wrong), data)


def test_every_flipped_bit_and_every_missing_byte_is_seen() -> None:
    data = encode_snapshot(_image())
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        if 40 <= bit < 64:
            continue  # reserved, and not read
        with pytest.raises(DamagedJournalError):
            decode_snapshot(bytes(broken))
    for size in range(len(data)):
        with pytest.raises(DamagedJournalError):
            decode_snapshot(data[:size])
    with pytest.raises(DamagedJournalError):
        decode_snapshot(data + b"\0")


def test_a_newer_version_is_said_to_be_newer() -> None:
    data = bytearray(encode_snapshot(_image()))
    data[4] = SNAPSHOT_VERSION + 1
    with pytest.raises(DamagedJournalError) as caught:
        decode_snapshot(bytes(data))
    assert caught.value.code == JournalCode.TOO_NEW


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.text(max_size=6) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=12,
)


def _with(index: int, value: object) -> bytes:
    """A snapshot in which one value is another one, with a CRC that fits."""
    data = encode_snapshot(_image())
    values = unpack(data[20:], array_max=1000, string_bytes_max=1000, binary_bytes_max=5000)
    assert isinstance(values, list)
    values[index] = value
    body = pack(values)
    return data[:8] + len(body).to_bytes(8, "big") + crc32c(body).to_bytes(4, "big") + body


@given(index=st.integers(0, 12), junk=_JUNK)
def test_any_value_in_a_snapshot_is_taken_or_the_one_error(index: int, junk: object) -> None:
    try:
        image = decode_snapshot(_with(index, junk))
    except DamagedJournalError:
        return
    assert isinstance(image, Image)


_CLIENT = b"c" * 16


@pytest.mark.parametrize("given", [None, True, ["a", 1, 2, 3], ["a", 1, 2, None]])
def test_answers_are_restored_as_they_were(given: object) -> None:
    answers = [[_CLIENT, 1, 1_000, None], [_CLIENT, 2, 1_001, given]]
    image = decode_snapshot(_with(12, answers))
    assert image.operations.answers() == [pack(answer) for answer in answers]


@pytest.mark.parametrize(
    "answer",
    [
        7,
        [_CLIENT, 1, 1],
        [b"short", 1, 1, None],
        ["c" * 16, 1, 1, None],
        [_CLIENT, "1", 1, None],
        [_CLIENT, 1, None, None],
        [_CLIENT, -1, 1, None],
        [_CLIENT, 1, -1, None],
        [_CLIENT, 2**63, 1, None],
        [_CLIENT, 1, 1, "file"],
        [_CLIENT, 1, 1, ["file", 1, 1]],
        [_CLIENT, 1, 1, [b"file", 1, 1, 1]],
        [_CLIENT, 1, 1, ["file", "1", 1, 1]],
        [_CLIENT, 1, 1, ["file", 1, None, 1]],
        [_CLIENT, 1, 1, ["file", 1, 1, b"crc"]],
        [_CLIENT, 1, 1, ["file", -1, 1, 1]],
        [_CLIENT, 1, 1, ["file", 1, 2**63, 1]],
        [_CLIENT, 1, 1, ["file", 1, 1, -1]],
    ],
)
def test_an_answer_that_nobody_gave_is_damage(answer: object) -> None:
    with pytest.raises(DamagedJournalError, match="makes no sense"):
        decode_snapshot(_with(12, [answer]))
