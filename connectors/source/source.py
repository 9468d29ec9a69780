"""`open_source`: a program's streams to a listener. Connects again by itself, and sends again what may have been lost.

A message counts when it is acknowledged: then it is durable. Memory is bounded: `send` waits while more than
`window_bytes` are not acknowledged. Nothing waits longer than `patience_seconds` for a listener that says nothing.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from connectors.source.outbox import Outbox
from connectors.source.source_link import ListenerRefusedError, SourceLink, open_source_link
from connectors.wire.codec import MESSAGE_COUNTED_BYTES, message_frames, message_head
from connectors.wire.frames import AckFrame, EosFrame, HelloFrame, NotifyAckFrame, NotifyFrame, RestartFrame
from connectors.wire.limits import MESSAGE_FRAME_BYTES_MAX, NOTHING_SEEN
from connectors.wire.streams import StreamState
from sos_client.clear_text import check_token_stays, leaves_this_host
from sos_client.net.addresses import split_address
from sos_client.net.dialing import tcp_dial
from sos_client.nurseries import background
from sos_client.retry import RetryPolicy
from sos_client.wire.errors import ConnectionLostError, DeadlineError, MisuseError, SosError
from sos_client.wire.strangers import WrongPortError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from connectors.wire.frames import Frame
    from connectors.wire.session import ConnectorSession
    from sos_client.net.dialing import Dial

VERSION: Final = "0.0.1"
WINDOW_BYTES: Final = 16 << 20
PATIENCE_SECONDS: Final = 300.0
CONNECT_SECONDS: Final = 10.0
BUSY_SECONDS: Final = 0.5
"""Before a stream that another connection has is asked for again."""
MESSAGES_PER_SEND_MAX: Final = 512
SETTLED_SECONDS: Final = 5.0
"""A listener that sends us elsewhere sooner is followed at once a first time, and after a pause from then on: two of
them may send us to each other."""
SILENT_SECONDS: Final = 60.0
"""A listener that owes an acknowledgement and says nothing for this long may be gone, whatever TCP believes."""
REFUSALS_MAX: Final = 5
"""This many connections in a row that the listener ends with a reason, without an acknowledgement of anything."""
_RETRY: Final = RetryPolicy(first_seconds=0.1, pause_seconds_max=5.0)


class OpenStream:
    """One stream of a source; `Source.open_stream` makes it."""

    def __init__(self, source: Source, stream_id: int, name: str) -> None:
        self.stream_id = stream_id
        self.name = name
        self.outbox = Outbox()
        self.known = False
        """Whether the listener has said how far it is."""
        self.ends = False
        self.ended = False
        self.end_said = False  # on the present connection
        self._source = source

    @property
    def waits_for_answer(self) -> bool:
        """Whether the listener owes something."""
        return not self.known or not self.outbox.empty or (self.ends and not self.ended)

    @property
    def point_of_reference(self) -> int | None:
        """The id of the last message that is durable at the listener; None: there is none. Go on after it."""
        return None if self.outbox.point < 0 else self.outbox.point

    async def send(self, message_id: int, payload: bytes, *, key: bytes = b"", event_time: int = 0) -> None:
        """Take a message to be sent; returns when there is room for the next one. Ids grow.

        A message up to the point of reference is there already, and is passed over. One without payload moves the point
        of reference, and is not a row for who reads. Raises what ended the source; DeadlineError when the listener has
        said nothing for too long: the message was taken all the same.
        """
        if self.ends:
            raise MisuseError(f"stream {self.stream_id} is closed")
        if MESSAGE_COUNTED_BYTES + len(key) + len(payload) > MESSAGE_FRAME_BYTES_MAX:
            raise MisuseError(f"a message of {len(key) + len(payload)} bytes: a listener takes less than 1 MiB")
        head = message_head(self.stream_id, message_id, event_time, len(key), len(payload))
        if self.outbox.add(message_id, b"".join((head, key, payload))):
            await self._source.room(self, len(head) + len(key) + len(payload))

    async def send_many(self, ids: Sequence[int], payloads: Sequence[bytes]) -> None:
        """`send` for each of these, without keys and event times, in less time. All are taken, or none is.

        They count towards `window_bytes` together, so give some hundred KiB at once.
        """
        if self.ends:
            raise MisuseError(f"stream {self.stream_id} is closed")
        largest = max(map(len, payloads), default=0)
        if MESSAGE_COUNTED_BYTES + largest > MESSAGE_FRAME_BYTES_MAX:
            raise MisuseError(f"a message of {largest} bytes: a listener takes less than 1 MiB")
        frames = message_frames(self.stream_id, ids, payloads)
        if frames and (held_bytes := self.outbox.add_many(ids, frames)):
            await self._source.room(self, held_bytes)

    async def flush(self) -> None:
        """Return when everything that was sent is durable."""
        await self._source.until(lambda: self.outbox.empty, f"stream {self.name} to be acknowledged")

    async def aclose(self) -> None:
        """End the stream: returns when all of it is durable, and the listener knows that it has ended."""
        self.ends = True
        self._source.ending(self)
        await self._source.until(lambda: self.ended, f"the end of stream {self.name} to be acknowledged")
        self._source.forget(self)


class DueStreams:
    """Streams that something may be sent of, each once, in order: so each has its turn, however few credits there are.

    Those that may have come to their end are apart: an end costs no credit.
    """

    def __init__(self) -> None:
        self._waiting: dict[OpenStream, None] = {}
        self._ending: dict[OpenStream, None] = {}

    def add(self, stream: OpenStream) -> None:
        self._waiting.setdefault(stream)

    def add_ending(self, stream: OpenStream) -> None:
        self._ending.setdefault(stream)

    def take(self) -> OpenStream | None:
        """The next one; None: there is none."""
        stream = next(iter(self._waiting), None)
        if stream is not None:
            del self._waiting[stream]
        return stream

    def take_ending(self) -> list[OpenStream]:
        ending, self._ending = list(self._ending), {}
        return ending


class Source:
    """Streams over one connection to a listener, or the next one; `open_source` makes it."""

    def __init__(
        self,
        addresses: Sequence[str],
        hello: HelloFrame,
        dial: Dial,
        *,
        window_bytes: int,
        patience_seconds: float,
        stays_here: bool = False,
    ) -> None:
        """`stays_here`: HELLO has a token that may not leave this host."""
        self.connections = 0
        self._addresses = list(addresses)
        self._hello = hello
        self._dial = dial
        self._stays_here = stays_here
        self._window_bytes = window_bytes
        self._patience_seconds = patience_seconds
        self._streams: dict[int, OpenStream] = {}
        self._held_bytes = 0
        self._candidates = self._addresses  # and before them where a listener has sent us
        self._elsewhere = ""  # where this one sends us
        self._failure: SosError | None = None
        self._refusals = 0
        self._due = DueStreams()
        self._refused: deque[tuple[OpenStream, float]] = deque()  # and when
        self._trouble = "it does not answer"
        self._connected = False
        self._heard = trio.current_time()
        self._work = trio.Event()
        self._changed = trio.Event()

    @property
    def trouble(self) -> str:
        """Why there is no connection now; empty: there is one. It is tried again all the time."""
        return "" if self._connected else self._trouble

    async def open_stream(self, stream_id: int, name: str) -> OpenStream:
        """Open a stream, and learn its point of reference. Waits while another connection has it."""
        if stream_id in self._streams:
            raise MisuseError(f"stream {stream_id} is open already")
        stream = self._streams[stream_id] = OpenStream(self, stream_id, name)
        self._due.add(stream)
        try:
            await self.until(lambda: stream.known, f"stream {name}, which another connection may have")
        finally:
            if not stream.known:
                self.forget(stream)
                self._due.add_ending(stream)
        return stream

    def forget(self, stream: OpenStream) -> None:
        """It has ended, or was never opened: it may be opened again."""
        if self._streams.get(stream.stream_id) is stream:
            del self._streams[stream.stream_id]

    def ending(self, stream: OpenStream) -> None:
        """Nothing more comes of it."""
        self._due.add_ending(stream)

    async def run(self) -> None:
        """Keep a connection until cancelled. Ends with what cannot be mended by another one, for all who wait."""
        failures = tried = moves = 0
        while True:
            address = self._candidates[tried % len(self._candidates)]
            heard, connections, began = self._heard, self.connections, trio.current_time()
            try:
                await self._converse(address)
            except (ConnectionLostError, DeadlineError) as error:
                self._trouble = str(error)
            except SosError as error:
                self._trouble = str(error)
                self._refusals += 1
                in_vain = isinstance(error, ListenerRefusedError | WrongPortError)
                refused_at_once = in_vain and self.connections == connections
                if refused_at_once or self._refusals > REFUSALS_MAX:
                    self._failure = error
                    self._tell()
                    return
            failures = 1 if self._heard > heard else failures + 1
            elsewhere, self._elsewhere = self._elsewhere, ""
            if elsewhere:  # it may not answer yet, and whoever has sent us there may never answer again
                self._candidates = [elsewhere, *(one for one in self._addresses if one != elsewhere)]
                tried = 0
                moves = moves + 1 if trio.current_time() - began < SETTLED_SECONDS else 0
            else:
                tried += self._heard == heard  # an address that was good is asked first
                moves = 0
            if pauses := max(0, moves - 1) if elsewhere else failures:
                await trio.sleep(_RETRY.pause_seconds(pauses, random.random()))

    async def room(self, stream: OpenStream, held_bytes: int) -> None:
        """A stream holds this many bytes more: wait until all of them together are within the window."""
        self._due.add(stream)
        self._held_bytes += held_bytes
        self._work.set()
        if self._failure is not None or self._held_bytes > self._window_bytes:
            await self.until(lambda: self._held_bytes <= self._window_bytes, "messages to be acknowledged")

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for this, as long as the listener says something now and then. Raises what ended the source."""
        self._work.set()
        began = trio.current_time()
        while not holds():
            if self._failure is not None:
                raise self._failure
            with trio.move_on_at(max(began, self._heard) + self._patience_seconds) as patience:
                await self._changed.wait()
            if patience.cancelled_caught and not holds():
                raise DeadlineError(f"waited {self._patience_seconds:g} s for {what}: {self._trouble}")

    # ── one connection ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _converse(self, address: str) -> None:
        link = await open_source_link(self._dial, address, self._hello, seconds=CONNECT_SECONDS)
        self.connections += 1
        self._connected = True
        try:
            self._refused.clear()
            for stream in self._streams.values():
                stream.outbox.fly_again()
                stream.end_said = False
                self._due.add(stream)
            self._work.set()
            async with background() as nursery:
                nursery.start_soon(self._send, link)
                while not isinstance(frame := await self._next_frame(link), RestartFrame):
                    self._hear(frame)
                self._elsewhere = self._usable(frame.address)
                raise ConnectionLostError(f"{address} asked to connect again")
        finally:
            self._connected = False
            await link.aclose()

    async def _next_frame(self, link: SourceLink) -> Frame:
        while True:
            with trio.move_on_after(SILENT_SECONDS):
                return await link.next_frame()
            if any(stream.waits_for_answer for stream in self._streams.values()):
                raise ConnectionLostError(f"{link.address} has said nothing for {SILENT_SECONDS:g} s")

    async def _send(self, link: SourceLink) -> None:
        while True:
            data = self._next_data(link)
            if data:
                await link.send(data)
                continue
            with trio.move_on_after(BUSY_SECONDS if self._refused else float("inf")):
                await self._work.wait()
            self._work = trio.Event()
            self._ask_again()

    def _next_data(self, link: SourceLink) -> bytes:
        """What can be sent now; empty when that is nothing. Looks only at streams that something has happened to."""
        session, parts = link.session, list[bytes]()
        for stream in self._due.take_ending():
            if session.streams.state(stream.stream_id) is StreamState.OPEN:
                if not stream.known:  # of somebody here who did not wait for it
                    parts.append(session.send(EosFrame(stream_id=stream.stream_id)))
                elif stream.ends and stream.outbox.empty:
                    parts.append(session.send(EosFrame(stream_id=stream.stream_id)))
                    stream.end_said = True
        while session.credits and (stream_due := self._due.take()) is not None:
            parts.extend(self._of_stream(session, stream_due))
        return b"".join(parts)

    def _of_stream(self, session: ConnectorSession, stream: OpenStream) -> list[bytes]:
        """What can be sent of a stream with the credits that there are. What is left comes after the other streams."""
        if self._streams.get(stream.stream_id) is not stream:
            return []  # forgotten meanwhile
        state = session.streams.state(stream.stream_id)
        if state is StreamState.OPEN:
            frames = stream.outbox.take(min(session.credits, MESSAGES_PER_SEND_MAX))
            session.spend(stream.stream_id, len(frames))
            if stream.outbox.waits_to_be_sent:
                self._due.add(stream)
            return frames
        if state is StreamState.NOTIFIED or stream.ended or stream.end_said:
            return []
        point = stream.outbox.point if stream.known and stream.outbox.point >= 0 else NOTHING_SEEN
        notify = NotifyFrame(stream_id=stream.stream_id, stream_name=stream.name, point_of_reference=point)
        return [session.send(notify)]

    def _ask_again(self) -> None:
        """Streams that another connection had a while ago."""
        now = trio.current_time()
        while self._refused:
            stream, refused_at = self._refused[0]
            if now < refused_at + BUSY_SECONDS:
                return
            self._refused.popleft()
            self._due.add(stream)

    def _hear(self, frame: Frame) -> None:
        self._heard = trio.current_time()
        match frame:
            case NotifyAckFrame(stream_id=stream_id, accepted=True):
                opened = self._streams.get(stream_id)
                if opened is not None:
                    opened.known = True
                    self._held_bytes -= opened.outbox.acknowledge(frame.point_of_reference)
                    self._due.add(opened)
                    self._due.add_ending(opened)
                else:
                    self._due.add_ending(OpenStream(self, stream_id, ""))
            case NotifyAckFrame(stream_id=stream_id):
                if stream_id in self._streams:
                    self._refused.append((self._streams[stream_id], self._heard))
                self._trouble = f"stream {stream_id} is open on another connection, or new ones are not taken"
            case AckFrame(points=points):
                for stream_id, point in points:
                    acknowledged = self._streams.get(stream_id)
                    if acknowledged is not None:
                        self._held_bytes -= acknowledged.outbox.acknowledge(point)
                        acknowledged.ended = acknowledged.end_said
                        if acknowledged.ends:
                            self._due.add_ending(acknowledged)
                    self._refusals = 0
            case _:
                pass
        self._work.set()
        self._tell()

    def _usable(self, address: str) -> str:
        """Where a listener sends us; empty if that is nowhere, or no place for our token."""
        try:
            split_address(address)
        except MisuseError:
            return ""
        return "" if self._stays_here and leaves_this_host(address) else address

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def open_source(
    listener: str | Sequence[str],
    *,
    program: str,
    instance: str = "",
    cookie: bytes = b"",
    token: bytes | None = None,
    version: str = VERSION,
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
    window_bytes: int = WINDOW_BYTES,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Source]:
    """Streams to the listener at HOST:PORT, or at the first of several that answers.

    `instance` names this process among those of the program: a new connection of it takes over what its old one left
    open. `token` is shown as the cookie, in TLS or to this host only (MisuseError), unless `insecure`; a listener that
    sends us elsewhere is not obeyed then. In the block, connections are kept and made again. At its end nothing more
    is waited for: `flush` or `aclose` the streams before.
    """
    addresses = [listener] if isinstance(listener, str) else list(listener)
    stays_here = token is not None and tls is None and not insecure
    check_token_stays(addresses, token=token, encrypted=not stays_here)
    hello = HelloFrame(
        version=version,
        cookie=token.hex().encode() if token is not None else cookie,
        program=program,
        instance=instance or secrets.token_hex(8),
    )
    source = Source(
        addresses,
        hello,
        tcp_dial(tls),
        window_bytes=window_bytes,
        patience_seconds=patience_seconds,
        stays_here=stays_here,
    )
    async with background() as nursery:
        nursery.start_soon(source.run)
        yield source
