"""The messages of the file protocol as values, and their type codes. Bytes: encoding.py, decoding.py, PROTOCOL.md.

A streamed write (WRITE_OPEN, DATA…, then WRITE_COMMIT or WRITE_CANCEL) is one request made of several frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journal.errors import FieldValue
    from journal.volume import Buffer, ClaimedPath, FileStatus, MarkValue, OperationId, PathClaim, VolumeDescription


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloRequest:
    version: int
    token: bytes | None
    client: str
    instance: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    volume: str
    epoch_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRequest:
    """`modified_ms` not None keeps a time from elsewhere (import, restore, fork)."""

    path: str
    overwrite: bool
    stamp: Stamp
    payload: Buffer
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """Adds to the file that has this size and time; both change with whatever somebody else does to it."""

    path: str
    size: int
    modified_ms: int
    stamp: Stamp
    payload: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOpenRequest:
    path: str
    overwrite: bool
    stamp: Stamp
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """File bytes in either direction; `offset` is where in the file they belong."""

    offset: int
    payload: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommitRequest:
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCancelRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """`modified_ms` not None: refuse with CHANGED unless the file is still that one (for reads in several requests)."""

    path: str
    offset: int
    length: int | None
    modified_ms: int | None
    epoch_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatRequest:
    path: str
    epoch_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    path: str
    after: str
    limit: int
    epoch_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MkdirsRequest:
    path: str
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    path: str
    recursive: bool
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRequest:
    source: str
    target: str
    overwrite: bool
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Claims `path` for the stamp's claim, which must be there."""

    path: str
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRequest:
    """Keep a moment from being cleaned for a while; `seconds` 0 releases it."""

    name: str
    lsn: int
    seconds: int
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRequest:
    values: tuple[tuple[str, MarkValue], ...]
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeRequest:
    epoch_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsRequest:
    """`after` None: from the start."""

    after: str | None
    limit: int
    epoch_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """Ends the claim on `path`, which must be the stamp's."""

    path: str
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PingRequest:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuitRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class WelcomeAnswer:
    version: int
    service: bytes
    frame_bytes_max: int
    piece_bytes_max: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedAnswer:
    epoch: int
    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusAnswer:
    """Answers PUT, WRITE_COMMIT and STAT, and comes first in the answer to READ."""

    epoch: int
    status: FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneAnswer:
    """Answers the other changes; `applied` is False only when DELETE or RELEASE found nothing."""

    epoch: int
    applied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer:
    epoch: int
    entries: tuple[FileStatus, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionAnswer:
    epoch: int
    description: VolumeDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPageAnswer:
    epoch: int
    claims: tuple[ClaimedPath, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEndAnswer:
    epoch: int
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAnswer:
    """Not an answer: the service is alive and still works on the request."""

    epoch: int
    waited_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PongAnswer:
    epoch: int
    number: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ByeAnswer:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalAnswer:
    """`code` is a plain number, so that a client can carry one that it does not know."""

    epoch: int
    code: int
    message: str
    fields: tuple[tuple[str, FieldValue], ...] = field(default=())


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
