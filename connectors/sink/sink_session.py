"""One relay's connection to a sink: its greeting, rows, votes and ends, against the sink's log of transactions.

What may be said when is `wire.session`'s. Nothing that a relay says ends the program: a connection that goes wrong is
closed with a reason.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import trio

from connectors.sink.transactions import SinkUnavailableError
from connectors.wire.frames import (
    AckFrame,
    EosFrame,
    ErrorFrame,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
)
from connectors.wire.limits import DATA_STREAM, NOTHING_SEEN, TWO_PHASE_STREAM
from connectors.wire.row_run import RowRun
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
from sos_client.net.plain_stream import PlainStream
from sos_client.wire.errors import MisuseError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.sink.transactions import SinkTransactions
    from connectors.wire.frames import Frame

HELLO_SECONDS: Final = 10.0
FAREWELL_SECONDS: Final = 2.0
ROWS_TOGETHER_BYTES: Final = 1024 * 1024


class ClosedByRuleError(Exception):
    """A rule wants the connection to be closed here."""


class SinkSession:
    """A connection's life: `run` it once."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        transactions: SinkTransactions,
        *,
        version: str,
        cookie: bytes,
        on_greeted: Callable[[], None],
    ) -> None:
        """`on_greeted` is called when the peer has said a HELLO that is right."""
        self._stream = stream
        self._transactions = transactions
        self._version = version
        self._cookie = cookie
        self._on_greeted = on_greeted
        self._session = ConnectorSession(ConnectorRole.SINK)
        self._plain = stream if isinstance(stream, PlainStream) else None
        self._rows: list[RowRun] = []  # received, and not given away
        self._held_bytes = 0  # that were received since rows were given away

    async def run(self) -> str:
        """Talk until either side ends it; says why it ended."""
        try:
            with trio.fail_after(HELLO_SECONDS):
                hello = await self._greeting()
            if hello is None:
                return "closed before HELLO"
            self._on_greeted()
            async with self._transactions.of_connection(hello.instance):
                await self._say(OkFrame(initial_credits=1))
                while (frame := await self._next_frame()) is not None:
                    await self._take(frame)
                    self._take_rows()
        except trio.TooSlowError:
            return await self._give_up(f"no HELLO within {HELLO_SECONDS:g} s")
        except (ProtocolError, SinkUnavailableError) as error:
            return await self._give_up(str(error))
        except ClosedByRuleError as rule:
            return str(rule)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return "connection lost"
        return "closed by the relay"

    async def _greeting(self) -> HelloFrame | None:
        frame = await self._next_frame()
        if not isinstance(frame, HelloFrame):
            return None  # an ERROR
        if frame.version != self._version:
            raise ProtocolError(f"version {frame.version!r} is not spoken here; this sink wants {self._version!r}")
        if not hmac.compare_digest(frame.cookie, self._cookie):
            raise ProtocolError("the cookie is not the one of this sink (--cookie)")
        return frame

    async def _next_frame(self) -> Frame | None:
        """What comes next; rows that wait are given away before anything is waited for."""
        while (frame := self._session.next_frame()) is None:
            data = await self._receive()
            if not data:
                return None
            self._session.receive(data)
            self._held_bytes += len(data)
            self._take_rows()
        return frame

    async def _receive(self) -> bytes:
        """What has come; rows are given away when there are enough of them, or nothing has come."""
        if self._plain is not None:
            data = self._plain.receive_now() if self._held_bytes < ROWS_TOGETHER_BYTES else None
            if data is None:
                await self._flush()
                data = await self._plain.receive_view()
            return bytes(data)  # the view is of memory that all connections share
        await self._flush()
        return bytes(await self._stream.receive_some(ROWS_TOGETHER_BYTES))

    def _take_rows(self) -> None:
        """Those that lie whole in what was received, and follow those before."""
        follows = self._rows[-1].after if self._rows else self._transactions.offset
        run = self._session.next_rows(DATA_STREAM, follows)
        if run is not None:
            self._rows.append(run)

    async def _take(self, frame: Frame) -> None:
        match frame:
            case MessageFrame(stream_id=stream_id) if stream_id == TWO_PHASE_STREAM:
                message = disclose(frame)
                await self._flush()
                await self._take_two_phase(message)
            case MessageFrame(stream_id, message_id, _, key, payload) if stream_id == DATA_STREAM:
                keys = [bytes(key)] if key else None
                self._rows.append(RowRun(message_id, message_id + len(payload), [bytes(payload)], keys))
            case MessageFrame(stream_id=stream_id):
                raise ProtocolError(f"rows come in stream {DATA_STREAM}, not in stream {stream_id}")
            case NotifyFrame(stream_id=stream_id):
                await self._flush()
                known = stream_id == DATA_STREAM
                point = (self._transactions.offset or NOTHING_SEEN) if known else 0
                await self._say(NotifyAckFrame(accepted=known, stream_id=stream_id, point_of_reference=point))
            case EosFrame(stream_id=stream_id):
                await self._flush()
                await self._say(AckFrame(credits=0, points=((stream_id, self._transactions.offset),)))
            case _:
                pass  # an ERROR: the connection is over

    async def _flush(self) -> None:
        self._held_bytes = 0
        if self._rows:
            rows, self._rows = self._rows, []
            await self._transactions.receive(rows)

    async def _take_two_phase(self, message: TwoPhaseMessage) -> None:
        match message:
            case ListUncommitted(tag=tag):
                listed = tuple(self._transactions.history.prepared)
                await self._answer(ReplyUncommitted(tag=tag, transactions=listed))
            case PhaseOne(transaction=name, ranges=ranges):
                await self._vote(name, ranges)
            case PhaseTwo(transaction=name, commit=commit):
                await self._transactions.end(name, commit=commit)
            case _:
                pass  # workers that left: Wallaroo's

    async def _vote(self, name: str, ranges: tuple[tuple[int, int, int], ...]) -> None:
        rule = self._transactions.rules.for_transaction(name)
        vote = await self._transactions.prepare(name, ranges, vote=None if rule is None else rule.vote)
        if rule is not None and rule.close_before:
            raise ClosedByRuleError("a rule: closed before the vote")
        await self._answer(Vote(transaction=name, commit=vote))
        if rule is not None and rule.close_after:
            raise ClosedByRuleError("a rule: closed after the vote")

    async def _answer(self, message: TwoPhaseMessage) -> None:
        await self._say(enclose(message))

    async def _say(self, frame: Frame) -> None:
        await self._stream.send_all(self._session.send(frame))

    async def _give_up(self, reason: str) -> str:
        with trio.move_on_after(FAREWELL_SECONDS, shield=True):
            try:
                await self._stream.send_all(self._session.send(ErrorFrame(reason=reason[:1000])))
            except (MisuseError, trio.BrokenResourceError, trio.ClosedResourceError):
                return reason
        return reason
