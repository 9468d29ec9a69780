"""The splitter: in whatever pieces bytes come in, the same frames come out, and never more than one is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sos_client.wire.errors import ProtocolError
from sos_client.wire.frames import FrameSplitter, frame_header

FRAMES = [(1, b""), (2, b"x"), (3, b"hello"), (255, bytes(1000)), (7, b"\x00" * 5), (8, b"")]
STREAM = b"".join(frame_header(code, len(body)) + body for code, body in FRAMES)


def drain(splitter: FrameSplitter) -> list[tuple[int, bytes]]:
    frames = []
    while (frame := splitter.next_frame()) is not None:
        frames.append((frame[0], bytes(frame[1])))
    return frames


def test_a_frame_is_length_type_body() -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    splitter.feed(b"\x00\x00\x00\x04\x09abc\x00\x00\x00\x01\x0a")
    assert drain(splitter) == [(9, b"abc"), (10, b"")]
    assert frame_header(9, 3) == b"\x00\x00\x00\x04\x09"


@given(st.lists(st.integers(1, 400), max_size=30))
def test_frames_are_the_same_in_whatever_pieces_they_come(cuts: list[int]) -> None:
    splitter = FrameSplitter(frame_bytes_max=1001)
    frames = []
    position = 0
    for piece in [*cuts, len(STREAM)]:
        splitter.feed(STREAM[position : position + piece])
        position += piece
        frames += drain(splitter)
    assert frames == FRAMES


def test_byte_by_byte() -> None:
    splitter = FrameSplitter(frame_bytes_max=1001)
    frames = []
    for position in range(len(STREAM)):
        splitter.feed(STREAM[position : position + 1])
        frames += drain(splitter)
    assert frames == FRAMES


def test_feeding_again_before_all_was_taken_loses_nothing() -> None:
    splitter = FrameSplitter(frame_bytes_max=1001)
    splitter.feed(STREAM[:500])
    first = splitter.next_frame()
    assert first is not None
    splitter.feed(STREAM[500:])
    splitter.keep_rest()
    assert [(1, b""), *drain(splitter)] == FRAMES
    splitter.keep_rest()
    assert drain(splitter) == []


def test_a_kept_buffer_may_be_used_again_once_drained() -> None:
    splitter = FrameSplitter(frame_bytes_max=1001)
    kept = bytearray(7)
    frames = []
    for position in range(0, len(STREAM), 7):
        piece = STREAM[position : position + 7]
        kept[: len(piece)] = piece
        splitter.feed(memoryview(kept)[: len(piece)])
        frames += drain(splitter)
    assert frames == FRAMES


def test_a_body_is_a_view_of_what_was_fed() -> None:
    splitter = FrameSplitter(frame_bytes_max=1001)
    data = frame_header(1, 4) + b"body"
    splitter.feed(data)
    frame = splitter.next_frame()
    assert frame is not None
    assert frame[1].obj is data
    assert splitter.next_frame() is None
    assert not splitter.midway


@pytest.mark.parametrize("length", [0, 101, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_a_bad_length_is_seen_as_soon_as_its_four_bytes_are_there(length: int, pieces: int) -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    prefix = length.to_bytes(4, "big")
    step = 4 // pieces
    for position in range(0, 4 - step, step):
        splitter.feed(prefix[position : position + step])
        assert splitter.next_frame() is None
        assert splitter.midway
    splitter.feed(prefix[4 - step :])
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes: 1 to 100"):
        splitter.next_frame()


def test_frames_before_a_bad_length_still_come_out() -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    splitter.feed(frame_header(1, 2) + b"ok" + bytes(5))
    assert splitter.next_frame() is not None
    with pytest.raises(ProtocolError):
        splitter.next_frame()


def test_the_maximum_may_change_between_two_frames_of_one_feed() -> None:
    splitter = FrameSplitter(frame_bytes_max=10)
    splitter.feed(frame_header(1, 2) + b"ok" + frame_header(2, 50) + bytes(50))
    assert splitter.next_frame() is not None
    splitter.frame_bytes_max = 100
    assert drain(splitter) == [(2, bytes(50))]


def test_what_is_kept_is_counted_and_can_be_forgotten() -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    whole = frame_header(7, 10) + bytes(10)
    splitter.feed(whole + whole[:8])
    assert splitter.kept_bytes == len(whole) + 8
    assert splitter.next_frame() is not None
    assert splitter.kept_bytes == 8
    assert splitter.next_frame() is None
    assert (splitter.kept_bytes, splitter.midway) == (8, True)
    splitter.forget()
    assert (splitter.kept_bytes, splitter.drained) == (0, True)


def test_what_is_kept_is_known_and_can_be_let_go() -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    splitter.feed(frame_header(1, 2) + b"ab" + frame_header(2, 9) + b"x")
    assert (splitter.kept_bytes, splitter.midway_bytes) == (13, 0)
    assert drain(splitter) == [(1, b"ab")]
    assert (splitter.kept_bytes, splitter.midway_bytes) == (6, 6)
    splitter.forget()
    assert (splitter.kept_bytes, splitter.midway_bytes, splitter.drained) == (0, 0, True)
    splitter.feed(frame_header(3, 0))
    assert drain(splitter) == [(3, b"")]
