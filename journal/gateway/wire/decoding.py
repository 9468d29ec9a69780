"""Bytes as the file protocol's messages. Pure.

Whatever the bytes are, decoding gives a message or raises ProtocolError. What a path may look like is not checked here:
a badly spelled path is refused by name (BAD_PATH), it does not break the conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args

from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.bodies import APPEND_META, HELLO_END, PLAIN, PUT_META, unpacked
from journal.gateway.wire.encoding import DATA_HEAD, HELLO_HEAD, META_BYTES
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.volume import OperationId, PathClaim

    # Path, overwrite, operation, claim, epoch seen, modified_ms, payload, its CRC.
    PutParts: TypeAlias = tuple[str, bool, OperationId, PathClaim | None, int, int | None, memoryview, int]


def decode_request(type_code: int, body: memoryview) -> m.Request | None:
    """The request, or None for a type that this version does not know (to be answered UNSUPPORTED)."""
    decode = _REQUESTS.get(type_code)
    return None if decode is None else decode(body)


def decode_answer(type_code: int, body: memoryview) -> m.Answer:
    """The answer; a client never gets one that it does not know, since the version was agreed on."""
    decode = _ANSWERS.get(type_code)
    if decode is None:
        raise ProtocolError(f"an answer of type {type_code:#x}: the file protocol has no such answer")
    return decode(body)


class HelloHead(NamedTuple):
    """What a HELLO begins with: all that is looked at before the token is taken."""

    version: int
    token: bytes | None


def hello_head(body: memoryview) -> HelloHead:
    """The beginning of a HELLO of any version."""
    if len(body) < HELLO_HEAD.size:
        raise ProtocolError("a HELLO that is cut short")
    version, has_token, token = HELLO_HEAD.unpack_from(body)
    if has_token > 1:
        raise ProtocolError("a HELLO whose token flag is neither 0 nor 1")
    return HelloHead(version, token if has_token else None)


def _decode_hello(body: memoryview) -> m.HelloRequest:
    version, token = hello_head(body)
    if not limits.VERSION <= version <= limits.SHARED_VERSION:  # the rest may look different: refuse the version
        return m.HelloRequest(version=version, token=None, client="", instance=b"")
    client, instance = HELLO_END.read(unpacked(body[HELLO_HEAD.size :]))
    return m.HelloRequest(version=version, token=token, client=client, instance=instance)


def put_parts(body: memoryview) -> PutParts:
    """As decode_request for PUT, without values in values: a third of the time. The CRC has been compared."""
    start = _meta_end(body)
    path, overwrite, crc, (operation, claim, epoch_seen), modified_ms = PUT_META.read(
        unpacked(body[META_BYTES.size : start])
    )
    return path, overwrite, operation, claim, epoch_seen, modified_ms, _verified(body[start:], crc), crc


def _meta_end(body: memoryview) -> int:
    """Where the file's bytes begin in a PUT or APPEND."""
    if len(body) < META_BYTES.size:
        raise ProtocolError("a PUT or APPEND that is cut short")
    (meta_bytes,) = META_BYTES.unpack_from(body)
    end: int = META_BYTES.size + meta_bytes
    if meta_bytes > limits.META_BYTES_MAX or end > len(body):
        raise ProtocolError(f"a PUT or APPEND with {meta_bytes} bytes of meta, which is too many")
    return end


def _decode_append(body: memoryview) -> m.AppendRequest:
    start = _meta_end(body)
    path, size, modified_ms, crc, stamp = APPEND_META.read(unpacked(body[META_BYTES.size : start]))
    if start == len(body):
        raise ProtocolError("an APPEND of nothing")
    payload = _verified(body[start:], crc)
    return m.AppendRequest(path=path, size=size, modified_ms=modified_ms, stamp=stamp, payload=payload)


def _decode_put(body: memoryview) -> m.PutRequest:
    path, overwrite, operation, claim, epoch_seen, modified_ms, payload, _ = put_parts(body)
    stamp = m.Stamp(operation=operation, claim=claim, epoch_seen=epoch_seen)
    return m.PutRequest(path=path, overwrite=overwrite, stamp=stamp, payload=payload, modified_ms=modified_ms)


def _decode_data(body: memoryview) -> m.FileData:
    if len(body) <= DATA_HEAD.size:
        raise ProtocolError("a DATA frame without data")
    offset, crc = DATA_HEAD.unpack_from(body)
    if offset > limits.NUMBER_MAX:
        raise ProtocolError("a DATA frame beyond where any file ends")
    return m.FileData(offset=offset, payload=_verified(body[DATA_HEAD.size :], crc))


def _verified(payload: memoryview, crc: object) -> memoryview:
    if len(payload) > limits.PIECE_BYTES_MAX:
        raise ProtocolError(f"a frame with {len(payload)} bytes of a file; {limits.PIECE_BYTES_MAX} are allowed")
    if crc32c(payload) != crc:
        raise ProtocolError("file bytes do not match their CRC: they were changed on the way")
    return payload


_SPECIAL: Final[dict[type, Callable[[memoryview], Any]]] = {
    m.HelloRequest: _decode_hello,
    m.PutRequest: _decode_put,
    m.AppendRequest: _decode_append,
    m.FileData: _decode_data,
}
"""The messages whose body is not the plain array of their fields."""


def _decoder(message: type) -> Callable[[memoryview], Any]:
    if message in _SPECIAL:
        return _SPECIAL[message]
    shape = PLAIN[message]
    return lambda body: shape.read(unpacked(body))


_REQUESTS: Final[dict[int, Callable[[memoryview], m.Request]]] = {
    message.type_code: _decoder(message) for message in get_args(m.Request)
}
_ANSWERS: Final[dict[int, Callable[[memoryview], m.Answer]]] = {
    message.type_code: _decoder(message) for message in get_args(m.Answer)
}
