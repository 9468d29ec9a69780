"""One source connector's connection: its greeting, what it sends into the log, what it hears once that is durable.

What is legal when is `wire.session`'s. One task reads, one writes: what is to be said is collected in between, so that
a peer that does not read costs no more than the list of its streams.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from connectors.ingest.intake import IntakeShare
from connectors.listener.given_up import GivenUp
from connectors.registry.claims import NOTHING
from connectors.wire.codec import encode
from connectors.wire.frames import (
    AckFrame,
    EosFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
    RestartFrame,
)
from connectors.wire.session import ConnectorRole, ConnectorSession, SessionState
from sos_client.net.plain_stream import PlainStream
from sos_client.wire.errors import MisuseError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from connectors.ingest.ingest_log import IngestLog
    from connectors.listener.active_streams import ActiveStreams
    from connectors.listener.settings import ProtocolSettings
    from connectors.listener.stream_room import StreamRoom
    from connectors.registry.stream_registry import StreamRegistry
    from connectors.wire.message_run import MessageRun

FAREWELL_SECONDS: Final = 2.0
ANSWERS_MAX: Final = 4096
"""Answers that wait to become durable, or to be read: a peer that makes more is not read on."""


class SourceSession:
    """A connection's life. `run` it once; `leave` and `drop` end it from outside."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        peer: str,
        log: IngestLog,
        active: ActiveStreams[SourceSession],
        registry: StreamRegistry | None,
        room: StreamRoom,
        settings: ProtocolSettings,
        on_greeted: Callable[[HelloFrame], str],
    ) -> None:
        """`on_greeted` is called with a HELLO of the right version and says whose token it shows, if there are any.

        A ProtocolError that it raises is the answer.
        """
        self.hello: HelloFrame | None = None
        self.messages = 0
        self.peer = peer
        self._stream = stream
        self._receive = stream.receive_view if isinstance(stream, PlainStream) else stream.receive_some
        self._log = log
        self._active = active
        self._registry = registry
        self._room_for_streams = room
        self._token = ""
        self._no_room = ""  # why it may not make another stream, as it heard
        self._asked_for = 0  # streams, of the registry
        self._gone = False
        self._settings = settings
        self._on_greeted = on_greeted
        self._session = ConnectorSession(
            ConnectorRole.LISTENER, frame_bytes_max=settings.frame_bytes_max, streams_max=settings.streams_max
        )
        self._due = IntakeShare()
        self._something_due = trio.Event()
        self._answers_waiting = 0
        self._answers_said = trio.Event()
        self._scope = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._sending = False  # for good, when it is cancelled in the middle of a frame
        self._waits = False  # for the log, and so does not read
        self._credits_back = 0  # for later: of refused notifications, and while nobody gets any
        self._says_something = False
        self._unpaid = 0
        self._over = False
        self._last_words: Frame | None = None

    @property
    def instance(self) -> tuple[str, str] | None:
        """Which program this is, if it says so."""
        return (self.hello.program, self.hello.instance) if self.hello is not None and self.hello.instance else None

    @property
    def credits(self) -> int:
        """How many messages it may send at this moment."""
        return self._session.credits

    @property
    def held_bytes(self) -> int:
        """What is kept of a frame whose end has not come."""
        return self._session.midway_bytes

    @property
    def owing(self) -> bool:
        """Whether the peer has begun a frame, or its greeting, and not ended it, or does not read what it is told."""
        return not self._waits and (self.hello is None or self._sending or self._session.midway_bytes > 0)

    def report(self) -> dict[str, Any]:
        """How the connection stands, as JSON has it."""
        hello = self.hello
        return {
            "peer": self.peer,
            "program": hello.program if hello else "",
            "instance": hello.instance if hello else "",
            "messages": self.messages,
            "streams": self._active.count_of(self),
            "credits": self._session.credits,
            "waits_for": self._waits_for(),
        }

    def _waits_for(self) -> str:
        """Who is to do something next, if the peer cannot go on."""
        if self.hello is None:
            return "its HELLO"
        if self._waits:
            return "room: it is not read until what it has sent is written"
        if self._sending:
            return "the peer, which does not read what it is told"
        if self._asked_for and self._registry is not None:
            return self._registry.waits_for or "the stream registry"
        if self._log.waits_for:
            return f"the SOS servers: {self._log.waits_for}"
        return self._log.held_back or self._no_room

    async def run(self) -> str:
        """Talk until either side ends it; says why it ended."""
        reason = "dropped"
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._tell)
                    with self._reading:
                        reason = await self._listen()
                    if self._reading.cancelled_caught:
                        reason = "sent away"
                        await self._log.settled()
                        await self._told()
                    nursery.cancel_scope.cancel()
        finally:
            self._gone = True
            self._give_up_streams(self._active.release_all(self))
        await self._say_goodbye()
        return reason

    def leave(self, address: str) -> None:
        """Take nothing more; end when what has come is durable and the peer knows it. It connects again, perhaps there.

        Without an address nothing is said: a connection that is closed makes any client connect again, RESTART not.
        """
        if self._session.state is SessionState.STREAMING and address:
            self._last_words = RestartFrame(address=address)
        self._over = True
        self._reading.cancel()

    def sweep(self) -> None:
        """Now and then: who was refused a stream may ask once more; who gets no credits hears that we are there."""
        if self.hello is None:
            return
        if self._log.stopped_by or self._asked_for:
            self._says_something = True
            self._something_due.set()
        elif self._credits_back:
            more, self._credits_back = self._credits_back, 0
            self.durable(IntakeShare(credits=more))

    def drop(self, reason: str) -> None:
        """End the connection, with a reason if the peer should know one. Nothing more is taken of what it sends."""
        if reason:
            self._last_words = ErrorFrame(reason=reason)
        self._over = True
        self._scope.cancel()

    def durable(self, share: IntakeShare) -> None:
        """What is due to the peer, to be said by the task that writes."""
        due = self._due
        for answer in share.answers:
            if isinstance(answer, NotifyAckFrame):  # somebody else may have gone on with the stream since
                due.points.pop(answer.stream_id, None)
        if self._log.stopped_by:
            self._credits_back += share.credits  # later
        else:
            due.credits += share.credits
        due.points.update(share.points)
        due.answers.extend(share.answers)
        self._something_due.set()

    # ── what comes ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> str:
        try:
            with trio.fail_after(self._settings.hello_seconds):
                if not await self._greet():
                    return "closed before HELLO"
            while not self._over and self._take_what_is_there():
                await self._room()
                data = await self._receive()
                if not data:
                    return "closed by the peer"
                self._session.receive(data)
        except trio.TooSlowError:
            return self._give_up(f"no HELLO within {self._settings.hello_seconds:g} s")
        except ProtocolError as error:
            return self._give_up(str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return "connection lost"
        return "ended by the peer"

    async def _room(self) -> None:
        self._waits = True
        await self._log.room()
        while self._answers_waiting > ANSWERS_MAX:
            await self._answers_said.wait()
        self._waits = False

    def _give_up(self, reason: str) -> str:
        self._last_words = ErrorFrame(reason=reason[:1000])
        return reason

    async def _greet(self) -> bool:
        while (frame := self._session.next_frame()) is None:
            data = bytes(await self._receive())  # what follows HELLO is looked at after the next wait
            if not data:
                return False
            self._session.receive(data)
        if not isinstance(frame, HelloFrame):
            return False  # an ERROR
        if frame.version != self._settings.version:
            raise ProtocolError(
                f"version {frame.version!r} is not spoken here; this listener wants {self._settings.version!r}"
            )
        self._token = self._on_greeted(frame)
        self.hello = frame
        stopped = bool(self._log.stopped_by)
        self._credits_back = self._settings.credits if stopped else 0
        await self._send(self._session.send(OkFrame(initial_credits=0 if stopped else self._settings.credits)))
        return True

    def _take_what_is_there(self) -> bool:
        """Everything that has been received goes into the log's intake. False when the connection is over."""
        try:
            while True:
                run = self._session.next_messages()
                if run is not None:
                    self._take_run(run)
                    continue
                frame = self._session.next_frame()
                if frame is None:
                    return self._session.state is SessionState.STREAMING
                self._take(frame)
        finally:
            self._log.wake()

    def _take_run(self, run: MessageRun) -> None:
        share = self._log.intake.share_of(self)
        share.credits += run.frames
        self.messages += run.taken
        if run.pieces:
            self._log.intake.add(b"".join(run.pieces), rows=run.taken)
            share.points.update(run.points)
            self._log.accepted.points.update(run.points)

    def _take(self, frame: Frame) -> None:
        match frame:
            case MessageFrame():
                self._take_message(frame)
            case NotifyFrame():
                self._open_stream(frame)
            case EosFrame(stream_id=stream_id):
                point = self._log.accepted.point_of_reference(stream_id)
                self._answer(AckFrame(credits=0, points=((stream_id, point),)))
                self._active.release(stream_id, self)
                self._give_up_streams([stream_id])
            case _:
                pass  # ERROR: the connection is over

    def _take_message(self, frame: MessageFrame) -> None:
        """One that lay in two receives, or has no payload."""
        share, streams = self._log.intake.share_of(self), self._log.accepted
        share.credits += 1
        if frame.message_id <= streams.points[frame.stream_id]:
            return
        self._log.intake.add(encode(frame), rows=1 if frame.payload else 0)
        self.messages += 1
        for points in (share.points, streams.points, self._session.streams.open_points):
            points[frame.stream_id] = frame.message_id

    def _open_stream(self, frame: NotifyFrame) -> None:
        """Answered when everything that came of the stream before is durable, from whatever connection."""
        paid = 1 - (self._session.unpaid_notifications - self._unpaid)
        self._unpaid = self._session.unpaid_notifications
        is_new = frame.stream_id not in self._log.accepted.names
        if (is_new and self._has_no_room()) or not self._take_stream(frame.stream_id):
            self._refuse_stream(frame.stream_id, paid)
        elif self._registry is None:
            self._accept_stream(frame, paid, NOTHING)
        else:
            self._asked_for += 1
            self._registry.hold(
                frame.stream_id,
                partial(self._registry_answers, frame, paid),
                name_characters=len(frame.stream_name),
            )

    def _has_no_room(self) -> bool:
        reason = self._room_for_streams.refusal(self._token)
        self._no_room = f"nobody: it gets no new streams, as {reason}" if reason else ""
        return bool(reason)

    def _registry_answers(self, frame: NotifyFrame, paid: int, point: int | None) -> None:
        """`point`: how far the stream was at another listener; None: another one has it."""
        self._asked_for -= 1
        if self._gone:
            if point is not None:  # nobody heard of it
                self._give_up_streams([frame.stream_id])
            return
        if point is None:
            self._active.release(frame.stream_id, self)
            self._refuse_stream(frame.stream_id, paid)
        else:
            self._accept_stream(frame, paid, point)
        self._log.wake()

    def _refuse_stream(self, stream_id: int, paid: int) -> None:
        self._credits_back += paid  # later: clients ask again as soon as they are acknowledged
        self._answer(NotifyAckFrame(accepted=False, stream_id=stream_id, point_of_reference=0))

    def _accept_stream(self, frame: NotifyFrame, paid: int, point_elsewhere: int) -> None:
        share, streams = self._log.intake.share_of(self), self._log.accepted
        share.credits += paid
        if frame.stream_id not in streams.names:
            streams.introduce(frame.stream_id, frame.stream_name)
            share.introduced[frame.stream_id] = frame.stream_name
            self._room_for_streams.made(self._token, frame.stream_name)
        # Also of a known stream: a listener that has lost its volume and does not know it answers nobody.
        self._log.intake.add(encode(frame), rows=0)
        if point_elsewhere > streams.points[frame.stream_id]:  # as if a message without payload had come
            self._log.intake.add(encode(MessageFrame(frame.stream_id, point_elsewhere)), rows=0)
            share.points[frame.stream_id] = streams.points[frame.stream_id] = point_elsewhere
        point = streams.point_of_reference(frame.stream_id)
        self._answer(NotifyAckFrame(accepted=True, stream_id=frame.stream_id, point_of_reference=point))

    def _take_stream(self, stream_id: int) -> bool:
        """A stream that another connection of the same program has is taken from it: that one is lost, unnoticed."""
        owner = self._active.take(stream_id, self)
        if owner is self:
            return True
        if self.instance is None or owner.instance != self.instance:
            return False
        owner.drop(f"the same program and instance has opened stream {stream_id} on another connection")
        self._give_up_streams(self._active.release_all(owner))
        return self._active.take(stream_id, self) is self

    def _give_up_streams(self, streams: Iterable[int]) -> None:
        """Others may have them, other listeners, too, once all that came of them is durable."""
        if self._registry is not None:
            given_up = GivenUp(list(streams), log=self._log, active=self._active, registry=self._registry)
            self._log.intake.share_of(given_up)
            self._log.wake()

    def _answer(self, frame: Frame) -> None:
        """Say this when all that was taken before is durable."""
        self._log.intake.share_of(self).answers.append(frame)
        self._answers_waiting += 1

    # ── what is said ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _tell(self) -> None:
        while True:
            await self._something_due.wait()
            self._something_due = trio.Event()
            if self._session.state is not SessionState.STREAMING:
                return
            due, self._due = self._due, IntakeShare()
            try:
                await self._send(self._said(due))
                self._answers_waiting -= len(due.answers)
                self._answers_said.set()
                self._answers_said = trio.Event()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._scope.cancel()
                return

    async def _told(self) -> None:
        """Return when the peer has been told all that is due to it."""
        while self._sending or self._something_due.is_set() or self._answers_waiting:
            await self._answers_said.wait()

    async def _send(self, data: bytes) -> None:
        self._sending = True
        await self._stream.send_all(data)
        self._sending = False

    def _said(self, due: IntakeShare) -> bytes:
        """Answers first: an acknowledgement may be of a stream that one of them opens."""
        frames = list(due.answers)
        if due.credits or due.points or self._says_something:
            self._says_something = False
            frames.append(AckFrame(credits=due.credits, points=tuple(due.points.items())))
        return b"".join(self._session.send(frame) for frame in frames)

    async def _say_goodbye(self) -> None:
        if self._last_words is None or self._sending:  # what follows half a frame would be read as its other half
            return
        with trio.move_on_after(FAREWELL_SECONDS) as scope:
            scope.shield = True
            try:
                await self._stream.send_all(self._session.send(self._last_words))
            except (MisuseError, trio.BrokenResourceError, trio.ClosedResourceError):
                return
