"""The messages of the two-phase commit, which travel as payload of the stream TWO_PHASE_STREAM between relay and sink.

Pure. Wallaroo writes them bare; its document puts a length before each. Bare is what is written here, both are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from connectors.wire.fields import FieldReader, counted, packed, short_ascii
from connectors.wire.frames import MessageFrame
from connectors.wire.limits import RANGES_MAX, TWO_PHASE_STREAM
from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_U64: Final = Struct(">Q")
_RANGE: Final = Struct(">QQQ")
_NAME_BYTES_LEAST: Final = 2


class TwoPhaseType(IntEnum):
    """The first byte of such a message."""

    LIST_UNCOMMITTED = 201
    REPLY_UNCOMMITTED = 202
    PHASE_1 = 203
    REPLY = 204
    PHASE_2 = 205
    WORKERS_LEFT = 206


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUncommitted:
    """Which transactions have you prepared and not ended? The answer carries the same tag."""

    tag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyUncommitted:
    """These; also some that were voted abort."""

    tag: int
    transactions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOne:
    """Prepare what was sent in these ranges (stream, first id, id after the last), and vote."""

    transaction: str
    ranges: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What the sink answers phase 1 with. Nothing answers phase 2."""

    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTwo:
    """The decision."""

    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersLeft:
    """These senders will not come back. Only Wallaroo says it."""

    tag: int
    workers: tuple[str, ...]


TwoPhaseMessage = ListUncommitted | ReplyUncommitted | PhaseOne | Vote | PhaseTwo | WorkersLeft


def enclose(message: TwoPhaseMessage) -> MessageFrame:
    """The frame that carries it. MisuseError when a value does not fit."""
    return MessageFrame(TWO_PHASE_STREAM, 0, payload=_WRITERS[type(message)](message))


def disclose(frame: MessageFrame) -> TwoPhaseMessage:
    """What such a frame carries. ProtocolError when it is not one."""
    body = memoryview(frame.payload)
    if len(body) > LENGTH_BYTES and int.from_bytes(body[:LENGTH_BYTES], "big") == len(body) - LENGTH_BYTES:
        body = body[LENGTH_BYTES:]
    read = _READERS.get(body[0]) if body else None
    if read is None:
        raise ProtocolError(f"a two-phase message of the unknown type {body[0] if body else 'nothing'}")
    fields = FieldReader(body[1:], TwoPhaseType(body[0]).name)
    message = read(fields)
    fields.end()
    return message


def _write_list(message: ListUncommitted) -> bytes:
    return _kind(TwoPhaseType.LIST_UNCOMMITTED) + packed(_U64, "LIST_UNCOMMITTED", message.tag)


def _read_list(fields: FieldReader) -> ListUncommitted:
    (tag,) = fields.numbers(_U64)
    return ListUncommitted(tag=tag)


def _write_uncommitted(message: ReplyUncommitted) -> bytes:
    return _tagged_names(TwoPhaseType.REPLY_UNCOMMITTED, message.tag, message.transactions)


def _read_uncommitted(fields: FieldReader) -> ReplyUncommitted:
    (tag,) = fields.numbers(_U64)
    return ReplyUncommitted(tag=tag, transactions=fields.counted(_NAME_BYTES_LEAST, fields.ascii_name))


def _write_phase_one(message: PhaseOne) -> bytes:
    if not 0 < len(message.ranges) <= RANGES_MAX:
        raise MisuseError(f"PHASE_1: {len(message.ranges)} ranges; 1 to {RANGES_MAX} are allowed")
    return (
        _kind(TwoPhaseType.PHASE_1)
        + short_ascii(message.transaction, "PHASE_1")
        + counted([packed(_RANGE, "PHASE_1", *each) for each in message.ranges])
    )


def _read_phase_one(fields: FieldReader) -> PhaseOne:
    transaction = fields.ascii_name()
    ranges = fields.counted(_RANGE.size, lambda: fields.numbers(_RANGE))
    if not 0 < len(ranges) <= RANGES_MAX:
        raise ProtocolError(f"PHASE_1: {len(ranges)} ranges; 1 to {RANGES_MAX} are allowed")
    for stream_id, first, after in ranges:
        if first > after:
            raise ProtocolError(f"PHASE_1: a range of stream {stream_id} from {first} to {after}")
    return PhaseOne(transaction=transaction, ranges=ranges)


def _write_vote(message: Vote) -> bytes:
    return _decided(TwoPhaseType.REPLY, message.transaction, commit=message.commit)


def _read_vote(fields: FieldReader) -> Vote:
    return Vote(transaction=fields.ascii_name(), commit=fields.yes_or_no())


def _write_phase_two(message: PhaseTwo) -> bytes:
    return _decided(TwoPhaseType.PHASE_2, message.transaction, commit=message.commit)


def _read_phase_two(fields: FieldReader) -> PhaseTwo:
    return PhaseTwo(transaction=fields.ascii_name(), commit=fields.yes_or_no())


def _write_left(message: WorkersLeft) -> bytes:
    return _tagged_names(TwoPhaseType.WORKERS_LEFT, message.tag, message.workers)


def _read_left(fields: FieldReader) -> WorkersLeft:
    (tag,) = fields.numbers(_U64)
    return WorkersLeft(tag=tag, workers=fields.counted(_NAME_BYTES_LEAST, fields.ascii_name))


def _kind(kind: TwoPhaseType) -> bytes:
    return bytes((kind,))


def _tagged_names(kind: TwoPhaseType, tag: int, names: tuple[str, ...]) -> bytes:
    return _kind(kind) + packed(_U64, kind.name, tag) + counted([short_ascii(name, kind.name) for name in names])


def _decided(kind: TwoPhaseType, transaction: str, *, commit: bool) -> bytes:
    return _kind(kind) + short_ascii(transaction, kind.name) + bytes((commit,))


_WRITERS: Final[Mapping[type[TwoPhaseMessage], Callable[..., bytes]]] = {
    ListUncommitted: _write_list,
    ReplyUncommitted: _write_uncommitted,
    PhaseOne: _write_phase_one,
    Vote: _write_vote,
    PhaseTwo: _write_phase_two,
    WorkersLeft: _write_left,
}

_READERS: Final[Mapping[int, Callable[[FieldReader], TwoPhaseMessage]]] = {
    TwoPhaseType.LIST_UNCOMMITTED: _read_list,
    TwoPhaseType.REPLY_UNCOMMITTED: _read_uncommitted,
    TwoPhaseType.PHASE_1: _read_phase_one,
    TwoPhaseType.REPLY: _read_vote,
    TwoPhaseType.PHASE_2: _read_phase_two,
    TwoPhaseType.WORKERS_LEFT: _read_left,
}

assert set(_READERS) == set(TwoPhaseType)
