"""The fast way for MESSAGE at a listener: all whole frames of one receive that may be taken, found in one tight loop.

Pure. Nothing is decoded but what order needs, and of messages of one size that by many at once. Nothing is refused
here: whatever is not as expected is left where it lies, for `session` to look at and to say what is wrong with it. What
a sink takes is in `row_run`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from operator import lt
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from connectors.wire.alike import ALIKE_BYTES_MAX, TOGETHER, TRY_AGAIN, count_alike
from connectors.wire.codec import MESSAGE_COUNTED_BYTES, MESSAGE_HEAD
from connectors.wire.frames import FrameType
from connectors.wire.limits import NOTHING_SEEN
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from sos_client.wire.frames import FrameSplitter

_HEAD_BYTES: Final = MESSAGE_HEAD.size
_MESSAGE: Final = int(FrameType.MESSAGE)
_BEFORE_ID: Final = Struct(">IBQ")


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
    frames = taken = try_at = length_before = 0
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
        if length == length_before and frames >= try_at:
            lying = data[position : min(data_end, position + (frames_max - frames) * (LENGTH_BYTES + length))]
            ids = _ids_alike(lying, length, stream_id, point)
            if ids:
                points[stream_id] = ids[-1]
                frames += len(ids)
                taken += len(ids)
                position += len(ids) * (LENGTH_BYTES + length)
                continue
            try_at = frames + TRY_AGAIN
        length_before = length
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


def _ids_alike(lying: memoryview, length: int, stream_id: int, point: int) -> list[int]:
    """The ids of messages of this length and stream, if all that lie there, or half of them, or a quarter, are such.

    They grow from `point` on, and each has a payload.
    """
    if length > ALIKE_BYTES_MAX:
        return []
    before = _BEFORE_ID.pack(length, _MESSAGE, stream_id)
    count = count_alike(lying, 0, len(lying), LENGTH_BYTES + length, before)
    if not count:
        return []
    fields = list(chain.from_iterable(_heads(length).iter_unpack(lying[: count * (LENGTH_BYTES + length)])))
    ids: list[int] = fields[1::3]
    grow = ids[0] > point and ids[-1] < NOTHING_SEEN and all(map(lt, ids, ids[1:]))
    with_payload = MESSAGE_COUNTED_BYTES + max(fields[2::3]) < length
    return ids if grow and with_payload and fields[0::3].count(before) == count else []


@lru_cache(maxsize=64)
def _heads(length: int) -> Struct:
    return Struct(">" + f"{_BEFORE_ID.size}sQ8xH{length - MESSAGE_COUNTED_BYTES}x" * TOGETHER)
