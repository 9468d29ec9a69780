"""One connection as a state machine, the same for both ends: which message may come next, and what then may follow.

The legal moves are data: `TRANSITIONS` says which request may be sent in which state, `exchange.ANSWERS` what may come
back, and `ANSWER_OVER` the one change of state that no request makes, but an answer. (An error that ends the connection
closes it in any state.)

Requests are answered in order. An append and a follow are modes: their answer may be over early (refused, or at the end
of a sealed object), but only END or STOP of the client leaves the mode; what it sends until then is discarded.

No bytes are moved here but those of control messages, no time passes, and nothing is retried.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from sos_client.wire import messages as m
from sos_client.wire.codec import ack_frame, data_header, decode_answer, decode_data, decode_request, encode, hello_head
from sos_client.wire.data_run import DataRun, cut_run, lone_frame
from sos_client.wire.errors import REFUSALS, MisuseError, ProtocolError
from sos_client.wire.exchange import Exchange
from sos_client.wire.frames import FrameSplitter
from sos_client.wire.limits import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_MAX_BEFORE_HELLO,
    FRAME_BYTES_MAX_LEAST,
    LENGTH_BYTES,
    PIPELINED_REQUESTS_MAX,
    REQUEST_BYTES_MAX,
)
from sos_client.wire.messages import Answer, Message, MessageType, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Role(Enum):
    CLIENT = "client"
    SERVER = "server"


class State(Enum):
    """What the client may send next."""

    OPENING = "opening"
    IDLE = "idle"
    APPENDING = "appending"
    DISCARDING = "discarding"  # appending was refused, END has not come yet
    FOLLOWING = "following"
    CLOSED = "closed"


class Move(Enum):
    """What a request is to the state machine. A GET that follows is another move than one that does not."""

    HELLO = "HELLO"
    ASK = "USE, FENCE, SEAL, STAT, LIST, DELETE or an unknown request"
    APPEND = "APPEND"
    DATA = "DATA"
    END = "END"
    GET = "GET"
    FOLLOW = "GET that follows"
    STOP = "STOP"
    PING = "PING"
    QUIT = "QUIT"


TRANSITIONS: Final[Mapping[tuple[State, Move], State]] = {
    (State.OPENING, Move.HELLO): State.IDLE,
    (State.IDLE, Move.ASK): State.IDLE,
    (State.IDLE, Move.GET): State.IDLE,
    (State.IDLE, Move.PING): State.IDLE,
    (State.IDLE, Move.QUIT): State.CLOSED,
    (State.IDLE, Move.APPEND): State.APPENDING,
    (State.APPENDING, Move.DATA): State.APPENDING,
    (State.APPENDING, Move.PING): State.APPENDING,
    (State.APPENDING, Move.END): State.IDLE,
    (State.DISCARDING, Move.DATA): State.DISCARDING,
    (State.DISCARDING, Move.PING): State.DISCARDING,
    (State.DISCARDING, Move.END): State.IDLE,
    (State.IDLE, Move.FOLLOW): State.FOLLOWING,
    (State.FOLLOWING, Move.PING): State.FOLLOWING,
    (State.FOLLOWING, Move.STOP): State.IDLE,
}

ANSWER_OVER: Final[Mapping[State, State]] = {State.APPENDING: State.DISCARDING}
"""Where the answer to a mode's request may be over before the client has left the mode, and what is then. A follow
stays one: the client may only PING and STOP in it, which need no other state."""


_MOVES: Final[Mapping[type[Message], Move]] = {
    **dict.fromkeys(m.ASKED, Move.ASK),
    m.Unknown: Move.ASK,
    m.Hello: Move.HELLO,
    m.Append: Move.APPEND,
    m.Data: Move.DATA,
    m.End: Move.END,
    m.Get: Move.GET,
    m.Stop: Move.STOP,
    m.Ping: Move.PING,
    m.Quit: Move.QUIT,
}


class Connection:
    """Feed it what was received, take events from it, and let it turn what is to be sent into bytes.

    `admit(version, token)` is called on a server with the fixed part of HELLO before anything else in it is decoded;
    what it raises comes out of `next_event`.
    """

    def __init__(
        self,
        role: Role,
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        admit: Callable[[int, bytes | None], None] | None = None,
    ) -> None:
        self.role = role
        self.state = State.OPENING
        self.peer_frame_bytes_max = FRAME_BYTES_MAX_BEFORE_HELLO if role is Role.CLIENT else FRAME_BYTES_MAX
        self._frame_bytes_max = frame_bytes_max
        self._splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX_BEFORE_HELLO)
        self._admit = admit
        self._exchanges: deque[Exchange] = deque()  # in the order of their requests; the first is being answered
        self._mode: Exchange | None = None  # the append or follow whose answer is not over and that was not left
        self._pings = 0
        self._greeted = False
        self._broken = False

    @property
    def unanswered(self) -> int:
        """How many requests have no complete answer yet."""
        return len(self._exchanges) + self._pings

    @property
    def broken(self) -> bool:
        """Nothing more can be exchanged: the protocol was broken, or an error that ends the connection has passed."""
        return self._broken

    @property
    def midway(self) -> bool:
        """Whether the peer owes the rest of a frame."""
        return self._splitter.midway

    @property
    def midway_bytes(self) -> int:
        """How much of such a frame is kept."""
        return self._splitter.midway_bytes

    @property
    def drained(self) -> bool:
        """Whether everything that was received has been taken, so that `next_event` would be None."""
        return self._splitter.drained

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take received bytes. Then call `next_event` until None before `data` changes or more is received."""
        self._splitter.feed(data)

    def keep_rest(self) -> None:
        """Copy what was received and not taken: the buffer that it came in may change from now on."""
        self._splitter.keep_rest()

    def receive_run(self, data: memoryview) -> DataRun | None:
        """`receive` and `next_run` in one, which costs less when `data` is just one frame of an append."""
        mode, splitter = self._mode, self._splitter
        if mode is not None and self.state is State.APPENDING and not self._broken and splitter.drained:
            run = lone_frame(data, mode.next_offset, end_max=mode.end_offset, frame_bytes_max=splitter.frame_bytes_max)
            if run is not None:
                mode.next_offset = run.end
                return run
        splitter.feed(data)
        return self.next_run()

    def next_event(self) -> Message | None:
        """The next message of the peer, or None when more bytes are needed.

        ProtocolError when the peer broke the protocol: a server then sends an Error with that code, and both close.
        """
        try:
            while not self._broken and (frame := self._splitter.next_frame()) is not None:
                message = self._server_event(*frame) if self.role is Role.SERVER else self._client_event(*frame)
                if message is not None:
                    return message
        except ProtocolError:
            self._broken = True
            raise
        return None

    def next_run(self) -> DataRun | None:
        """For a server, the DATA frames of an append that come next, as many as are there; None: see `next_event`."""
        mode = self._mode
        if mode is None or self.state is not State.APPENDING or self._broken:
            return None
        run = cut_run(self._splitter, mode.next_offset, end_max=mode.end_offset)
        if run is not None:
            mode.next_offset = run.end
        return run

    def send(self, message: Message) -> bytes:
        """The bytes to send for this message. MisuseError when it may not be sent now; then nothing has changed."""
        if self._broken and not _closes(message):
            raise MisuseError(f"{type(message).__name__} cannot be sent: the connection is over")
        data = encode(message)
        self._check_size(len(data))
        try:
            if self.role is Role.CLIENT:
                self._request(cast("Request", message))
            else:
                self._answer(cast("Answer", message))
        except ProtocolError as error:
            raise MisuseError(str(error)) from None
        return data

    def acknowledge(self, written: int, synced: int) -> bytes:
        """`send(Ack(written, synced))` at a third of its cost, which shows when there is one for each append."""
        exchange = self._exchanges[0] if self._exchanges else None
        if exchange is None or self._broken or not exchange.acknowledge(written, synced):
            return self.send(m.Ack(written, synced))  # says what is wrong
        return ack_frame(written, synced)

    def send_data(self, payload: bytes | bytearray | memoryview, *, crc: int | None = None) -> bytes:
        """What to send before `payload`, uncopied, as the next DATA of the append or of the answer to GET.

        With `crc`, the payload's CRC as it is known already, the peer checks against the sum that it was stored with.
        """
        if self.role is Role.CLIENT:
            exchange = self._mode if self.state is State.APPENDING else None
        else:
            exchange = next(iter(self._exchanges), None)
            exchange = exchange if exchange is not None and isinstance(exchange.request, m.Get) else None
        if self._broken or exchange is None:
            raise MisuseError("DATA cannot be sent now")
        offset = exchange.next_offset
        if offset + len(payload) > exchange.end_offset:
            raise MisuseError(f"DATA beyond {exchange.end_offset}, where it was asked to end")
        header = data_header(offset, payload, crc=crc)
        self._check_size(len(header) + len(payload))
        exchange.advance(offset, len(payload))
        return header

    def _check_size(self, frame_bytes: int) -> None:
        if frame_bytes - LENGTH_BYTES > self.peer_frame_bytes_max:
            raise MisuseError(f"a frame of {frame_bytes} bytes: the peer takes {self.peer_frame_bytes_max}")

    def _server_event(self, type_code: int, body: memoryview) -> Message | None:
        if type_code == MessageType.DATA and self.state is State.APPENDING and self._mode is not None:
            data = decode_data(body)
            self._mode.advance(data.offset, len(data.payload))
            return data
        if type_code == MessageType.DATA and self.state is State.DISCARDING:
            return None
        if type_code == MessageType.HELLO and self.state is State.OPENING and self._admit is not None:
            self._admit(*hello_head(body))
        request = decode_request(type_code, body)
        discarded = self._request(request)
        return None if discarded else request

    def _client_event(self, type_code: int, body: memoryview) -> Message:
        answer = decode_answer(type_code, body)
        self._answer(answer)
        return answer

    def _request(self, request: Request) -> bool:
        """Make the move of a request, sent or received. True when it only leaves a mode whose answer is over."""
        move = _MOVES.get(type(request))
        if isinstance(request, m.Get) and request.follow:
            move = Move.FOLLOW
        after = None if move is None else TRANSITIONS.get((self.state, move))
        if after is None:
            raise ProtocolError(f"{type(request).__name__} is not allowed while {self.state.value}")
        mode = self._mode
        leaves = move in (Move.END, Move.STOP)
        if isinstance(request, m.Data):
            if mode is not None:
                mode.advance(request.offset, len(request.payload))
        elif isinstance(request, m.Ping):
            self._count_unanswered()
            self._pings += 1
        elif leaves:
            self._mode = None
        else:
            self._begin(request, mode_begins=move in (Move.APPEND, Move.FOLLOW))
        self.state = after
        if self._greeted:
            self._limit_frames()
        return leaves and mode is None

    def _limit_frames(self) -> None:
        """A server takes large frames only where DATA may come, so that nobody else makes it keep what has come."""
        large = self.role is Role.CLIENT or self.state in (State.APPENDING, State.DISCARDING)
        self._splitter.frame_bytes_max = self._frame_bytes_max if large else REQUEST_BYTES_MAX

    def _begin(self, request: Request, *, mode_begins: bool) -> None:
        self._count_unanswered()
        exchange = Exchange(request)
        self._exchanges.append(exchange)
        if mode_begins:
            self._mode = exchange

    def _count_unanswered(self) -> None:
        if self.unanswered >= PIPELINED_REQUESTS_MAX:
            raise ProtocolError(f"more than {PIPELINED_REQUESTS_MAX} requests without an answer")

    def _answer(self, answer: Answer) -> None:
        """Check an answer, sent or received, against the request that is being answered, and account for it."""
        if _closes(answer):
            self._broken = True
            self.state = State.CLOSED
            return
        if isinstance(answer, m.Pong):
            if self._pings == 0:
                raise ProtocolError("PONG without a PING")
            self._pings -= 1
            return
        if not self._exchanges:
            raise ProtocolError(f"{type(answer).__name__} answers nothing")
        exchange = self._exchanges[0]
        if not exchange.check(answer, left=exchange is not self._mode):
            return
        self._exchanges.popleft()
        if isinstance(answer, m.Welcome):
            self._welcome(answer)
        if exchange is self._mode:
            self._mode = None
            self.state = ANSWER_OVER.get(self.state, self.state)

    def _welcome(self, welcome: m.Welcome) -> None:
        if welcome.frame_bytes_max < FRAME_BYTES_MAX_LEAST:
            raise ProtocolError(
                f"WELCOME offers frames of {welcome.frame_bytes_max}; {FRAME_BYTES_MAX_LEAST} is the least"
            )
        self._greeted = True
        self._limit_frames()
        if self.role is Role.CLIENT:
            self.peer_frame_bytes_max = welcome.frame_bytes_max


def _closes(message: Message) -> bool:
    return isinstance(message, m.Error) and REFUSALS[message.code].closes
