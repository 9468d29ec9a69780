"""One open connection to a server: requests out, answers in. It neither retries nor knows of other connections.

After any error but a refusal that leaves it open, and after a cancellation, a link is good only for closing.
"""

from __future__ import annotations

import contextlib
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from sos_client.net.dialing import FOREIGN_ERRORS, translate, translated
from sos_client.net.plain_stream import RECEIVE_BYTES_MAX, PlainStream
from sos_client.wire import messages as m
from sos_client.wire.connection import Connection, Role, State
from sos_client.wire.errors import ConnectionLostError, ProtocolError
from sos_client.wire.strangers import HEAD_BYTES, SOS_SERVER, check_greeted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sos_client.net.dialing import Dial
    from sos_client.wire.messages import Answer, Message, Request

BULK_RECEIVE_BYTES: Final = 512 << 10
"""For reads of objects: more than two DATA frames, so that few of them straddle two receives."""
LAST_WORDS_SECONDS: Final = 1.0
"""How long to look for the reason (an ERROR under way) when a server has closed on us in the middle of a send."""
CLOSE_SECONDS: Final = 1.0
SIGN_BYTES: Final = 16 << 10
"""So much of an answer is a sign of life: over a slow line a DATA frame may take longer than anybody waits for one. Not
every byte is one, so that a peer cannot hold a client for days."""

AnswerT = TypeVar("AnswerT", bound="Answer")


class Link:
    """A connection; `open_link` makes it, and HELLO has been answered on it by then."""

    def __init__(self, stream: trio.abc.Stream, address: str) -> None:
        self.address = address
        self.connection = Connection(Role.CLIENT)
        self.server_identity = b""
        self.server_time = 0.0
        self.namespace: str | None = None
        self.idle_since = 0.0
        self.head = b""  # the first bytes that came
        self._stream = stream
        self._plain = stream if isinstance(stream, PlainStream) else None
        self._sending = False
        self._patience: trio.CancelScope | None = None
        self._patience_seconds = inf
        self._unseen_bytes = 0

    @property
    def reusable(self) -> bool:
        """Between two requests: nothing unanswered, nothing broken, no mode open, nothing on its way out."""
        connection = self.connection
        idle = connection.state is State.IDLE and not connection.broken and connection.unanswered == 0
        return idle and not self._sending

    @contextlib.contextmanager
    def in_time(self, seconds: float) -> Iterator[None]:
        """DeadlineError when the block is not over after this time, counted from the last sign of life."""
        with translated(self.address), trio.fail_after(seconds) as self._patience:
            self._patience_seconds, self._unseen_bytes = seconds, 0
            try:
                yield
            finally:
                self._patience = None

    async def ask(self, request: Request, expected: type[AnswerT]) -> AnswerT:
        """Send a request and wait for its one answer; RefusedError when that is a refusal."""
        await self.send(request)
        answer = await self.receive()
        if not isinstance(answer, expected):
            raise ProtocolError(f"{self.address} answered {type(answer).__name__} to {type(request).__name__}")
        return answer

    async def send(self, request: Request) -> None:
        """Send a request. When the server has closed, its reason is raised, if it gave one. Nobody else may receive."""
        try:
            await self.send_bytes(self.connection.send(request))
        except ConnectionLostError:
            await self._last_words()
            raise

    async def send_bytes(self, data: bytes | bytearray | memoryview) -> None:
        """Send what the state machine made. Another task may be receiving meanwhile."""
        self._sending = True  # and for good, when this is cancelled in the middle of a frame
        try:
            await self._stream.send_all(data)
        except FOREIGN_ERRORS as error:
            raise translate(self.address, error) from error
        self._sending = False

    async def receive(self, receive_bytes: int = RECEIVE_BYTES_MAX) -> Message:
        """The next message. RefusedError for an ERROR; ConnectionLostError when the server has gone."""
        while (message := self.next_received()) is None:
            self.connection.receive(await self._receive_bytes(receive_bytes))
        return message

    def next_received(self) -> Message | None:
        """A message that has come already, or None. RefusedError for an ERROR."""
        message = self.connection.next_event()
        if isinstance(message, m.Error):
            raise message.as_error()
        return message

    async def aclose(self) -> None:
        """Close, politely if nothing is open; tasks that wait on the link get ConnectionLostError. Never takes long."""
        try:
            if self.reusable:
                with (
                    trio.move_on_after(CLOSE_SECONDS),
                    contextlib.suppress(ConnectionLostError),
                    translated(self.address),
                ):
                    await self._stream.send_all(self.connection.send(m.Quit()))
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _receive_bytes(self, receive_bytes: int) -> bytes:
        try:
            if self._plain is not None and receive_bytes <= RECEIVE_BYTES_MAX:
                data = bytes(await self._plain.receive_view())  # the view is of a buffer that all streams share
            else:
                data = bytes(await self._stream.receive_some(receive_bytes))
        except FOREIGN_ERRORS as error:
            raise translate(self.address, error) from error
        if not data:
            raise ConnectionLostError(f"{self.address} has closed the connection")
        self._unseen_bytes += len(data)
        if self._patience is not None and self._unseen_bytes >= SIGN_BYTES:
            self._unseen_bytes = 0
            self._patience.deadline = trio.current_time() + self._patience_seconds
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        return data

    async def _last_words(self) -> None:
        with trio.move_on_after(LAST_WORDS_SECONDS):
            try:
                while True:
                    await self.receive()
            except (ConnectionLostError, ProtocolError):
                return


async def open_link(dial: Dial, address: str, hello: m.Hello, *, seconds: float) -> Link:
    """Connect and say HELLO, all within `seconds`. RefusedError (AUTH, VERSION, LIMIT …) when the server says no.

    WrongPortError when it can be seen that something else listens there.
    """
    with translated(address), trio.fail_after(seconds):
        stream = await dial(address)
        link = Link(stream, address)
        try:
            welcome = await link.ask(hello, m.Welcome)
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, ProtocolError):
                check_greeted(link.head, address, SOS_SERVER)
                raise ProtocolError(f"{address} does not answer as {SOS_SERVER} does: {error}") from error
            raise
    link.server_identity = welcome.server_identity
    link.server_time = welcome.server_time
    return link
