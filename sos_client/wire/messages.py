"""The messages of the SOS protocol, as values. Their bytes are in `codec`, who may send which when in `connection`.

Two kinds travel once per append rather than once per object, `Data` and `Ack`: they are plain tuples, which cost a
third of what a frozen dataclass costs to make. Names are plain text here: a name that is not allowed is a refusal
(BAD_NAME) by whoever answers, not a broken protocol.

The annotations are read at import (they carry the shapes of `fields`), so they are not postponed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple, Self

from sos_client.wire.errors import ErrorCode, FieldValue, RefusedError, sentence_for
from sos_client.wire.fields import (
    Crc,
    Epoch,
    Flag,
    Holder,
    Identity,
    MaybeCrc,
    MaybeOffset,
    Offset,
    PageLimit,
    Seconds,
    Text,
)
from sos_client.wire.limits import TEXT_BYTES_MAX

_SENTENCE_CHARACTERS_MAX = TEXT_BYTES_MAX // 4
"""What is longer is cut: a refusal must never fail to be sent for its wording."""


class MessageType(IntEnum):
    """The type byte of a frame: requests below 0x40, DATA either way, answers from 0x80. 0 is never used."""

    HELLO = 0x01
    USE = 0x02
    FENCE = 0x03
    APPEND = 0x04
    END = 0x05
    SEAL = 0x06
    GET = 0x07
    STOP = 0x08
    STAT = 0x09
    LIST = 0x0A
    DELETE = 0x0B
    PING = 0x0C
    QUIT = 0x0D
    DATA = 0x40
    WELCOME = 0x81
    USING = 0x82
    FENCED = 0x83
    APPENDING = 0x84
    ENDED = 0x85
    SEALED = 0x86
    GET_END = 0x87
    ACK = 0x88
    OBJECT_INFO = 0x89
    LISTING = 0x8A
    DELETED = 0x8B
    PONG = 0x8C
    BYE = 0x8D
    ERROR = 0xFF


class Data(NamedTuple):
    """Bytes of an object, from `offset` on. `payload` is a view that is valid until more bytes are received."""

    offset: int
    crc: int
    payload: bytes | bytearray | memoryview


class Ack(NamedTuple):
    """How far this append has been received, and how far it is on disk."""

    written: int
    synced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame. `instance` names the process: a new connection of it takes over what its old one left open."""

    version: int
    token: bytes | None = field(repr=False)
    client: Text
    instance: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    type_code: ClassVar = MessageType.WELCOME
    version: Offset
    server_identity: Identity
    frame_bytes_max: Offset
    server_time: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    type_code: ClassVar = MessageType.USE
    namespace: Text
    create: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Using:
    """The namespace's incarnation and current claim; epoch 0 and no holder when it was never claimed."""

    type_code: ClassVar = MessageType.USING
    incarnation: Identity
    epoch: Epoch
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    type_code: ClassVar = MessageType.FENCE
    epoch: Epoch
    holder: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    type_code: ClassVar = MessageType.FENCED
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Begin to append at exactly `size`; `prefix_crc`, when given, must be the CRC32C of all bytes before."""

    type_code: ClassVar = MessageType.APPEND
    object: Text
    size: Offset
    prefix_crc: MaybeCrc
    epoch: Epoch
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Appending:
    type_code: ClassVar = MessageType.APPENDING
    size: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    type_code: ClassVar = MessageType.END


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The append is over; all of it is on disk, and this is the object's size."""

    type_code: ClassVar = MessageType.ENDED
    size: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    type_code: ClassVar = MessageType.SEAL
    object: Text
    size: Offset
    epoch: Epoch
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    type_code: ClassVar = MessageType.SEALED
    size: Offset
    crc: Crc


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """Bytes from `offset` on: `length` of them, or to the end. `follow` goes on as the object grows, until STOP."""

    type_code: ClassVar = MessageType.GET
    object: Text
    offset: Offset
    length: MaybeOffset
    follow: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEnd:
    type_code: ClassVar = MessageType.GET_END
    next_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    type_code: ClassVar = MessageType.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    type_code: ClassVar = MessageType.STAT
    object: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What is known of an object, synced bytes only. `epoch` is that of the last append.

    `cut_bytes` is what the server's last recovery cut off after the synced bytes, `damaged` says that some synced
    bytes are known not to match their CRC.
    """

    type_code: ClassVar = MessageType.OBJECT_INFO
    name: Text
    size: Offset
    sealed: Flag
    epoch: Epoch
    crc: Crc
    server_time: Seconds
    cut_bytes: Offset = 0
    damaged: Flag = False


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """Up to `limit` objects in order of name, those after the name `after` ("" for all)."""

    type_code: ClassVar = MessageType.LIST
    after: Text
    limit: PageLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    entries: tuple[ObjectInfo, ...]
    more: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    type_code: ClassVar = MessageType.DELETE
    object: Text
    epoch: Epoch
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    type_code: ClassVar = MessageType.DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    type_code: ClassVar = MessageType.PING
    n: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    type_code: ClassVar = MessageType.PONG
    n: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Quit:
    type_code: ClassVar = MessageType.QUIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    type_code: ClassVar = MessageType.BYE


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """A refusal on its way; `as_error` is the exception to raise for it."""

    code: ErrorCode
    fields: Mapping[str, FieldValue]
    message: str

    @classmethod
    def of(cls, error: RefusedError) -> Self:
        return cls(code=error.code, fields=error.fields, message=error.message[:_SENTENCE_CHARACTERS_MAX])

    @classmethod
    def because(cls, code: ErrorCode, **fields: FieldValue) -> Self:
        return cls(code=code, fields=fields, message=sentence_for(code, fields))

    def as_error(self) -> RefusedError:
        return RefusedError(self.code, self.message, **self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A request that this side does not know. It is answered with UNSUPPORTED; the connection stays."""

    type_code: int


Request = Hello | Use | Fence | Append | Data | End | Seal | Get | Stop | Stat | List | Delete | Ping | Quit | Unknown
Answer = (
    Welcome | Using | Fenced | Appending | Ack | Ended | Sealed | Data | GetEnd | ObjectInfo | Listing | Deleted | Pong
    | Bye | Error
)  # fmt: skip
Message = Request | Answer

ASKED: Final[Mapping[type[Request], type[Answer]]] = {
    Use: Using,
    Fence: Fenced,
    Seal: Sealed,
    Stat: ObjectInfo,
    List: Listing,
    Delete: Deleted,
}
"""Requests that may be sent whenever a connection is idle, and have one answer: most of them."""
