"""The format of an ingest volume: FORMAT.md's example, what is read back, what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import connectors.ingest
from connectors.ingest import places
from connectors.ingest.block import HEAD_BYTES, Block, block_head, blocks, replay
from connectors.ingest.known_streams import KnownStreams, decode_streams, encode_streams
from connectors.wire.codec import encode
from connectors.wire.frames import EosFrame, MessageFrame, NotifyFrame
from connectors.wire.limits import NOTHING_SEEN
from journal.errors import JournalCode, JournalError

DOCUMENT = (Path(connectors.ingest.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")
NOTIFY = NotifyFrame(stream_id=1, stream_name="s", point_of_reference=NOTHING_SEEN)


def example() -> bytes:
    block = re.search(r"```hex\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block
    digits = "".join(re.match(r"((?:[0-9a-f]+ )*[0-9a-f]+)", line)[0] for line in block[1].splitlines())  # type: ignore[index]
    return bytes.fromhex(digits)


def block_of(*frames: MessageFrame | NotifyFrame | EosFrame, rows: int, first: int = 0) -> bytes:
    data = b"".join(map(encode, frames))
    return block_head(first_sequence=first, rows=rows, received_ms=1790000001000, frames_bytes=len(data)) + data


def test_the_example_is_the_format() -> None:
    assert example() == block_of(NOTIFY, MessageFrame(1, 10, 0, b"", b"hello"), rows=1)
    (block,) = blocks(memoryview(example()))
    assert (block.first_sequence, block.end_sequence, block.received_ms) == (0, 1, 1790000001000)
    assert block.size == len(example())
    streams = KnownStreams()
    replay(block, streams)
    assert (streams.names, streams.points) == ({1: "s"}, {1: 10})


def test_the_names_are_those_of_the_document() -> None:
    assert places.log_file(7) == "ingest/log/00000000000000000007"
    assert places.streams_file(7) == "ingest/streams/00000000000000000007"
    assert places.sequence_of(places.log_file(places.SEQUENCE_MAX)) == places.SEQUENCE_MAX
    assert places.sequence_of("ingest/log/7") is None
    assert places.sequence_of("ingest/log/0000000000000000000x") is None
    assert repr(places.FORMAT_TEXT.decode())[1:-1] in DOCUMENT


def test_a_message_without_payload_moves_the_point_and_is_no_row() -> None:
    data = block_of(NOTIFY, MessageFrame(1, 3, 0, b"key", b""), MessageFrame(1, 4, 0, b"key", b"x"), rows=1)
    streams = KnownStreams()
    for block in blocks(memoryview(data)):
        replay(block, streams)
    assert streams.points == {1: 4}


def test_the_first_name_counts() -> None:
    streams = KnownStreams()
    assert streams.introduce(1, "a")
    assert not streams.introduce(1, "b")
    assert streams.names == {1: "a"}
    assert streams.point_of_reference(1) == streams.point_of_reference(2) == NOTHING_SEEN


def test_a_block_whose_end_is_not_there_is_none() -> None:
    whole = example()
    for end in range(len(whole)):
        assert list(blocks(memoryview(whole[:end]))) == []
    assert len(list(blocks(memoryview(whole + whole[:-1])))) == 1


@pytest.mark.parametrize(
    ("damaged", "code"),
    [
        (b"SOSx" + bytes(28), JournalCode.DAMAGED),
        (b"SOSm\x02" + bytes(27), JournalCode.TOO_NEW),
    ],
)
def test_a_head_that_is_none(damaged: bytes, code: JournalCode) -> None:
    with pytest.raises(JournalError) as caught:
        list(blocks(memoryview(damaged)))
    assert caught.value.code is code


@pytest.mark.parametrize(
    "data",
    [
        block_of(NOTIFY, rows=1),
        block_of(EosFrame(stream_id=1), rows=0),
        block_head(first_sequence=0, rows=0, received_ms=0, frames_bytes=6) + b"\0\0\0\xff\5x",
        block_head(first_sequence=0, rows=0, received_ms=0, frames_bytes=8) + b"\0\0\0\4\3abc",
        block_head(first_sequence=0, rows=0, received_ms=0, frames_bytes=3) + b"\0\0\0",
        block_head(first_sequence=0, rows=0, received_ms=0, frames_bytes=6) + b"\0\0\0\2\5x",
    ],
    ids=["too few rows", "another frame", "cut", "broken notify", "crumbs", "short message"],
)
def test_frames_that_are_not_what_the_head_says(data: bytes) -> None:
    (block,) = blocks(memoryview(data))
    with pytest.raises(JournalError, match=r"block|frame"):
        replay(block, KnownStreams())


def known() -> KnownStreams:
    streams = KnownStreams()
    for stream_id, name, point in ((1, "a", -1), (2, "ä" * 500, 0), (NOTHING_SEEN, "", NOTHING_SEEN - 1)):
        streams.introduce(stream_id, name)
        streams.points[stream_id] = point
    return streams


def test_streams_there_and_back() -> None:
    read = decode_streams(encode_streams(known()))
    assert (read.names, read.points) == (known().names, known().points)
    copy = read.copy()
    copy.introduce(9, "new")
    assert 9 not in read.names


def test_streams_that_are_damaged() -> None:
    whole = encode_streams(known())
    twice = encode_streams(known())[:8] + (2).to_bytes(8, "big") + whole[16:35] * 2
    for data in [*(whole[:end] for end in range(len(whole))), whole + b"x", b"SOSx" + whole[4:], twice]:
        with pytest.raises(JournalError) as caught:
            decode_streams(data)
        assert caught.value.code is JournalCode.DAMAGED


def test_the_size_of_a_block() -> None:
    assert Block(0, 0, 0, memoryview(b"abc")).size == HEAD_BYTES + 3
