"""The fast way for DATA: all whole frames of one receive that continue each other, cut and checked in one tight loop.

Measured on the server, with 64 appends of 4 KiB in flight on one connection: about 1 microsecond for a frame, against
6 through a message of its own for each. Whatever is not as expected here is left where it lies, for `connection` to
look at and to say what is wrong with it: nothing is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sos_client.wire.checksum import crc32c
from sos_client.wire.codec import DATA_FRAME_HEAD
from sos_client.wire.limits import DATA_HEADER_BYTES, LENGTH_BYTES, TYPE_BYTES
from sos_client.wire.messages import MessageType

if TYPE_CHECKING:
    from sos_client.wire.frames import FrameSplitter

_HEAD_BYTES: Final = DATA_FRAME_HEAD.size
_DATA: Final = int(MessageType.DATA)
_COUNTED_BYTES: Final = TYPE_BYTES + DATA_HEADER_BYTES
"""What the length of a frame counts besides the payload."""


class DataRun(NamedTuple):
    """Payloads that lie one after the other in the object, from `offset` up to `end`, each with its checked CRC.

    The payloads are views that are valid until more bytes are received.
    """

    offset: int
    end: int
    payloads: list[memoryview]
    crcs: list[int]


def lone_frame(data: memoryview, offset: int, *, end_max: int, frame_bytes_max: int) -> DataRun | None:
    """The run of one DATA frame that is all of `data` and continues at `offset`; None when it is anything else.

    This is what a receive brings from a client that waits for each ACK. With many of them, a frame that is not fed to
    the splitter first costs half.
    """
    data_bytes = len(data)
    if data_bytes <= _HEAD_BYTES:
        return None
    length, kind, at, crc = DATA_FRAME_HEAD.unpack_from(data)
    end = offset + length - _COUNTED_BYTES
    if (
        length + LENGTH_BYTES != data_bytes
        or kind != _DATA
        or at != offset
        or length > frame_bytes_max
        or end > end_max
    ):
        return None
    payload = data[_HEAD_BYTES:]
    return DataRun(offset, end, [payload], [crc]) if crc32c(payload) == crc else None


def cut_run(splitter: FrameSplitter, offset: int, *, end_max: int) -> DataRun | None:
    """Take the DATA frames that lie whole in what was fed and continue at `offset`; None when the next is not one."""
    data, position, data_end = splitter.lying
    frame_bytes_max = splitter.frame_bytes_max
    unpack = DATA_FRAME_HEAD.unpack_from
    payloads: list[memoryview] = []
    crcs: list[int] = []
    end = offset
    while position + _HEAD_BYTES < data_end:
        length, kind, at, crc = unpack(data, position)
        stop = position + LENGTH_BYTES + length
        if kind != _DATA or at != end or stop > data_end or not _COUNTED_BYTES < length <= frame_bytes_max:
            break
        payload = data[position + _HEAD_BYTES : stop]
        if crc32c(payload) != crc:
            break
        payloads.append(payload)
        crcs.append(crc)
        end += length - _COUNTED_BYTES
        position = stop
    if not payloads or end > end_max:
        return None
    splitter.skip_to(position)
    return DataRun(offset, end, payloads, crcs)
