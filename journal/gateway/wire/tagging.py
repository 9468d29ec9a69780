"""Frames of a shared connection (version 2): after the type, a tag says to which request a frame belongs. Pure.

Belongs here: putting the tag into a frame, and taking it out. What is said in the frame is the same in both versions.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from journal.gateway.wire.messages import FileMessageType
from sos_client.wire.errors import ProtocolError
from sos_client.wire.frames import FRAME_HEADER
from sos_client.wire.limits import TYPE_BYTES
from sos_client.wire.msgpack_edge import pack

if TYPE_CHECKING:
    from journal.volume import FileStatus

TAG_MAX: Final = 2**32 - 1
OF_THE_CONNECTION: Final = 0
"""The tag of what concerns no request: WAITING, and the ERROR that ends the connection."""

_TAG: Final = Struct(">I")
_TAGGED_HEADER: Final = Struct(">IBI")
_STATUS: Final = int(FileMessageType.STATUS)


def tagged(tag: int, frame: bytes) -> bytes:
    """A frame of version 1 as one of version 2."""
    length, type_code = FRAME_HEADER.unpack_from(frame)
    return _TAGGED_HEADER.pack(length + _TAG.size, type_code, tag) + frame[FRAME_HEADER.size :]


def tagged_status(tag: int, epoch: int, status: FileStatus) -> bytes:
    """A STATUS frame, the answer to nearly everything; as `tagged` of `encode_status`."""
    body = pack((epoch, status[:4]))
    return _TAGGED_HEADER.pack(TYPE_BYTES + _TAG.size + len(body), _STATUS, tag) + body


def untagged(body: memoryview) -> tuple[int, memoryview]:
    """The tag of a frame, and the body that it has in version 1."""
    if len(body) < _TAG.size:
        raise ProtocolError("a frame without a tag on a shared connection")
    tag: int = _TAG.unpack_from(body)[0]
    return tag, body[_TAG.size :]
