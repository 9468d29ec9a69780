"""The relay's connection to one sink: kept open, opened again when it is lost; commands go out, answers come in.

What may be said when is `wire.session`'s, what is to be said `coordinator`'s. Nothing here decides.
"""

from __future__ import annotations

import random
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from connectors.frames_in import next_frame
from connectors.relay.coordinator import AskUncommitted, EndTransaction, Prepare
from connectors.wire.frames import (
    AckFrame,
    ErrorFrame,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    RestartFrame,
)
from connectors.wire.limits import DATA_STREAM, NOTHING_SEEN, TWO_PHASE_STREAM
from connectors.wire.row_run import row_messages
from connectors.wire.session import ConnectorRole, ConnectorSession
from connectors.wire.two_phase import (
    ListUncommitted,
    PhaseOne,
    PhaseTwo,
    ReplyUncommitted,
    TwoPhaseMessage,
    Vote,
    disclose,
    enclose,
)
from journal.errors import JournalError
from sos_client.net.dialing import FOREIGN_ERRORS, translate, translated
from sos_client.retry import RetryPolicy
from sos_client.wire.errors import ConnectionLostError, MisuseError, ProtocolError, SosError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from connectors.relay.staged_rows import StagedRun
    from connectors.wire.frames import Frame
    from sos_client.net.dialing import Dial

SINK_VERSION: Final = "v0.0.1"
"""What Wallaroo's sinks want in HELLO; its source workers want another."""
STREAM_NAME: Final = "sos-connector"
CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
"""A sink that owes an answer to LIST_UNCOMMITTED or NOTIFY and says nothing for this long is not there any more."""
VOTE_SECONDS: Final = 600.0
"""Before it votes it makes all rows of a batch durable."""
STALL_SECONDS: Final = 300.0
"""A sink that takes nothing for this long is not there any more."""
ROWS_TOGETHER: Final = 8192
"""In one write: small rows are several times as large with what the protocol puts before each."""
_RETRY: Final = RetryPolicy(first_seconds=0.05, pause_seconds_max=2.0)


class SinkEvents(Protocol):
    """Who is told what a sink does."""

    async def check_still_ours(self) -> None:
        """Before a connection is opened again. SupersededError when it is another relay's by now."""

    def connected(self, sink: int) -> None:
        """A new connection has been greeted."""

    def lost(self, sink: int) -> None:
        """That connection is gone."""

    def introduced(self, sink: int, point_of_reference: int) -> None:
        """What the sink claims to have, on a connection's first use."""

    def refused(self, sink: int, reason: str) -> None:
        """It ends the connection with a reason."""

    def prepared(self, sink: int, transaction: str, after: int) -> None:
        """All rows were sent."""

    def voted(self, sink: int, transaction: str, *, commit: bool) -> None:
        """A vote."""

    def listed(self, sink: int, tag: int, transactions: Sequence[str]) -> None:
        """What is uncommitted."""

    def unreadable(self, error: JournalError) -> None:
        """The rows are not what they should be: nobody can be sent them."""


class SinkLink:
    """One sink of a query. `run` it in a nursery; `send` commands while it is connected."""

    def __init__(
        self,
        number: int,
        address: str,
        *,
        dial: Dial,
        hello: HelloFrame,
        events: SinkEvents,
        rows: Callable[[int], AsyncGenerator[StagedRun, None]],
    ) -> None:
        """`rows` gives those of the present batch for a sink."""
        self.address = address
        self.trouble = "it was not connected yet"
        self.connected_since: float | None = None
        self.connections = 0
        self.bytes_sent = 0
        self.acks_ignored = 0
        self._number = number
        self._dial = dial
        self._hello = hello
        self._events = events
        self._rows = rows
        self._commands: deque[AskUncommitted | EndTransaction | Prepare] = deque()
        self._something = trio.Event()
        self._scope = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._failures = 0
        self._session = ConnectorSession(ConnectorRole.RELAY)
        self._stream: trio.abc.Stream | None = None
        self._introduced = trio.Event()

    async def run(self) -> None:
        """Keep a connection until cancelled."""
        while True:
            try:
                with trio.CancelScope() as self._scope:
                    await self._one_connection()
            except SosError as error:
                self.trouble = str(error)
            self._failures += 1
            await trio.sleep(_RETRY.pause_seconds(self._failures, random.random()))
            await self._events.check_still_ours()

    def send(self, command: AskUncommitted | EndTransaction | Prepare) -> None:
        """Say this on the present connection, after what is being said."""
        self._commands.append(command)
        self._something.set()

    def drop(self, reason: str) -> None:
        """Hang up; a new connection is opened."""
        self.trouble = reason
        self._scope.cancel()

    async def _one_connection(self) -> None:
        self._session = ConnectorSession(ConnectorRole.RELAY)
        self._commands.clear()
        self._introduced = trio.Event()
        with translated(self.address), trio.fail_after(CONNECT_SECONDS):
            stream = await self._dial(self.address)
        try:
            self._stream = stream
            await self._greet()
            self.connections += 1
            self.connected_since = trio.current_time()
            self._events.connected(self._number)
            try:
                await self._converse()
            finally:
                self.connected_since = None
                self._events.lost(self._number)
        finally:
            self._stream = None
            await trio.aclose_forcefully(stream)

    async def _greet(self) -> None:
        with translated(self.address), trio.fail_after(CONNECT_SECONDS):
            await self._write(self._session.send(self._hello))
            await self._next_frame()  # OK: nothing else is legal, and ERROR is raised

    async def _converse(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._say)
                await self._hear()
        except BaseExceptionGroup as group:
            raise _first_sos_error(group) from None

    # ── what is said ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _say(self) -> None:
        while True:
            while self._commands:
                command = self._commands.popleft()
                match command:
                    case AskUncommitted(tag=tag):
                        await self._two_phase(ListUncommitted(tag=tag))
                        self._expect(ANSWER_SECONDS)
                    case EndTransaction(transaction=transaction, commit=commit):
                        await self._two_phase(PhaseTwo(transaction=transaction, commit=commit))
                    case Prepare():
                        await self._prepare(command)
            self._something = trio.Event()
            await self._something.wait()

    async def _two_phase(self, message: TwoPhaseMessage) -> None:
        await self._write(self._session.send(enclose(message)))

    async def _prepare(self, command: Prepare) -> None:
        if not self._introduced.is_set():
            notify = NotifyFrame(stream_id=DATA_STREAM, stream_name=STREAM_NAME, point_of_reference=command.first)
            await self._write(self._session.send(notify))
            self._expect(ANSWER_SECONDS)
            await self._introduced.wait()
        try:
            after = await self._send_rows(command.first)
        except JournalError as error:
            self._events.unreadable(error)
            raise
        self._events.prepared(self._number, command.transaction, after)
        await self._two_phase(PhaseOne(transaction=command.transaction, ranges=((DATA_STREAM, command.first, after),)))
        self._expect(VOTE_SECONDS)

    async def _send_rows(self, offset: int) -> int:
        """The offset after the last row. One `send` of the session stands for all rows of a run."""
        async with aclosing(self._rows(self._number)) as runs:
            async for run in runs:
                self._session.send(MessageFrame(DATA_STREAM, offset))  # whether rows may be sent now
                for start in range(0, len(run.values), ROWS_TOGETHER):
                    values, keys, _ = run.cut(start, start + ROWS_TOGETHER)
                    said = None if keys is None else [key or b"" for key in keys]
                    await self._write(b"".join(row_messages(DATA_STREAM, offset, values, said)))
                    offset += sum(map(len, values))
        return offset

    async def _write(self, data: bytes) -> None:
        assert self._stream is not None
        with trio.move_on_after(STALL_SECONDS) as scope:
            try:
                await self._stream.send_all(data)
            except FOREIGN_ERRORS as error:
                raise translate(self.address, error) from error
        if scope.cancelled_caught:
            raise ConnectionLostError(f"{self.address} has taken nothing for {STALL_SECONDS:g} s")
        self.bytes_sent += len(data)

    # ── what is heard ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _expect(self, seconds: float) -> None:
        self._reading.deadline = trio.current_time() + seconds

    async def _hear(self) -> None:
        while True:
            with trio.CancelScope() as self._reading:
                while True:
                    self._take(await self._next_frame())
            if self._reading.cancelled_caught:
                raise ConnectionLostError(f"{self.address} owes an answer, and says nothing")

    def _take(self, frame: Frame) -> None:
        match frame:
            case MessageFrame(stream_id=stream_id) if stream_id == TWO_PHASE_STREAM:
                self._reading.deadline = float("inf")
                self._take_two_phase(disclose(frame))
            case NotifyAckFrame(accepted=True, point_of_reference=point):
                self._reading.deadline = float("inf")
                self._events.introduced(self._number, 0 if point == NOTHING_SEEN else point)
                self._introduced.set()
            case NotifyAckFrame():
                raise ConnectionLostError(f"{self.address} does not take the rows' stream")
            case AckFrame():
                self.acks_ignored += 1
            case RestartFrame():
                raise ConnectionLostError(f"{self.address} wants to be connected again")
            case _:
                raise ProtocolError(f"{self.address}: {type(frame).__name__} is not for a relay")

    def _take_two_phase(self, message: TwoPhaseMessage) -> None:
        match message:
            case Vote(transaction=transaction, commit=commit):
                self._failures = 0
                self._events.voted(self._number, transaction, commit=commit)
            case ReplyUncommitted(tag=tag, transactions=transactions):
                self._events.listed(self._number, tag, transactions)
            case _:
                raise ProtocolError(f"{self.address}: {type(message).__name__} is not said by a sink")

    async def _next_frame(self) -> Frame:
        assert self._stream is not None
        try:
            frame = await next_frame(self._stream, self._session, self.address)
        except ProtocolError as error:
            await self._complain(str(error))
            raise ProtocolError(f"{self.address} breaks the protocol: {error}") from error
        if isinstance(frame, ErrorFrame):
            self._events.refused(self._number, frame.reason)
            raise ConnectionLostError(f"{self.address} refused: {frame.reason}")
        return frame

    async def _complain(self, reason: str) -> None:
        with trio.move_on_after(1.0):
            await self._write(self._session.send(ErrorFrame(reason=reason[:1000])))


def _first_sos_error(group: BaseExceptionGroup[Any]) -> BaseException:
    """What ended a connection: the first error of ours, or whatever else there is."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        one = stack.pop()
        if isinstance(one, BaseExceptionGroup):
            stack.extend(one.exceptions)
        else:
            leaves.append(one)
    cancelled = [one for one in leaves if isinstance(one, trio.Cancelled)]
    foreign = [one for one in leaves if not isinstance(one, SosError | trio.Cancelled) or isinstance(one, MisuseError)]
    return (cancelled or foreign or leaves)[0]
