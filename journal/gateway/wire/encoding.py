"""The file protocol's messages as bytes. Pure. The other way is decoding.py's."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.messages import FileMessageType
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import MisuseError
from sos_client.wire.frames import frame_header
from sos_client.wire.msgpack_edge import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.volume import Buffer, FileStatus, PathClaim, VolumeDescription

HELLO_HEAD: Final = Struct(f">HB{limits.TOKEN_BYTES}s")
META_BYTES: Final = Struct(">I")
DATA_HEAD: Final = Struct(">QI")
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
    type_code, values = _ARRAYS[type(message)]
    return _framed(type_code, pack(values(message)))


def encode_status(epoch: int, status: FileStatus) -> bytes:
    """A STATUS frame: the answer to nearly everything."""
    return _framed(FileMessageType.STATUS, pack([epoch, status[:4]]))  # all but the CRC


def _encode_hello(hello: m.HelloRequest) -> bytes:
    if hello.token is not None and len(hello.token) != limits.TOKEN_BYTES:
        raise MisuseError(f"a token has {limits.TOKEN_BYTES} bytes")
    head = HELLO_HEAD.pack(hello.version, hello.token is not None, hello.token or _NO_TOKEN)
    return _framed(FileMessageType.HELLO, head + pack([hello.client, hello.instance]))


def _encode_put(put: m.PutRequest) -> bytes:
    payload = put.payload
    if len(payload) > limits.PIECE_BYTES_MAX:
        raise MisuseError(f"a PUT carries at most {limits.PIECE_BYTES_MAX} bytes, not {len(payload)}: stream the file")
    meta = pack([put.path, put.overwrite, crc32c(payload), _stamp_values(put.stamp), put.modified_ms])
    return _framed_with_payload(FileMessageType.PUT, meta, payload)


def _encode_append(append: m.AppendRequest) -> bytes:
    payload = append.payload
    if not 0 < len(payload) <= limits.PIECE_BYTES_MAX:
        raise MisuseError(f"an APPEND carries 1 to {limits.PIECE_BYTES_MAX} bytes, not {len(payload)}")
    values = [append.path, append.size, append.modified_ms, crc32c(payload), _stamp_values(append.stamp)]
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


def _stamp_values(stamp: m.Stamp) -> list[object]:
    pair = None if stamp.claim is None else _claim_values(stamp.claim)
    return [stamp.operation.client, stamp.operation.sequence, pair, stamp.epoch_seen]


def _claim_values(claim: PathClaim) -> tuple[str, int]:
    return claim.application, claim.start_time


def _status_values(status: FileStatus) -> tuple[object, ...]:
    return (status.path, status.is_directory, status.size, status.modified_ms)


def _description_values(description: VolumeDescription) -> tuple[object, ...]:
    return (description.servers, description.retention_seconds, description.retention_bytes)


_ARRAYS: Final[dict[type, tuple[FileMessageType, Callable[[Any], list[object]]]]] = {
    m.OpenRequest: (FileMessageType.OPEN, lambda o: [o.volume, o.epoch_seen]),
    m.WriteOpenRequest: (
        FileMessageType.WRITE_OPEN,
        lambda o: [o.path, o.overwrite, _stamp_values(o.stamp), o.modified_ms],
    ),
    m.WriteCommitRequest: (FileMessageType.WRITE_COMMIT, lambda o: [o.size]),
    m.WriteCancelRequest: (FileMessageType.WRITE_CANCEL, lambda _: []),
    m.ReadRequest: (FileMessageType.READ, lambda o: [o.path, o.offset, o.length, o.modified_ms, o.epoch_seen]),
    m.StatRequest: (FileMessageType.STAT, lambda o: [o.path, o.epoch_seen]),
    m.ListRequest: (FileMessageType.LIST, lambda o: [o.path, o.after, o.limit, o.epoch_seen]),
    m.MkdirsRequest: (FileMessageType.MKDIRS, lambda o: [o.path, _stamp_values(o.stamp)]),
    m.DeleteRequest: (FileMessageType.DELETE, lambda o: [o.path, o.recursive, _stamp_values(o.stamp)]),
    m.RenameRequest: (FileMessageType.RENAME, lambda o: [o.source, o.target, o.overwrite, _stamp_values(o.stamp)]),
    m.ClaimRequest: (FileMessageType.CLAIM, lambda o: [o.path, _stamp_values(o.stamp)]),
    m.MarkRequest: (FileMessageType.MARK, lambda o: [o.values, _stamp_values(o.stamp)]),
    m.PinRequest: (FileMessageType.PIN, lambda o: [o.name, o.lsn, o.seconds, _stamp_values(o.stamp)]),
    m.DescribeRequest: (FileMessageType.DESCRIBE, lambda o: [o.epoch_seen]),
    m.ClaimsRequest: (FileMessageType.CLAIMS, lambda o: [o.after, o.limit, o.epoch_seen]),
    m.ReleaseRequest: (FileMessageType.RELEASE, lambda o: [o.path, _stamp_values(o.stamp)]),
    m.PingRequest: (FileMessageType.PING, lambda o: [o.number]),
    m.QuitRequest: (FileMessageType.QUIT, lambda _: []),
    m.WelcomeAnswer: (
        FileMessageType.WELCOME,
        lambda o: [o.version, o.service, o.frame_bytes_max, o.piece_bytes_max, o.time_ms],
    ),
    m.OpenedAnswer: (FileMessageType.OPENED, lambda o: [o.epoch, o.volume]),
    m.DoneAnswer: (FileMessageType.DONE, lambda o: [o.epoch, o.applied]),
    m.PageAnswer: (FileMessageType.PAGE, lambda o: [o.epoch, [_status_values(entry) for entry in o.entries], o.more]),
    m.DescriptionAnswer: (FileMessageType.DESCRIPTION, lambda o: [o.epoch, *_description_values(o.description)]),
    m.ClaimPageAnswer: (
        FileMessageType.CLAIM_PAGE,
        lambda o: [o.epoch, [[path, _claim_values(claim)] for path, claim in o.claims], o.more],
    ),
    m.ReadEndAnswer: (FileMessageType.READ_END, lambda o: [o.epoch, o.next_offset]),
    m.WaitingAnswer: (FileMessageType.WAITING, lambda o: [o.epoch, o.waited_ms]),
    m.PongAnswer: (FileMessageType.PONG, lambda o: [o.epoch, o.number, o.time_ms]),
    m.ByeAnswer: (FileMessageType.BYE, lambda _: []),
    m.RefusalAnswer: (FileMessageType.ERROR, lambda o: [o.epoch, o.code, o.message, o.fields]),
}
