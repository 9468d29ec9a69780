"""What may happen to one stream in one connection. The legal moves are data: `STREAM_MOVES`.

Pure. It is the same for who sends and who receives. That the whole connection is over is `session`'s.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from connectors.wire.frames import AckFrame, EosFrame, MessageFrame, NotifyAckFrame, NotifyFrame
from connectors.wire.limits import NOTHING_SEEN, STREAMS_MAX
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connectors.wire.frames import Frame


class StreamState(Enum):
    """What has been said about a stream."""

    UNKNOWN = "not introduced"
    NOTIFIED = "waiting for NOTIFY_ACK"
    OPEN = "open"
    CLOSED = "closed"


class StreamMove(Enum):
    """What a frame is to a stream. A NOTIFY_ACK that refuses is another move than one that accepts."""

    NOTIFY = "NOTIFY"
    ACCEPT = "NOTIFY_ACK (accepted)"
    REFUSE = "NOTIFY_ACK (refused)"
    MESSAGE = "MESSAGE"
    EOS = "EOS"
    ACK = "ACK"


STREAM_MOVES: Final[Mapping[tuple[StreamState, StreamMove], StreamState]] = {
    (StreamState.UNKNOWN, StreamMove.NOTIFY): StreamState.NOTIFIED,
    (StreamState.NOTIFIED, StreamMove.ACCEPT): StreamState.OPEN,
    (StreamState.NOTIFIED, StreamMove.REFUSE): StreamState.CLOSED,
    # What came before a stream was closed may be acknowledged when it has been introduced again.
    (StreamState.NOTIFIED, StreamMove.ACK): StreamState.NOTIFIED,
    (StreamState.OPEN, StreamMove.MESSAGE): StreamState.OPEN,
    (StreamState.OPEN, StreamMove.ACK): StreamState.OPEN,
    (StreamState.OPEN, StreamMove.EOS): StreamState.CLOSED,
    (StreamState.CLOSED, StreamMove.ACK): StreamState.CLOSED,
    (StreamState.CLOSED, StreamMove.NOTIFY): StreamState.NOTIFIED,
}


class StreamTable:
    """The streams of one connection, and the point of reference that each was opened with or has reached since.

    `open_points` is there for `message_run`: the last message of each open stream, -1 where nothing has been seen.
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX) -> None:
        self._states: dict[int, StreamState] = {}  # of those in use
        self._closed: dict[int, None] = {}  # the last of those that were, for what is acknowledged late
        self._streams_max = streams_max
        self.open_points: dict[int, int] = {}

    def state(self, stream_id: int) -> StreamState:
        """Where a stream is."""
        state = self._states.get(stream_id)
        if state is None:
            return StreamState.CLOSED if stream_id in self._closed else StreamState.UNKNOWN
        return state

    def see(self, frame: Frame) -> None:
        """Make the move of a frame that was sent or received. ProtocolError when it is not allowed."""
        match frame:
            case MessageFrame(stream_id, message_id):
                if stream_id not in self.open_points or message_id == NOTHING_SEEN:
                    self._refuse_message(stream_id, message_id)
            case NotifyFrame(stream_id=stream_id):
                if stream_id not in self._states and len(self._states) >= self._streams_max:
                    raise ProtocolError(f"more than {self._streams_max} streams open on one connection")
                self._move(stream_id, StreamMove.NOTIFY)
            case NotifyAckFrame(stream_id=stream_id, accepted=True):
                self._move(stream_id, StreamMove.ACCEPT)
                point = frame.point_of_reference
                self.open_points[stream_id] = -1 if point == NOTHING_SEEN else point
            case NotifyAckFrame(stream_id=stream_id):
                self._move(stream_id, StreamMove.REFUSE)
            case EosFrame(stream_id=stream_id):
                self._move(stream_id, StreamMove.EOS)
                del self.open_points[stream_id]
            case AckFrame(points=points):
                for stream_id, _ in points:
                    self._move(stream_id, StreamMove.ACK)
            case _:
                pass

    def _move(self, stream_id: int, move: StreamMove) -> None:
        before = self.state(stream_id)
        after = STREAM_MOVES.get((before, move))
        if after is None:
            raise ProtocolError(f"{move.value} for stream {stream_id}, which is {before.value}")
        if after is StreamState.CLOSED:
            self._close(stream_id)
        else:
            self._closed.pop(stream_id, None)
            self._states[stream_id] = after

    def _close(self, stream_id: int) -> None:
        self._states.pop(stream_id, None)
        self._closed.setdefault(stream_id)
        if len(self._closed) > self._streams_max:
            del self._closed[next(iter(self._closed))]

    def _refuse_message(self, stream_id: int, message_id: int) -> None:
        self._move(stream_id, StreamMove.MESSAGE)  # says what is wrong with the stream
        raise ProtocolError(f"a message of stream {stream_id} with id {message_id}, which stands for none")
