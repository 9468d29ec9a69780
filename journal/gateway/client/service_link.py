"""One open connection to a journal service, from the client's side: a greeting, then one request at a time.

It neither retries nor knows of other services. After any error but a refusal it is only good for closing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import trio

from journal.errors import ConversationError, JournalCode, JournalError, journal_error
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.answer_checks import bytes_due, check_answer
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from sos_client.net.dialing import translated
from sos_client.net.plain_stream import PlainStream
from sos_client.wire.errors import ConnectionLostError, ProtocolError
from sos_client.wire.frames import FrameSplitter
from sos_client.wire.strangers import HEAD_BYTES, JOURNAL_SERVICE, check_greeted

if TYPE_CHECKING:
    from collections.abc import Callable

A = TypeVar("A", bound=m.Answer)

CLOSE_SECONDS: Final = 1.0
_ENDING: Final = frozenset(
    {
        JournalCode.VERSION,
        JournalCode.AUTH,
        JournalCode.PROTOCOL,
        JournalCode.LIMIT,
        JournalCode.TOO_SLOW,
        JournalCode.SHUTTING_DOWN,
    }
)
"""The service closes the connection after these."""
_RESERVED: Final = frozenset({"self", "code", "message"})
"""What an error calls its own parts; no refusal has such fields, but who knows who answers."""


class ServiceLink:
    """A connection to one service. `usable` between two requests, as far as this side knows.

    `has_sent`: whether anything was asked since it was taken from the pool.
    """

    def __init__(self, stream: trio.abc.Stream, address: str) -> None:
        self.address = address
        self.usable = False
        self.has_sent = False
        self.epoch = 0  # of the last answer that had one
        self._head = b""  # the first bytes that came
        self._stream = stream
        self._receive = stream.receive_view if isinstance(stream, PlainStream) else stream.receive_some
        self._splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)

    async def begin(self, hello: m.HelloRequest, opening: bytes) -> None:
        """Say who is there, and what else comes before an answer. WrongPortError if something else listens there."""
        await self.send_frames(encode(hello) + opening)
        try:
            welcome = await self.receive()
        except ProtocolError as error:
            check_greeted(self._head, self.address, JOURNAL_SERVICE)
            raise ProtocolError(f"{self.address} does not answer as {JOURNAL_SERVICE} does: {error}") from error
        checked(self.address, hello, welcome, m.WelcomeAnswer)

    async def greet(self, hello: m.HelloRequest, opening: m.OpenRequest) -> None:
        """As `begin`, and open the volume, in one round trip."""
        await self.begin(hello, encode(opening))
        checked(self.address, opening, await self.receive(), m.OpenedAnswer)
        self.usable = True

    async def ask(self, request: m.Request, kind: type[A]) -> A:
        """The answer of this kind to a request of one frame, or JournalError. ProtocolError if it cannot be that."""
        self.usable = False
        await self.send(request)
        answer = checked(self.address, request, await self.receive(), kind)
        self.usable = True
        return answer

    async def ask_read(self, request: m.ReadRequest) -> tuple[m.StatusAnswer, list[bytes]]:
        """The whole answer to a READ: keep what is asked for small."""
        self.usable = False
        await self.send(request)
        status = await self.receive()
        if not isinstance(status, m.StatusAnswer):
            raise _unexpected(self.address, request, status)
        end = request.offset + bytes_due(request, status.status)
        pieces: list[bytes] = []
        offset = request.offset
        while isinstance(answer := await self.receive(), m.FileData):
            if answer.offset != offset:
                raise ProtocolError(f"{self.address}: DATA at offset {answer.offset}, where {offset} follows")
            if offset + len(answer.payload) > end:
                raise ProtocolError(f"{self.address}: more bytes of {request.path} than were asked for")
            pieces.append(bytes(answer.payload))
            offset += len(pieces[-1])
        if not isinstance(answer, m.ReadEndAnswer) or not answer.next_offset == offset == end:
            raise _unexpected(self.address, request, answer)
        self.usable = True
        return status, pieces

    async def send(self, *messages: m.Request) -> None:
        """Frames of a request, without waiting for an answer: the link is not usable until that came."""
        self.has_sent = True
        for message in messages:
            await self.send_frames(encode(message))

    async def send_frames(self, frames: bytes) -> None:
        """Whole frames."""
        with translated(self.address), trio.fail_after(limits.CLIENT_SECONDS):
            await self._stream.send_all(frames)

    async def next_frame(
        self, *, silence_seconds: float = limits.SILENCE_SECONDS_MAX, heard: Callable[[], None] = lambda: None
    ) -> tuple[int, memoryview]:
        """The type and the body of what the service says next; DeadlineError if it says nothing for so long.

        `heard` is called whenever something comes: a large frame may be long on its way.
        """
        while (frame := self._splitter.next_frame()) is None:
            await self._receive_more(silence_seconds)
            heard()
        return frame

    async def receive(self) -> m.Answer:
        """The next answer, however often the service says that it still works on it. A refusal is raised."""
        while True:
            answer = decode_answer(*await self.next_frame())
            self.epoch = getattr(answer, "epoch", 0) or self.epoch
            if isinstance(answer, m.RefusalAnswer):
                self.usable = answer.code not in _ENDING
                raise refusal_error(answer)
            if not isinstance(answer, m.WaitingAnswer):
                return answer

    def check_early(self) -> None:
        """Raise the refusal of a file that is being streamed, if it has come already (over TLS it shows at the end)."""
        if not isinstance(self._stream, PlainStream):
            return
        with translated(self.address):
            view = self._stream.receive_now()
        if view is not None:
            self._take(bytes(view))
            while (frame := self._splitter.next_frame()) is not None:
                answer = decode_answer(*frame)
                if isinstance(answer, m.RefusalAnswer):
                    raise refusal_error(answer)

    def distrust(self) -> None:
        """The answer cannot be, or is not the owner's: nothing more is asked on this connection."""
        self.usable = False

    def is_stale(self) -> bool:
        """Whether the service has closed the connection, or said something unasked, since the last answer."""
        if not isinstance(self._stream, PlainStream):
            return False
        try:
            return self._stream.receive_now() is not None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return True

    async def aclose(self) -> None:
        """Close within a bounded time."""
        with trio.move_on_after(CLOSE_SECONDS) as scope:
            scope.shield = True
            await trio.aclose_forcefully(self._stream)

    async def _receive_more(self, silence_seconds: float) -> None:
        with translated(self.address), trio.fail_after(silence_seconds):
            data = bytes(await self._receive())
        self._take(data)

    def _take(self, data: bytes) -> None:
        if not data:
            raise ConnectionLostError(f"{self.address}: the service closed the connection")
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        self._splitter.feed(data)


def refusal_error(refusal: m.RefusalAnswer) -> JournalError:
    """A refusal from the wire as the error that it stands for."""
    try:
        code = JournalCode(refusal.code)
    except ValueError:
        message = f"the service refused with code {refusal.code}, which this client does not know: {refusal.message}"
        return ConversationError(JournalCode.UNSUPPORTED, message, number=refusal.code)
    fields = {name: value for name, value in refusal.fields if name not in _RESERVED}
    return journal_error(code, refusal.message, fields)


def checked(address: str, request: m.Request, answer: m.Answer, kind: type[A]) -> A:
    """The answer, if it is of this kind and can be the one to this request; else the connection is of no more use."""
    if not isinstance(answer, kind):
        raise _unexpected(address, request, answer)
    check_answer(request, answer)
    return answer


def _unexpected(address: str, request: m.Request, answer: m.Answer) -> ProtocolError:
    return ProtocolError(f"{address} answered {type(answer).__name__} to {type(request).__name__}")
