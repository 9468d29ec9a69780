"""One connection to the journal service: its frames, its greeting, the phase it is in, an end that the peer is told.

What requests mean is conversation.py's; watch.py decides who is too slow or idle. Memory: one frame, and what the
volume takes for one request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from journal.errors import ConversationError, JournalCode, JournalError, journal_error
from journal.gateway.conversation import Conversation
from journal.gateway.held_memory import HELD_BYTES_MAX, HELD_BYTES_MIN
from journal.gateway.phase import WAITED_FOR, ConnectionPhase
from journal.gateway.put_lane import PutLane
from journal.gateway.shared_talk import SharedTalk
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_request, hello_head
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.messages import FileMessageType
from journal.gateway.wire.tagging import OF_THE_CONNECTION, tagged
from sos_client.net.plain_stream import PlainStream
from sos_client.serving.access import EVERYTHING, TokenRefusedError
from sos_client.wire.errors import ProtocolError
from sos_client.wire.frames import FrameSplitter

if TYPE_CHECKING:
    from collections.abc import Callable

    from journal.gateway.conversation import GatewaySurroundings
    from journal.gateway.wire.decoding import HelloHead
    from sos_client.net.poller import Poller

FAREWELL_SECONDS: Final = 2.0
"""How long the end may take: the last ERROR, forgetting a streamed write."""


class GatewaySession:
    """A connection's life. `run` it once; `leave` and `give_up` end it from outside."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        surroundings: GatewaySurroundings,
        peer: str,
        poller: Poller | None = None,
        on_greeted: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_greeted` is called when the peer has shown that it may come in."""
        self.phase = ConnectionPhase.GREETING
        self.turns = 0  # grows with every frame and send: the watch sees from it that something happens
        self.said = 0  # grows with every send: all that the peer sees of it
        self.conversation = Conversation(surroundings, grant=EVERYTHING, peer=peer, send=self._send)
        self._with = surroundings
        self._peer = peer
        self._stream = stream
        self._receive = stream.receive_view if isinstance(stream, PlainStream) else stream.receive_some
        self._splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX_BEFORE_HELLO)
        self.greeted = False
        self._on_greeted = on_greeted
        self.leaving = False
        self._ending: JournalError | None = None
        self._scope = trio.CancelScope()
        self._notice: trio.Event | None = None
        self.holds_memory = False
        self._working_bytes = 0  # of the frame that is worked on
        self._sending_bytes = 0  # of an answer that the peer takes
        self._given_up = False
        self._lane: PutLane | None = None
        self._shared: SharedTalk | None = None  # once greeted in version 2
        if poller is not None and isinstance(stream, PlainStream):
            self._lane = PutLane(self, stream, self._splitter, poller, surroundings)

    @property
    def saying(self) -> bool:
        """Whether the peer is just being told that its request is still worked on."""
        return self._notice is not None

    @property
    def is_over(self) -> bool:
        """Whether it was told to end while nothing was worked on: what comes from then on must not be begun."""
        return self._scope.cancel_called

    async def run(self) -> None:
        """Converse until either side ends it. Nothing that a peer does raises here; cancelled: ends at once."""
        try:
            with self._scope:
                await self._converse()
        except ProtocolError as error:
            self._ending = journal_error(JournalCode.PROTOCOL, str(error))
            self._with.log.warning("protocol broken", peer=self._peer, reason=str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the peer has gone: nobody to tell
        finally:
            with trio.move_on_after(FAREWELL_SECONDS, shield=True):
                await self.conversation.abandon()
            self._splitter.forget()
            self._given_up = True
            self._with.memory.hold(self, self.conversation.grant.sha256, 0)
        if self._ending is not None and self.phase is not ConnectionPhase.SENDING:
            with trio.move_on_after(FAREWELL_SECONDS):
                await self._say_goodbye(self._ending)

    def leave(self) -> None:
        """End when the present request, if any, is answered."""
        self.leaving = True
        self._ending = journal_error(JournalCode.SHUTTING_DOWN, "the service is shutting down; ask again in a moment")
        if self._shared is not None:
            self._shared.leave()
        elif self.phase not in (ConnectionPhase.WORKING, ConnectionPhase.SENDING):
            self._scope.cancel()

    def give_up(self, reason: JournalError | None) -> None:
        """End at once, and tell the peer why (None: it need not know).

        A request that is worked on may be done all the same: what ends the session must not be taken for its answer.
        """
        if reason is not None and self.phase is ConnectionPhase.WORKING:
            message = f"{reason.message}; whether the change was made is unknown: ask again with the same operation id"
            reason = journal_error(JournalCode.OUTCOME_UNKNOWN, message)
        self._ending = reason
        self._scope.cancel()

    def give_up_memory(self) -> None:
        """As `give_up`, since all connections together hold too much."""
        self._given_up = True
        message = (
            "all connections together hold too much of what did not come, or was not taken, whole: try again, without "
            "a pause in it"
        )
        self.give_up(ConversationError(JournalCode.LIMIT, message, name="held bytes", maximum=HELD_BYTES_MAX))

    def count_memory(self) -> None:
        """Say how much is held now. May end this session, or another one."""
        if self._given_up or not self.greeted:
            return
        size = self._splitter.kept_bytes + self._working_bytes + self._sending_bytes + self.conversation.held_bytes
        if self._shared is not None:
            size += self._shared.held_bytes
        if size >= HELD_BYTES_MIN or self.holds_memory:
            self.holds_memory = size >= HELD_BYTES_MIN
            self._with.memory.hold(self, self.conversation.grant.sha256, size)

    async def say_waiting(self, waited_seconds: float) -> None:
        """Tell the peer that its request is still worked on, or still comes in, if it does."""
        if self.phase not in (*WAITED_FOR, ConnectionPhase.WRITING) or self._notice is not None:
            return
        if self._shared is not None:
            self._shared.say_waiting(waited_seconds)
            return
        self._notice = trio.Event()
        waiting = m.WaitingAnswer(epoch=self.conversation.epoch, waited_ms=int(waited_seconds * 1000))
        try:
            await self._stream.send_all(encode(waiting))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.give_up(None)
        finally:
            self._notice.set()
            self._notice = None

    async def _converse(self) -> None:
        while not self.leaving and self._shared is None and await self._take_turn():
            pass
        if self._shared is not None and not self.leaving:
            await self._shared.run()

    async def _take_turn(self) -> bool:
        """Wait for something and answer it; False at the end. (A frame is not kept from one turn to the next.)"""
        if self._lane is not None and self.greeted and not self.conversation.writing:
            frame = await self._next_of_lane(self._lane)
            if frame is None:
                return not self._lane.ended
        else:
            frame = self._splitter.next_frame()
            if frame is None:
                return await self._receive_more()
        type_code, body = frame
        self.turns += 1
        return await self._serve(type_code, body)

    async def _receive_more(self) -> bool:
        """Feed what the peer sends next; False when it has closed its side."""
        self.phase = ConnectionPhase.RECEIVING if self.greeted and self._splitter.midway else self.phase_at_rest
        data = bytes(await self._receive())  # the stream's buffer is used again by other connections
        self._with.metrics.bytes_in += len(data)
        self._splitter.feed(data)
        self.count_memory()
        return bool(data)

    async def _next_of_lane(self, lane: PutLane) -> tuple[int, memoryview] | None:
        frame = await lane.wait()
        if lane.unsent:
            unsent, lane.unsent = lane.unsent, b""
            await self._send(unsent)
        return frame

    @property
    def phase_at_rest(self) -> ConnectionPhase:
        """What the session is doing between two frames."""
        if not self.greeted:
            return ConnectionPhase.GREETING
        return ConnectionPhase.WRITING if self.conversation.writing else ConnectionPhase.IDLE

    async def _serve(self, type_code: int, body: memoryview) -> bool:
        """Answer one frame; False when it was the last one."""
        await trio.lowlevel.checkpoint_if_cancelled()  # the frame may have come just before this session was ended
        if not self.greeted:
            return await self._greet(type_code, body)
        self._working_bytes = len(body)
        self.count_memory()
        request = decode_request(type_code, body)
        self.phase = ConnectionPhase.WORKING
        started = trio.current_time()
        going_on = await self.conversation.answer(type_code, request)
        self._working_bytes = 0
        self.count_memory()
        if request is not None:
            self._with.metrics.seconds[type_code].observe(trio.current_time() - started)
        return going_on

    async def _greet(self, type_code: int, body: memoryview) -> bool:
        """Nothing of a stranger's frame is decoded but what lies at fixed places, up to the token."""
        if type_code != FileMessageType.HELLO:
            raise ProtocolError("the first frame must be HELLO")
        self._ending = self._admit(hello_head(body))
        if self._ending is not None:
            return False
        hello = decode_request(type_code, body)
        assert isinstance(hello, m.HelloRequest)
        self.greeted = True
        self._on_greeted()
        self._splitter.frame_bytes_max = limits.FRAME_BYTES_MAX
        welcome = m.WelcomeAnswer(
            version=hello.version,
            service=self._with.identity,
            frame_bytes_max=limits.FRAME_BYTES_MAX,
            piece_bytes_max=limits.PIECE_BYTES_MAX,
            time_ms=self._with.time_ms(),
        )
        await self._send(encode(welcome))
        if hello.version == limits.SHARED_VERSION:
            self._shared = SharedTalk(self, self._stream, self._splitter, self._with)
        return True

    def _admit(self, hello: HelloHead) -> JournalError | None:
        """Take the client's token, or say why it may not come in."""
        minimum, maximum = limits.VERSION, limits.SHARED_VERSION
        if not minimum <= hello.version <= maximum:
            return journal_error(
                JournalCode.VERSION,
                f"this service speaks versions {minimum} and {maximum} of the file protocol, not {hello.version}",
                {"minimum": minimum, "maximum": maximum},
            )
        try:
            self.conversation.grant = self._with.access.authenticate(hello.token, now=self._with.wall_clock())
        except TokenRefusedError as error:
            self._with.log.refused("token refused", peer=self._peer, reason=str(error))
            return journal_error(JournalCode.AUTH, str(error))
        return None

    async def _send(self, data: bytes) -> None:
        self.phase = ConnectionPhase.SENDING
        self.turns += 1
        self.said += 1
        self._with.metrics.bytes_out += len(data)
        if self._notice is not None:
            await self._notice.wait()
        if len(data) >= HELD_BYTES_MIN:
            self._sending_bytes = len(data)
            self.count_memory()
        await self._stream.send_all(data)
        if self._sending_bytes:
            self._sending_bytes = 0
            self.count_memory()
        self.phase = ConnectionPhase.WORKING

    async def _say_goodbye(self, reason: JournalError) -> None:
        try:
            refusal = self.conversation.refusal(reason)
            await self._send(refusal if self._shared is None else tagged(OF_THE_CONNECTION, refusal))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
