"""Frames of the connector protocol to bytes and back. The format is in PROTOCOL.md; what is legal when, in `session`.

Pure. Where Wallaroo's document and its code differ, the code's form is written and both are read (see PROTOCOL.md).
"""

from __future__ import annotations

from itertools import repeat
from operator import add
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final

from connectors.wire.fields import FieldReader, counted, packed, short, short_text
from connectors.wire.frames import (
    TYPE_OF,
    AckFrame,
    EosFrame,
    ErrorFrame,
    Frame,
    FrameType,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
    RestartFrame,
)
from connectors.wire.limits import NAME_BYTES_MAX, U16_MAX
from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.frames import frame_header
from sos_client.wire.limits import LENGTH_BYTES, TYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_POINT: Final = Struct(">QQ")
_MESSAGE: Final = Struct(">QQqH")

MESSAGE_HEAD: Final = Struct(">IBQQqH")
"""A MESSAGE from its length to the length of its key."""
MESSAGE_COUNTED_BYTES: Final = MESSAGE_HEAD.size - LENGTH_BYTES
"""What the length of a MESSAGE counts besides key and payload."""

_MESSAGE_TYPE: Final = int(FrameType.MESSAGE)

assert TYPE_BYTES + _MESSAGE.size == MESSAGE_COUNTED_BYTES


def encode(frame: Frame) -> bytes:
    """The whole frame. MisuseError when a value does not fit."""
    body = _WRITERS[type(frame)](frame)
    return frame_header(TYPE_OF[type(frame)], len(body)) + body


def decode(type_code: int, body: memoryview) -> Frame:
    """What a frame of this type says. ProtocolError when it is not one."""
    read = _READERS.get(type_code)
    if read is None:
        raise ProtocolError(f"a frame of the unknown type {type_code}")
    return read(body)


def message_head(stream_id: int, message_id: int, event_time: int, key_bytes: int, payload_bytes: int) -> bytes:
    """The bytes before key and payload: whoever sends a large payload does not copy it."""
    try:
        return MESSAGE_HEAD.pack(
            MESSAGE_COUNTED_BYTES + key_bytes + payload_bytes,
            FrameType.MESSAGE,
            stream_id,
            message_id,
            event_time,
            key_bytes,
        )
    except StructError:
        raise MisuseError(
            f"MESSAGE: stream {stream_id}, id {message_id}, event time {event_time} or a key of {key_bytes} bytes"
            f" (at most {U16_MAX}) is out of its range"
        ) from None


def message_frames(stream_id: int, ids: Sequence[int], payloads: Sequence[bytes]) -> list[bytes]:
    """Whole MESSAGE frames, without event times and keys, as `message_head` makes them one by one."""
    lengths = map(MESSAGE_COUNTED_BYTES.__add__, map(len, payloads))
    try:
        heads = list(
            map(MESSAGE_HEAD.pack, lengths, repeat(_MESSAGE_TYPE), repeat(stream_id), ids, repeat(0), repeat(0))
        )
    except StructError:
        raise MisuseError(f"MESSAGE: stream {stream_id} or one of its ids is out of its range") from None
    if len(payloads) != len(ids):
        raise MisuseError(f"{len(ids)} ids for {len(payloads)} messages")
    return list(map(add, heads, payloads))


def _write_message(frame: MessageFrame) -> bytes:
    head = message_head(frame.stream_id, frame.message_id, frame.event_time, len(frame.key), len(frame.payload))
    return b"".join((head[LENGTH_BYTES + TYPE_BYTES :], frame.key, frame.payload))


def _read_message(body: memoryview) -> MessageFrame:
    if len(body) < _MESSAGE.size:
        raise ProtocolError(f"MESSAGE: cut short, {len(body)} bytes")
    stream_id, message_id, event_time, key_bytes = _MESSAGE.unpack_from(body)
    payload_at = _MESSAGE.size + key_bytes
    if payload_at > len(body):
        raise ProtocolError(f"MESSAGE: cut short in a key of {key_bytes} bytes")
    return MessageFrame(stream_id, message_id, event_time, body[_MESSAGE.size : payload_at], body[payload_at:])


def _write_hello(frame: HelloFrame) -> bytes:
    return (
        short_text(frame.version, "HELLO")
        + short(frame.cookie, "HELLO")
        + short_text(frame.program, "HELLO")
        + short_text(frame.instance, "HELLO")
    )


def _read_hello(body: memoryview) -> HelloFrame:
    fields = FieldReader(body, "HELLO")
    frame = HelloFrame(version=fields.text(), cookie=fields.name(), program=fields.text(), instance=fields.text())
    fields.end()
    return frame


def _write_ok(frame: OkFrame) -> bytes:
    return packed(_U32, "OK", frame.initial_credits)


def _read_ok(body: memoryview) -> OkFrame:
    """What follows the credits is passed over: the draft of the protocol had a list of streams there."""
    (initial_credits,) = FieldReader(body, "OK").numbers(_U32)
    return OkFrame(initial_credits=initial_credits)


def _write_error(frame: ErrorFrame) -> bytes:
    return short_text(frame.reason, "ERROR")


def _read_error(body: memoryview) -> ErrorFrame:
    """A reason of any length, and with bytes that are not UTF-8, is still the reason why the connection is over."""
    fields = FieldReader(body, "ERROR")
    reason = bytes(fields.short_bytes()).decode("utf-8", "replace")
    fields.end()
    return ErrorFrame(reason=reason)


def _write_notify(frame: NotifyFrame) -> bytes:
    return (
        packed(_U64, "NOTIFY", frame.stream_id)
        + short_text(frame.stream_name, "NOTIFY")
        + packed(_U64, "NOTIFY", frame.point_of_reference)
    )


def _read_notify(body: memoryview) -> NotifyFrame:
    fields = FieldReader(body, "NOTIFY")
    (stream_id,) = fields.numbers(_U64)
    stream_name = fields.text()
    (point,) = fields.numbers(_U64)
    fields.end()
    return NotifyFrame(stream_id=stream_id, stream_name=stream_name, point_of_reference=point)


def _write_notify_ack(frame: NotifyAckFrame) -> bytes:
    return bytes((frame.accepted,)) + packed(_POINT, "NOTIFY_ACK", frame.stream_id, frame.point_of_reference)


def _read_notify_ack(body: memoryview) -> NotifyAckFrame:
    fields = FieldReader(body, "NOTIFY_ACK")
    accepted = fields.yes_or_no()
    stream_id, point = fields.numbers(_POINT)
    fields.end()
    return NotifyAckFrame(accepted=accepted, stream_id=stream_id, point_of_reference=point)


def _write_eos(frame: EosFrame) -> bytes:
    return packed(_U64, "EOS", frame.stream_id)


def _read_eos(body: memoryview) -> EosFrame:
    """Without a message id, as Wallaroo writes it, or with one, as its document says."""
    fields = FieldReader(body, "EOS")
    (stream_id,) = fields.numbers(_U64)
    if fields.left:
        fields.numbers(_U64)
    fields.end()
    return EosFrame(stream_id=stream_id)


def _write_ack(frame: AckFrame) -> bytes:
    return packed(_U32, "ACK", frame.credits) + counted([packed(_POINT, "ACK", *point) for point in frame.points])


def _read_ack(body: memoryview) -> AckFrame:
    fields = FieldReader(body, "ACK")
    (more_credits,) = fields.numbers(_U32)
    points = fields.counted(_POINT.size, lambda: fields.numbers(_POINT))
    fields.end()
    return AckFrame(credits=more_credits, points=points)


def _write_restart(frame: RestartFrame) -> bytes:
    address = frame.address.encode("utf-8", "replace")
    if len(address) > NAME_BYTES_MAX:
        raise MisuseError(f"RESTART: an address of {len(address)} bytes; at most {NAME_BYTES_MAX} are allowed")
    return packed(_U32, "RESTART", len(address)) + address


def _read_restart(body: memoryview) -> RestartFrame:
    """With an address, as Wallaroo writes it, or with nothing, as its document says."""
    fields = FieldReader(body, "RESTART")
    if not fields.left:
        return RestartFrame()
    (size,) = fields.numbers(_U32)
    if size > NAME_BYTES_MAX:
        raise ProtocolError(f"RESTART: an address of {size} bytes; at most {NAME_BYTES_MAX} are allowed")
    address = bytes(fields.take(size)).decode("utf-8", "replace")
    fields.end()
    return RestartFrame(address=address)


_WRITERS: Final[Mapping[type[Frame], Callable[..., bytes]]] = {
    HelloFrame: _write_hello,
    OkFrame: _write_ok,
    ErrorFrame: _write_error,
    NotifyFrame: _write_notify,
    NotifyAckFrame: _write_notify_ack,
    MessageFrame: _write_message,
    EosFrame: _write_eos,
    AckFrame: _write_ack,
    RestartFrame: _write_restart,
}

_READERS: Final[Mapping[int, Callable[[memoryview], Frame]]] = {
    FrameType.HELLO: _read_hello,
    FrameType.OK: _read_ok,
    FrameType.ERROR: _read_error,
    FrameType.NOTIFY: _read_notify,
    FrameType.NOTIFY_ACK: _read_notify_ack,
    FrameType.MESSAGE: _read_message,
    FrameType.EOS: _read_eos,
    FrameType.ACK: _read_ack,
    FrameType.RESTART: _read_restart,
}

assert set(_READERS) == set(FrameType)
assert set(_WRITERS) == set(TYPE_OF)
