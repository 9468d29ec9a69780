"""The messages of the file protocol as values, and their type codes. Bytes: encoding.py, decoding.py. Pure.

The body of most is the msgpack array of the fields, in order, each annotated with its shape (elements.py). A streamed
write (WRITE_OPEN, DATA…, then WRITE_COMMIT or WRITE_CANCEL) is one request made of several frames.

The annotations are read at import, so they are not postponed here.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, Final

from journal.errors import FieldValue
from journal.gateway.wire import limits
from journal.gateway.wire.elements import (
    CLAIM,
    INSTANCE,
    ClaimedPaths,
    Flag,
    Instance,
    Limit,
    MaybeNumber,
    MaybeText,
    Number,
    Status,
    Statuses,
    Text,
    pairs,
)
from journal.volume import Buffer, MarkValue, OperationId, PathClaim, VolumeDescription
from sos_client.wire.errors import ProtocolError
from sos_client.wire.shapes import NUMBER, ArrayShape, Shape, optional


class FileMessageType(IntEnum):
    """Type codes on the wire. None of them is one of the SOS protocol's, so that a wrong port is noticed at once."""

    HELLO = 0x21
    OPEN = 0x22
    PUT = 0x23
    WRITE_OPEN = 0x24
    DATA = 0x25
    WRITE_COMMIT = 0x26
    WRITE_CANCEL = 0x27
    READ = 0x28
    STAT = 0x29
    LIST = 0x2A
    MKDIRS = 0x2B
    DELETE = 0x2C
    RENAME = 0x2D
    CLAIM = 0x2E
    MARK = 0x2F
    PING = 0x30
    QUIT = 0x31
    PIN = 0x32
    DESCRIBE = 0x33
    CLAIMS = 0x34
    RELEASE = 0x35
    APPEND = 0x36

    WELCOME = 0xA1
    OPENED = 0xA2
    STATUS = 0xA3
    DONE = 0xA4
    PAGE = 0xA5
    READ_END = 0xA6
    WAITING = 0xA7
    PONG = 0xA8
    BYE = 0xA9
    ERROR = 0xAA
    DESCRIPTION = 0xAB
    CLAIM_PAGE = 0xAC


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What every change carries: which operation it is, who claims to write there, the highest epoch its client saw."""

    operation: OperationId
    claim: PathClaim | None
    epoch_seen: int

    @classmethod
    def of(cls, client: bytes, sequence: int, claim: PathClaim | None, epoch_seen: int) -> "Stamp":
        return cls(operation=OperationId(client, sequence), claim=claim, epoch_seen=epoch_seen)


STAMP_FIELDS: Final = {
    "operation.client": INSTANCE,
    "operation.sequence": NUMBER,
    "claim": optional(CLAIM.shape()),
    "epoch_seen": NUMBER,
}
STAMP: Final = ArrayShape(Stamp.of, STAMP_FIELDS, name="stamp", by_name=False)


def _claiming(value: object) -> Stamp:
    stamp = STAMP.read(value)
    if stamp.claim is None:
        raise ProtocolError("a CLAIM or RELEASE without the claim")
    return stamp


StampField = Annotated[Stamp, STAMP.shape()]
ClaimingStamp = Annotated[Stamp, Shape(what="a stamp with a claim", reads=_claiming, writes=STAMP.write)]
MarkValues = Annotated[tuple[tuple[str, MarkValue], ...], pairs(limits.MARK_VALUES_MAX, (str, int))]
RefusalFields = Annotated[
    tuple[tuple[str, FieldValue], ...], pairs(limits.ERROR_FIELDS_MAX, (int, str, bytes, bool, type(None)))
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloRequest:
    type_code: ClassVar = FileMessageType.HELLO
    version: Number
    token: bytes | None
    client: Text
    instance: Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    type_code: ClassVar = FileMessageType.OPEN
    volume: Text
    epoch_seen: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRequest:
    """`modified_ms` not None keeps a time from elsewhere (import, restore, fork)."""

    type_code: ClassVar = FileMessageType.PUT
    path: Text
    overwrite: Flag
    stamp: StampField
    payload: Buffer
    modified_ms: MaybeNumber = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """Adds to the file that has this size and time; both change with whatever somebody else does to it."""

    type_code: ClassVar = FileMessageType.APPEND
    path: Text
    size: Number
    modified_ms: Number
    stamp: StampField
    payload: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOpenRequest:
    type_code: ClassVar = FileMessageType.WRITE_OPEN
    path: Text
    overwrite: Flag
    stamp: StampField
    modified_ms: MaybeNumber = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """File bytes in either direction; `offset` is where in the file they belong."""

    type_code: ClassVar = FileMessageType.DATA
    offset: Number
    payload: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommitRequest:
    type_code: ClassVar = FileMessageType.WRITE_COMMIT
    size: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCancelRequest:
    type_code: ClassVar = FileMessageType.WRITE_CANCEL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """`modified_ms` not None: refuse with CHANGED unless the file is still that one (for reads in several requests)."""

    type_code: ClassVar = FileMessageType.READ
    path: Text
    offset: Number
    length: MaybeNumber
    modified_ms: MaybeNumber
    epoch_seen: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class StatRequest:
    type_code: ClassVar = FileMessageType.STAT
    path: Text
    epoch_seen: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    type_code: ClassVar = FileMessageType.LIST
    path: Text
    after: Text
    limit: Limit
    epoch_seen: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class MkdirsRequest:
    type_code: ClassVar = FileMessageType.MKDIRS
    path: Text
    stamp: StampField


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    type_code: ClassVar = FileMessageType.DELETE
    path: Text
    recursive: Flag
    stamp: StampField


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRequest:
    type_code: ClassVar = FileMessageType.RENAME
    source: Text
    target: Text
    overwrite: Flag
    stamp: StampField


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Claims `path` for the stamp's claim, which must be there."""

    type_code: ClassVar = FileMessageType.CLAIM
    path: Text
    stamp: ClaimingStamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRequest:
    """Keep a moment from being cleaned for a while; `seconds` 0 releases it."""

    type_code: ClassVar = FileMessageType.PIN
    name: Text
    lsn: Number
    seconds: Number
    stamp: StampField


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRequest:
    type_code: ClassVar = FileMessageType.MARK
    values: MarkValues
    stamp: StampField


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeRequest:
    type_code: ClassVar = FileMessageType.DESCRIBE
    epoch_seen: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsRequest:
    """`after` None: from the start."""

    type_code: ClassVar = FileMessageType.CLAIMS
    after: MaybeText
    limit: Limit
    epoch_seen: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """Ends the claim on `path`, which must be the stamp's."""

    type_code: ClassVar = FileMessageType.RELEASE
    path: Text
    stamp: ClaimingStamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PingRequest:
    type_code: ClassVar = FileMessageType.PING
    number: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class QuitRequest:
    type_code: ClassVar = FileMessageType.QUIT


@dataclass(frozen=True, slots=True, kw_only=True)
class WelcomeAnswer:
    type_code: ClassVar = FileMessageType.WELCOME
    version: Number
    service: Instance
    frame_bytes_max: Number
    piece_bytes_max: Number
    time_ms: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedAnswer:
    type_code: ClassVar = FileMessageType.OPENED
    epoch: Number
    volume: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusAnswer:
    """Answers PUT, WRITE_COMMIT and STAT, and comes first in the answer to READ."""

    type_code: ClassVar = FileMessageType.STATUS
    epoch: Number
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneAnswer:
    """Answers the other changes; `applied` is False only when DELETE or RELEASE found nothing."""

    type_code: ClassVar = FileMessageType.DONE
    epoch: Number
    applied: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer:
    type_code: ClassVar = FileMessageType.PAGE
    epoch: Number
    entries: Statuses
    more: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionAnswer:
    type_code: ClassVar = FileMessageType.DESCRIPTION
    epoch: Number
    description: VolumeDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPageAnswer:
    type_code: ClassVar = FileMessageType.CLAIM_PAGE
    epoch: Number
    claims: ClaimedPaths
    more: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEndAnswer:
    type_code: ClassVar = FileMessageType.READ_END
    epoch: Number
    next_offset: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAnswer:
    """Not an answer: the service is alive and still works on the request."""

    type_code: ClassVar = FileMessageType.WAITING
    epoch: Number
    waited_ms: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class PongAnswer:
    type_code: ClassVar = FileMessageType.PONG
    epoch: Number
    number: Number
    time_ms: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ByeAnswer:
    type_code: ClassVar = FileMessageType.BYE


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalAnswer:
    """`code` is a plain number, so that a client can carry one that it does not know."""

    type_code: ClassVar = FileMessageType.ERROR
    epoch: Number
    code: Number
    message: Text
    fields: RefusalFields = ()


Request = (
    HelloRequest
    | OpenRequest
    | PutRequest
    | AppendRequest
    | WriteOpenRequest
    | FileData
    | WriteCommitRequest
    | WriteCancelRequest
    | ReadRequest
    | StatRequest
    | ListRequest
    | MkdirsRequest
    | DeleteRequest
    | RenameRequest
    | ClaimRequest
    | MarkRequest
    | PinRequest
    | DescribeRequest
    | ClaimsRequest
    | ReleaseRequest
    | PingRequest
    | QuitRequest
)
Answer = (
    WelcomeAnswer
    | OpenedAnswer
    | StatusAnswer
    | FileData
    | DoneAnswer
    | PageAnswer
    | DescriptionAnswer
    | ClaimPageAnswer
    | ReadEndAnswer
    | WaitingAnswer
    | PongAnswer
    | ByeAnswer
    | RefusalAnswer
)
Message = Request | Answer
