"""The fast way for MESSAGE: all whole frames of one receive that a listener may take, found in one tight loop.

Pure. Nothing is decoded but what order needs, and nothing is refused here: whatever is not as expected is left where it
lies, for `session` to look at and to say what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from connectors.wire.codec import MESSAGE_COUNTED_BYTES, MESSAGE_HEAD
from connectors.wire.frames import FrameType
from connectors.wire.limits import NOTHING_SEEN
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from sos_client.wire.frames import FrameSplitter

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
