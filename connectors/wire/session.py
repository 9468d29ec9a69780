"""One connection as a state machine, for all four roles: which frame may come next, and what then may follow.

Pure. The legal moves are data: `SESSION_MOVES` for the connection, `STREAM_MOVES` for each stream, and
`two_phase_round.ROUND_MOVES` for the two-phase commit in a sink's connection. Whoever opens the connection says HELLO;
a source connector opens one to a listener, a relay opens one to a sink connector.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from connectors.wire.codec import decode, encode
from connectors.wire.frames import (
    TYPE_OF,
    AckFrame,
    ErrorFrame,
    Frame,
    FrameType,
    MessageFrame,
    NotifyFrame,
    OkFrame,
)
from connectors.wire.limits import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_MAX_BEFORE_OK,
    STREAMS_MAX,
    TWO_PHASE_STREAM,
    U32_MAX,
)
from connectors.wire.message_run import MessageRun, cut_messages
from connectors.wire.row_run import RowRun, cut_rows
from connectors.wire.streams import StreamTable
from connectors.wire.two_phase import disclose
from connectors.wire.two_phase_round import TwoPhaseRound
from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.frames import FrameSplitter

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConnectorRole(Enum):
    """Who this end is. Wallaroo calls a listener a source worker, and a relay a sink worker."""

    SOURCE = "source connector"
    LISTENER = "listener"
    RELAY = "relay"
    SINK = "sink connector"


class Side(Enum):
    """Who sends a frame: the one that opened the connection, or the one that took it."""

    OPENER = "opener"
    TAKER = "taker"


class SessionState(Enum):
    """How far a connection is."""

    CONNECTED = "connected"
    HANDSHAKE = "waiting for OK"
    STREAMING = "streaming"
    OVER = "over"


_OPENERS: Final = frozenset({ConnectorRole.SOURCE, ConnectorRole.RELAY})
_OF_SINKS: Final = frozenset({ConnectorRole.RELAY, ConnectorRole.SINK})

SESSION_MOVES: Final[Mapping[tuple[SessionState, Side, FrameType], SessionState]] = {
    (SessionState.CONNECTED, Side.OPENER, FrameType.HELLO): SessionState.HANDSHAKE,
    (SessionState.CONNECTED, Side.OPENER, FrameType.ERROR): SessionState.OVER,
    (SessionState.CONNECTED, Side.TAKER, FrameType.ERROR): SessionState.OVER,
    (SessionState.HANDSHAKE, Side.TAKER, FrameType.OK): SessionState.STREAMING,
    (SessionState.HANDSHAKE, Side.OPENER, FrameType.ERROR): SessionState.OVER,
    (SessionState.HANDSHAKE, Side.TAKER, FrameType.ERROR): SessionState.OVER,
    (SessionState.STREAMING, Side.OPENER, FrameType.NOTIFY): SessionState.STREAMING,
    (SessionState.STREAMING, Side.OPENER, FrameType.MESSAGE): SessionState.STREAMING,
    (SessionState.STREAMING, Side.OPENER, FrameType.EOS): SessionState.STREAMING,
    (SessionState.STREAMING, Side.OPENER, FrameType.ERROR): SessionState.OVER,
    (SessionState.STREAMING, Side.TAKER, FrameType.NOTIFY_ACK): SessionState.STREAMING,
    (SessionState.STREAMING, Side.TAKER, FrameType.ACK): SessionState.STREAMING,
    (SessionState.STREAMING, Side.TAKER, FrameType.RESTART): SessionState.OVER,
    (SessionState.STREAMING, Side.TAKER, FrameType.ERROR): SessionState.OVER,
    (SessionState.STREAMING, Side.TAKER, FrameType.MESSAGE): SessionState.STREAMING,
}
OF_SINKS_ONLY: Final = frozenset({(SessionState.STREAMING, Side.TAKER, FrameType.MESSAGE)})
"""Moves that only a sink's connection has: its half of the two-phase commit."""


class ConnectorSession:
    """Feed it what was received, take frames from it, and let it turn what is to be sent into bytes."""

    def __init__(
        self, role: ConnectorRole, *, frame_bytes_max: int = FRAME_BYTES_MAX, streams_max: int = STREAMS_MAX
    ) -> None:
        self.role = role
        self.state = SessionState.CONNECTED
        self.credits = 0
        self.unpaid_notifications = 0
        """This many came without a credit: they had none to give back."""
        self.streams = StreamTable(streams_max=streams_max)
        self.round = TwoPhaseRound() if role in _OF_SINKS else None
        self._our_side = Side.OPENER if role in _OPENERS else Side.TAKER
        self._their_side = Side.TAKER if role in _OPENERS else Side.OPENER
        self._frame_bytes_max = frame_bytes_max
        self._splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX_BEFORE_OK)

    @property
    def midway_bytes(self) -> int:
        """How much is kept of a frame whose end has not come."""
        return self._splitter.midway_bytes

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take received bytes. Then call `next_frame` until None before `data` changes or more is received."""
        self._splitter.feed(data)

    def next_frame(self) -> Frame | None:
        """The peer's next frame, or None when more bytes are needed, or the connection is over.

        ProtocolError when the peer broke the protocol: then send an ErrorFrame, and close.
        """
        if self.state is SessionState.OVER:
            return None
        try:
            cut = self._splitter.next_frame()
            if cut is None:
                return None
            frame = decode(*cut)
            self._see(self._their_side, frame)
        except ProtocolError:
            self.state = SessionState.OVER
            raise
        return frame

    def next_messages(self) -> MessageRun | None:
        """For a listener, the messages that come next, as many as are there; None: see `next_frame`."""
        if self.state is not SessionState.STREAMING:
            return None
        run = cut_messages(self._splitter, self.streams.open_points, frames_max=self.credits)
        if run is not None:
            self.credits -= run.frames
        return run

    def next_rows(self, stream_id: int, first: int) -> RowRun | None:
        """For a sink, the messages of this stream that come next and follow `first`; None: see `next_frame`."""
        taken = self.state is SessionState.STREAMING and stream_id in self.streams.open_points
        if not (taken and self.role is ConnectorRole.SINK and self.round is not None and self.round.takes_data):
            return None
        return cut_rows(self._splitter, stream_id, first)

    def send(self, frame: Frame) -> bytes:
        """The bytes to send for this frame. MisuseError when it may not be sent now; then nothing has changed."""
        data = encode(frame)
        if self.state is SessionState.OVER and isinstance(frame, ErrorFrame):
            return data  # says why it is over
        if isinstance(frame, MessageFrame | NotifyFrame):
            self._check_credit()
        try:
            self._see(self._our_side, frame)
        except ProtocolError as error:
            raise MisuseError(f"this cannot be sent: {error}") from None
        return data

    def spend(self, stream_id: int, messages: int) -> None:
        """Send this many messages of an open stream, which were encoded before: as `send`, without a look at each."""
        if self.state is not SessionState.STREAMING or stream_id not in self.streams.open_points:
            raise MisuseError(f"stream {stream_id} is not open on a connection that is streaming")
        if messages > self.credits:
            raise MisuseError(f"{messages} messages with {self.credits} credits")
        self.credits -= messages

    def _check_credit(self) -> None:
        if self.round is None and self.credits == 0:
            raise MisuseError("there is no credit; wait for an ACK that brings some")

    def _see(self, side: Side, frame: Frame) -> None:
        """Make the move of a frame, sent or received."""
        kind = TYPE_OF[type(frame)]
        move = (self.state, side, kind)
        after = SESSION_MOVES.get(move)
        if after is None or (self.round is None and move in OF_SINKS_ONLY):
            raise ProtocolError(f"{kind.name} of the {side.value} is not allowed while {self.state.value}")
        if self.round is None:
            self._see_at_source(frame)
        else:
            self._see_at_sink(self.round, side, frame)
        self.state = after
        if isinstance(frame, OkFrame):
            self._splitter.frame_bytes_max = self._frame_bytes_max

    def _see_at_source(self, frame: Frame) -> None:
        """Streams, and credits: a message or notification costs one.

        A notification without a credit is taken (Wallaroo's client sends them all at once), a message is not.
        """
        match frame:
            case MessageFrame():
                if self.credits == 0:
                    raise ProtocolError("MESSAGE without a credit")
                self.streams.see(frame)
                self.credits -= 1
            case NotifyFrame():
                self.streams.see(frame)
                if self.credits:
                    self.credits -= 1
                else:
                    self.unpaid_notifications += 1
            case AckFrame(credits=more):
                self.streams.see(frame)
                self._add_credits(more)
            case OkFrame(initial_credits=more):
                self._add_credits(more)
            case _:
                self.streams.see(frame)

    def _see_at_sink(self, two_phase_round: TwoPhaseRound, side: Side, frame: Frame) -> None:
        """Streams, and rounds. There are no credits; what a sink's ACK says is not looked at (Wallaroo's is wrong)."""
        match frame:
            case MessageFrame(stream_id=stream_id) if stream_id == TWO_PHASE_STREAM:
                two_phase_round.see(disclose(frame), of_relay=side is Side.OPENER)
            case MessageFrame():
                if side is Side.TAKER:
                    raise ProtocolError(f"a sink sends messages of stream {TWO_PHASE_STREAM} only")
                two_phase_round.see_data()
                self.streams.see(frame)
            case AckFrame():
                pass
            case _:
                self.streams.see(frame)

    def _add_credits(self, more: int) -> None:
        if self.credits + more > U32_MAX:
            raise ProtocolError(f"{more} more credits on top of {self.credits}: more than {U32_MAX}")
        self.credits += more
