"""Messages to bytes and back. Most bodies are msgpack arrays of the message's fields in order; the rest is written out.

Whatever the bytes are, decoding gives a message or raises ProtocolError. Encoding a value that its message cannot hold
is the caller's mistake (MisuseError), found before anything is sent.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, FieldValue, MisuseError, ProtocolError
from sos_client.wire.fields import is_identity, is_refusal_field, is_text, is_token
from sos_client.wire.frames import FRAME_HEADER, frame_header
from sos_client.wire.limits import (
    CONTROL_BYTES_MAX,
    DATA_BYTES_MAX,
    DATA_HEADER_BYTES,
    ERROR_FIELDS_MAX,
    IDENTITY_BYTES,
    LIST_ENTRIES_MAX,
    OFFSET_MAX,
    PROTOCOL_VERSION,
    TEXT_BYTES_MAX,
    TOKEN_BYTES,
)
from sos_client.wire.messages import Answer, Message, MessageType, Request
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.shapes import ArrayShape, array_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Body = bytes | bytearray | memoryview

_HELLO_HEAD: Final = Struct(f">HB{TOKEN_BYTES}s")
_DATA_HEAD: Final = Struct(">QI")
DATA_FRAME_HEAD: Final = Struct(">IBQI")
_ACK: Final = Struct(">QQ")
_ACK_FRAME: Final = Struct(">IBQQ")
_ACK_LENGTH: Final = 1 + _ACK.size
_ACK_TYPE: Final = int(MessageType.ACK)
_NO_TOKEN: Final = bytes(TOKEN_BYTES)
_VERSION_MAX: Final = (1 << 16) - 1

assert _DATA_HEAD.size == DATA_HEADER_BYTES
assert DATA_FRAME_HEAD.size == FRAME_HEADER.size + DATA_HEADER_BYTES

_WRITTEN_OUT: Final = frozenset({m.Hello, m.Data, m.Ack, m.Listing, m.Error, m.Unknown})
"""The messages whose body is not the plain array of their fields."""
_ARRAYS: Final[Mapping[int, type[Any]]] = {
    message.type_code: message for message in get_args(Message) if message not in _WRITTEN_OUT
}
_TYPE_CODES: Final = {message: code for code, message in _ARRAYS.items()}
_ANSWER_FIRST: Final = 0x80

_SHAPES: Final[Mapping[type[Any], ArrayShape[Any]]] = {message: ArrayShape.of(message) for message in _TYPE_CODES}
_LISTING: Final = ArrayShape.of(
    m.Listing, entries=array_of(_SHAPES[m.ObjectInfo].shape(checked=True), LIST_ENTRIES_MAX)
)


def decode_request(type_code: int, body: Body) -> Request:
    """The request in a frame, or ProtocolError. A type that is not known gives `Unknown`, which is not an error yet."""
    if type_code == MessageType.DATA:
        return decode_data(body)
    if type_code == MessageType.HELLO:
        return _decode_hello(body)
    if type_code == 0 or type_code >= _ANSWER_FIRST:
        raise ProtocolError(f"frame type {type_code:#04x} is not a request")
    message = _ARRAYS.get(type_code)
    if message is None:
        return m.Unknown(type_code=type_code)
    return cast("Request", _decode_array(message, body))


def decode_answer(type_code: int, body: Body) -> Answer:
    """The answer in a frame, or ProtocolError; there are no unknown answers."""
    if type_code == MessageType.ACK:
        return _decode_ack(body)
    if type_code == MessageType.DATA:
        return decode_data(body)
    if type_code == MessageType.ERROR:
        return _decode_error(body)
    if type_code == MessageType.LISTING:
        return _decode_listing(body)
    message = _ARRAYS.get(type_code)
    if message is None or type_code < _ANSWER_FIRST:
        raise ProtocolError(f"frame type {type_code:#04x} is not an answer")
    return cast("Answer", _decode_array(message, body))


def encode(message: Message) -> bytes:
    """The whole frame. MisuseError when a field is not what the message may hold."""
    match message:
        case m.Data():
            return data_header(message.offset, message.payload, crc=message.crc) + bytes(message.payload)
        case m.Ack():
            return ack_frame(*message)
        case m.Hello():
            return _frame(MessageType.HELLO, _hello_body(message))
        case m.Listing():
            return _frame(MessageType.LISTING, pack(_LISTING.checked(message)))
        case m.Error():
            return _frame(MessageType.ERROR, _error_body(message))
        case m.Unknown():
            return frame_header(message.type_code, 0)
        case _:
            return _frame(_TYPE_CODES[type(message)], pack(_SHAPES[type(message)].checked(message)))


def ack_frame(written: int, synced: int) -> bytes:
    """The whole frame of an ACK."""
    return _ACK_FRAME.pack(_ACK_LENGTH, _ACK_TYPE, written, synced)


def data_header(offset: int, payload: Body, *, crc: int | None = None) -> bytes:
    """Everything of a DATA frame that comes before the payload, so that the payload need not be copied."""
    if not 0 < len(payload) <= DATA_BYTES_MAX:
        raise MisuseError(f"a DATA frame carries 1 to {DATA_BYTES_MAX} bytes, not {len(payload)}")
    checksum = crc32c(payload) if crc is None else crc
    return DATA_FRAME_HEAD.pack(1 + DATA_HEADER_BYTES + len(payload), MessageType.DATA, offset, checksum)


def decode_data(body: Body) -> m.Data:
    """DATA with its CRC checked; the payload is a slice of the body, uncopied when that is a view."""
    if len(body) <= DATA_HEADER_BYTES:
        raise ProtocolError("DATA without a payload")
    offset, crc = _DATA_HEAD.unpack_from(body)
    payload = body[DATA_HEADER_BYTES:]
    if crc32c(payload) != crc:
        raise ProtocolError(f"the CRC of DATA at offset {offset} is wrong")
    return m.Data(offset, crc, payload)


def hello_head(body: Body) -> tuple[int, bytes | None]:
    """Version and token of a HELLO, which lie at fixed places, without looking at anything else in it."""
    if len(body) < _HELLO_HEAD.size:
        raise ProtocolError("HELLO is too short")
    version, token_present, token = _HELLO_HEAD.unpack_from(body)
    if version != PROTOCOL_VERSION:
        return version, None
    if token_present not in (0, 1) or (not token_present and token != _NO_TOKEN):
        raise ProtocolError("HELLO says with 0 or 1 whether it has a token; without one there are zeros in its place")
    return version, token if token_present else None


def _decode_hello(body: Body) -> m.Hello:
    version, token = hello_head(body)
    if version != PROTOCOL_VERSION:  # the rest of another version's HELLO means nothing to this one
        return m.Hello(version=version, token=None, client="", instance=bytes(IDENTITY_BYTES))
    match unpack(body[_HELLO_HEAD.size :], binary_bytes_max=IDENTITY_BYTES):
        case [str() as client, bytes() as instance] if is_identity(instance):
            return m.Hello(version=version, token=token, client=client, instance=instance)
    raise ProtocolError("HELLO does not end with [client, instance]")


def _hello_body(hello: m.Hello) -> bytes:
    if not 0 <= hello.version <= _VERSION_MAX or not (hello.token is None or is_token(hello.token)):
        raise MisuseError(f"a token has {TOKEN_BYTES} bytes and a version fits 16 bits")
    if not is_text(hello.client) or not is_identity(hello.instance):
        raise MisuseError(f"HELLO names a client in at most {TEXT_BYTES_MAX} bytes and an instance in {IDENTITY_BYTES}")
    head = _HELLO_HEAD.pack(hello.version, hello.token is not None, hello.token or _NO_TOKEN)
    return head + pack([hello.client, hello.instance])


def _decode_ack(body: Body) -> m.Ack:
    if len(body) != _ACK.size:
        raise ProtocolError(f"ACK has {len(body)} bytes, not {_ACK.size}")
    written, synced = _ACK.unpack_from(body)
    if not synced <= written <= OFFSET_MAX:
        raise ProtocolError("ACK of more synced than written")
    return m.Ack(written, synced)


def _decode_error(body: Body) -> m.Error:
    value = unpack(_control(body), map_max=ERROR_FIELDS_MAX)
    match value:
        case [int() as number, dict() as fields, str() as message] if not isinstance(number, bool):
            if number in _ERROR_CODES and all(map(is_refusal_field, fields.keys(), fields.values())):
                return m.Error(code=ErrorCode(number), fields=cast("dict[str, FieldValue]", fields), message=message)
    raise ProtocolError("ERROR is not [code, fields, message] with a known code")


_ERROR_CODES: Final = frozenset(ErrorCode)


def _error_body(error: m.Error) -> bytes:
    fields = error.fields
    if len(fields) > ERROR_FIELDS_MAX or not all(map(is_refusal_field, fields.keys(), fields.values())):
        raise MisuseError(f"an ERROR cannot carry the fields {dict(fields)!r}")
    if not is_text(error.message):
        raise MisuseError(f"a sentence has at most {TEXT_BYTES_MAX} bytes")
    return pack([error.code, dict(fields), error.message])


def _decode_listing(body: Body) -> m.Listing:
    return _LISTING.read(unpack(_control(body), array_max=LIST_ENTRIES_MAX))


def _decode_array(message: type[Any], body: Body) -> Message:
    return cast("Message", _SHAPES[message].read(unpack(_control(body))))


def _control(body: Body) -> Body:
    if len(body) > CONTROL_BYTES_MAX:
        raise ProtocolError(f"a body of {len(body)} bytes; only DATA may have more than {CONTROL_BYTES_MAX}")
    return body


def _frame(type_code: int, body: bytes) -> bytes:
    return frame_header(type_code, len(body)) + body
