"""The file protocol's messages as bytes. Pure. The other way is decoding.py's."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.bodies import PLAIN
from journal.gateway.wire.messages import FileMessageType
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import MisuseError
from sos_client.wire.frames import frame_header
from sos_client.wire.msgpack_edge import pack

if TYPE_CHECKING:
    from journal.volume import Buffer, FileStatus

HELLO_HEAD: Final = Struct(f">HB{limits.TOKEN_BYTES}s")
META_BYTES: Final = Struct(">I")
DATA_HEAD: Final = Struct(">QI")
_STATUS: Final = int(FileMessageType.STATUS)  # packing a member of an enum takes longer
_NO_TOKEN: Final = bytes(limits.TOKEN_BYTES)


def encode(message: m.Message) -> bytes:
    """The whole frame. MisuseError for a value that its message cannot hold, before anything is sent."""
    if type(message) is m.StatusAnswer:
        return encode_status(message.epoch, message.status)
    if type(message) is m.PutRequest:
        return _encode_put(message)
    if type(message) is m.AppendRequest:
        return _encode_append(message)
    if type(message) is m.FileData:
        return _encode_data(message)
    if type(message) is m.HelloRequest:
        return _encode_hello(message)
    type_code, shape = _ARRAYS[type(message)]
    return _framed(type_code, pack(shape.write(message)))


def encode_status(epoch: int, status: FileStatus) -> bytes:
    """A STATUS frame: the answer to nearly everything."""
    body = pack((epoch, status[:4]))  # all but the CRC
    return frame_header(_STATUS, len(body)) + body


def _encode_hello(hello: m.HelloRequest) -> bytes:
    if hello.token is not None and len(hello.token) != limits.TOKEN_BYTES:
        raise MisuseError(f"a token has {limits.TOKEN_BYTES} bytes")
    head = HELLO_HEAD.pack(hello.version, hello.token is not None, hello.token or _NO_TOKEN)
    return _framed(FileMessageType.HELLO, head + pack([hello.client, hello.instance]))


def _encode_put(put: m.PutRequest) -> bytes:
    payload = put.payload
    if len(payload) > limits.PIECE_BYTES_MAX:
        raise MisuseError(f"a PUT carries at most {limits.PIECE_BYTES_MAX} bytes, not {len(payload)}: stream the file")
    meta = pack([put.path, put.overwrite, crc32c(payload), m.STAMP.write(put.stamp), put.modified_ms])
    return _framed_with_payload(FileMessageType.PUT, meta, payload)


def _encode_append(append: m.AppendRequest) -> bytes:
    payload = append.payload
    if not 0 < len(payload) <= limits.PIECE_BYTES_MAX:
        raise MisuseError(f"an APPEND carries 1 to {limits.PIECE_BYTES_MAX} bytes, not {len(payload)}")
    values = [append.path, append.size, append.modified_ms, crc32c(payload), m.STAMP.write(append.stamp)]
    return _framed_with_payload(FileMessageType.APPEND, pack(values), payload)


def _framed_with_payload(type_code: int, meta: bytes, payload: Buffer) -> bytes:
    header = frame_header(type_code, META_BYTES.size + len(meta) + len(payload))
    return b"".join((header, META_BYTES.pack(len(meta)), meta, payload))


def _encode_data(data: m.FileData) -> bytes:
    payload = data.payload
    if not 0 < len(payload) <= limits.PIECE_BYTES_MAX:
        raise MisuseError(f"DATA carries 1 to {limits.PIECE_BYTES_MAX} bytes, not {len(payload)}")
    header = frame_header(FileMessageType.DATA, DATA_HEAD.size + len(payload))
    return b"".join((header, DATA_HEAD.pack(data.offset, crc32c(payload)), payload))


def _framed(type_code: int, body: bytes) -> bytes:
    return frame_header(type_code, len(body)) + body


_ARRAYS: Final = {message: (int(message.type_code), shape) for message, shape in PLAIN.items()}
