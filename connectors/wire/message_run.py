"""The fast way for MESSAGE: all whole frames of one receive that may be taken, found in one tight loop.

Pure. For a listener nothing is decoded but what order needs; for a sink the rows are. Nothing is refused here: whatever
is not as expected is left where it lies, for `session` to look at and to say what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from connectors.wire.codec import MESSAGE_COUNTED_BYTES, MESSAGE_HEAD
from connectors.wire.frames import FrameType
from connectors.wire.limits import NOTHING_SEEN
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sos_client.wire.frames import FrameSplitter

Row = TypeVar("Row")

_HEAD_BYTES: Final = MESSAGE_HEAD.size
_MESSAGE: Final = int(FrameType.MESSAGE)


class MessageRun(NamedTuple):
    """Whole MESSAGE frames as they came. The pieces are views that are valid until more bytes are received.

    `frames` counts all of them, `taken` those in `pieces`: the others had come before, by their ids. `points` is the
    last id of each stream of which something was taken.
    """

    frames: int
    taken: int
    pieces: list[memoryview]
    points: dict[int, int]


def cut_messages(splitter: FrameSplitter, open_points: dict[int, int], *, frames_max: int) -> MessageRun | None:
    """Take the MESSAGE frames of open streams that lie whole in what was fed; None when the next is not one.

    `open_points` has the last id of each open stream and is moved on. Frames without a payload are left to `session`.
    """
    data, position, data_end = splitter.lying
    frame_bytes_max = splitter.frame_bytes_max
    unpack = MESSAGE_HEAD.unpack_from
    open_point_of = open_points.get
    points: dict[int, int] = {}
    point_of = points.get
    pieces: list[memoryview] = []
    frames = taken = 0
    piece_at = position
    while position + _HEAD_BYTES <= data_end and frames < frames_max:
        length, kind, stream_id, message_id, _, key_bytes = unpack(data, position)
        stop = position + LENGTH_BYTES + length
        point = point_of(stream_id)
        if point is None:
            point = open_point_of(stream_id)
        if (
            kind != _MESSAGE
            or point is None
            or stop > data_end
            or not MESSAGE_COUNTED_BYTES + key_bytes < length <= frame_bytes_max
            or message_id == NOTHING_SEEN
        ):
            break
        frames += 1
        if message_id > point:
            points[stream_id] = message_id
            taken += 1
        else:
            if piece_at < position:
                pieces.append(data[piece_at:position])
            piece_at = stop
        position = stop
    if not frames:
        return None
    if piece_at < position:
        pieces.append(data[piece_at:position])
    splitter.skip_to(position)
    open_points.update(points)
    return MessageRun(frames, taken, pieces, points)


def cut_rows(splitter: FrameSplitter, stream_id: int, row_of: Callable[[int, bytes, bytes], Row]) -> list[Row]:
    """Take the MESSAGE frames of this stream that lie whole in what was fed: of each its id, key and payload."""
    data, position, data_end = splitter.lying
    frame_bytes_max = splitter.frame_bytes_max
    unpack = MESSAGE_HEAD.unpack_from
    rows: list[Row] = []
    while position + _HEAD_BYTES <= data_end:
        length, kind, stream, message_id, _, key_bytes = unpack(data, position)
        stop = position + LENGTH_BYTES + length
        if (
            kind != _MESSAGE
            or stream != stream_id
            or stop > data_end
            or not MESSAGE_COUNTED_BYTES + key_bytes <= length <= frame_bytes_max
            or message_id == NOTHING_SEEN
        ):
            break
        payload_at = position + _HEAD_BYTES + key_bytes
        key = bytes(data[position + _HEAD_BYTES : payload_at]) if key_bytes else b""
        rows.append(row_of(message_id, key, bytes(data[payload_at:stop])))
        position = stop
    if rows:
        splitter.skip_to(position)
    return rows


def row_messages(stream_id: int, offset: int, rows: Iterable[tuple[bytes, bytes]]) -> tuple[list[bytes], int]:
    """MESSAGE frames of keys and values, in pieces to be joined; each has the offset of its value as its id.

    The offset after the last one is the second. Keys and values that do not fit are a mistake of the caller.
    """
    pack = MESSAGE_HEAD.pack
    parts: list[bytes] = []
    for key, value in rows:
        key_bytes, value_bytes = len(key), len(value)
        length = MESSAGE_COUNTED_BYTES + key_bytes + value_bytes
        parts += (pack(length, _MESSAGE, stream_id, offset, 0, key_bytes), key, value)
        offset += value_bytes
    return parts, offset
