"""The frames of the connector protocol, as values. Their bytes are in `codec`, who may send which when in `session`.

Pure. `MessageFrame` travels once for each message: it is a plain tuple, which costs a third of a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class FrameType(IntEnum):
    """The byte after the length of a frame."""

    HELLO = 0
    OK = 1
    ERROR = 2
    NOTIFY = 3
    NOTIFY_ACK = 4
    MESSAGE = 5
    ACK = 6
    RESTART = 7
    EOS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloFrame:
    """The first frame. The cookie keeps apart what does not belong together; it is not the authentication."""

    version: str
    cookie: bytes = field(repr=False)
    program: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OkFrame:
    """HELLO was accepted. The number of messages and notifications that may be sent."""

    initial_credits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFrame:
    """The connection is over, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyFrame:
    """A stream will be used. The point of reference is where its sender would go on; it decides nothing."""

    stream_id: int
    stream_name: str
    point_of_reference: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyAckFrame:
    """Whether the stream may be used here, and the last message of it that has been taken (NOTHING_SEEN: none)."""

    accepted: bool
    stream_id: int
    point_of_reference: int


class MessageFrame(NamedTuple):
    """One message of a stream; an empty key is not a key. Key and payload may be views, valid until more comes."""

    stream_id: int
    message_id: int
    event_time: int = 0
    key: bytes | memoryview = b""
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class EosFrame:
    """The stream has ended. NOTIFY opens it again."""

    stream_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AckFrame:
    """More credits, and of each of these streams the last message that will never have to be sent again."""

    credits: int
    points: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartFrame:
    """The connection is over; connect again, to this address if there is one."""

    address: str = ""


Frame = (
    HelloFrame | OkFrame | ErrorFrame | NotifyFrame | NotifyAckFrame | MessageFrame | EosFrame | AckFrame | RestartFrame
)

TYPE_OF: dict[type[Frame], FrameType] = {
    HelloFrame: FrameType.HELLO,
    OkFrame: FrameType.OK,
    ErrorFrame: FrameType.ERROR,
    NotifyFrame: FrameType.NOTIFY,
    NotifyAckFrame: FrameType.NOTIFY_ACK,
    MessageFrame: FrameType.MESSAGE,
    EosFrame: FrameType.EOS,
    AckFrame: FrameType.ACK,
    RestartFrame: FrameType.RESTART,
}
