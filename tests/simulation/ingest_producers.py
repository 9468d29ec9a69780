"""Who talks to the listener in a run of the ingest part: programs that use the library, rivals that do not, readers."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from connectors.ingest import places
from connectors.source.source import VERSION, Source
from connectors.wire.codec import decode, encode
from connectors.wire.frames import (
    AckFrame,
    EosFrame,
    Frame,
    HelloFrame,
    MessageFrame,
    NotifyAckFrame,
    NotifyFrame,
    OkFrame,
)
from connectors.wire.limits import FRAME_BYTES_MAX, NOTHING_SEEN
from journal.errors import JournalError
from journal.gateway.client.client import open_volume
from sos_client.net.dialing import FOREIGN_ERRORS
from sos_client.nurseries import background
from sos_client.wire.frames import FrameSplitter
from tests.connectors.wallaroo_source import stored_rows
from tests.simulation.ingest_model import payload_of
from tests.simulation.ingest_process import CREDITS, SOURCES_PORT
from tests.simulation.journal_actors import client_settings
from tests.simulation.journal_process import SERVICE_PORT, VOLUME

if TYPE_CHECKING:
    from tests.simulation.ingest_model import Ledger, Reign
    from tests.simulation.world import World

OWN_STREAMS: Final = (1, 2)
"""Of each program that uses the library, besides hundreds for its number."""
CONTESTED: Final = (7, 8, 9)
"""Streams that all rivals want."""
SIZES: Final = (40, 60, 300, 1500)
SILENT_SECONDS: Final = 8.0


class Program:
    """Sends its own streams with `Source`, from where the listener says that they are. May be killed at any moment."""

    def __init__(self, world: World, ledger: Ledger, name: str, listeners: list[str], *, number: int) -> None:
        self.world = world
        self.name = name
        self.sent = 0
        self._ledger = ledger
        self._streams = [100 * number + stream for stream in OWN_STREAMS]
        self._listeners = [f"{listener}:{SOURCES_PORT}" for listener in listeners]
        self._chance = world.chance(name)
        self._scope = trio.CancelScope()

    async def live(self) -> None:
        """One process after the other."""
        while True:
            with trio.CancelScope() as self._scope:
                await self._run()
            await trio.sleep(self._chance.random())

    def crash(self) -> None:
        self._scope.cancel()
        self.world.network.kill_host(self.name, power_cut=self._chance.random() < 0.5)

    async def _run(self) -> None:
        self.world.network.restart_host(self.name)
        hello = HelloFrame(
            version=VERSION, cookie=b"", program=self.name, instance=f"{self._chance.getrandbits(64):016x}"
        )
        dial = partial(self.world.dial, source=self.name)
        source = Source(self._listeners, hello, dial, window_bytes=4000, patience_seconds=1e6)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.run)
            for stream_id in self._streams:
                nursery.start_soon(self._send, source, stream_id)

    async def _send(self, source: Source, stream_id: int) -> None:
        before = self._ledger.heard(stream_id)
        stream = await source.open_stream(stream_id, f"{self.name} {stream_id}")
        point = stream.point_of_reference
        reign = self._ledger.grant(self.name, stream_id, NOTHING_SEEN if point is None else point, before=before)
        message_id = reign.granted
        while True:
            message_id += self._chance.choice([1, 1, 1, 3])
            payload = payload_of(self.name, stream_id, message_id, 50 + message_id % 200)
            self._ledger.send(reign, message_id, payload)
            await stream.send(message_id, payload)
            self.sent += 1
            if self._chance.random() < 0.2:
                await stream.flush()
                self._ledger.acknowledge(reign, message_id)
                self.world.note("flushed", f"{self.name} {stream_id} {message_id}")
            await trio.sleep(self._chance.choice([0.0, 0.02, 0.2]) * self._chance.random())


class _CutOffError(Exception):
    """The other side ended the connection, or this one does."""


class Rival:
    """Wants streams that others want, too, sends old messages again, and leaves in the middle of a frame.

    It shares no state machine with the library. Each time that it is given a stream it has another name in the ledger.
    """

    def __init__(self, world: World, ledger: Ledger, name: str, listeners: list[str]) -> None:
        self.world = world
        self.name = name
        self.ledger = ledger
        self.chance = world.chance(name)
        self._addresses = [f"{listener}:{SOURCES_PORT}" for listener in listeners]
        self._lives = 0
        self.acknowledged = 0
        self.given: set[int] = set()

    def crash(self) -> None:
        self.world.network.kill_host(self.name, power_cut=self.chance.random() < 0.5)
        self.world.network.restart_host(self.name)

    async def live(self) -> None:
        """One connection after the other."""
        while True:
            await self.try_once()
            await trio.sleep(self.chance.random() * 0.3)

    async def try_once(self, seconds: float = 1e6) -> None:
        """A connection's life."""
        self._lives += 1
        stream = None
        with contextlib.suppress(_CutOffError, *FOREIGN_ERRORS), trio.move_on_after(seconds):
            try:
                stream = await self.world.dial(self.chance.choice(self._addresses), source=self.name)
                await _RivalConnection(self, stream, f"{self.name}.{self._lives}").talk()
            finally:
                if stream is not None:
                    await trio.aclose_forcefully(stream)


class _RivalConnection:
    def __init__(self, rival: Rival, stream: trio.abc.Stream, sender: str) -> None:
        self._rival = rival
        self._world = rival.world
        self._ledger = rival.ledger
        self._chance = rival.chance
        self._stream = stream
        self._sender = sender
        self._grants = 0
        self._splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX)
        self._credits = 0
        self._credits_max = CREDITS
        self._asked: dict[int, int] = {}
        self._reigns: dict[int, Reign] = {}
        self._ended: dict[int, Reign] = {}  # whose end is not acknowledged, or was
        self._last: dict[int, int] = {}

    async def talk(self) -> None:
        instance = "" if self._chance.random() < 0.3 else self._chance.choice(["one", "another"])
        await self._say(HelloFrame(version=VERSION, cookie=b"", program=self._rival.name, instance=instance))
        frame = await self._next()
        if not isinstance(frame, OkFrame):
            raise _CutOffError
        self._credits = frame.initial_credits
        await self._say(*(self._notify(stream_id) for stream_id in CONTESTED if self._chance.random() < 0.7))
        async with background() as nursery:
            nursery.start_soon(self._hear)
            await self._go_on()

    async def _go_on(self) -> None:
        for _ in range(self._chance.choice([3, 20, 100])):
            frames = self._some_frames()
            data = b"".join(map(encode, frames))
            if self._chance.random() < 0.02:
                await self._stream.send_all(data[: self._chance.randrange(len(data) + 1)])
                return
            await self._stream.send_all(data)
            await trio.sleep(self._chance.choice([0.0, 0.01, 0.3]) * self._chance.random())

    def _some_frames(self) -> list[Frame]:
        frames: list[Frame] = []
        for _ in range(self._chance.randrange(4)):
            stream_id = self._chance.choice(CONTESTED)
            if stream_id in self._asked:
                continue
            if stream_id not in self._reigns:
                frames.append(self._notify(stream_id))
            elif self._chance.random() < 0.05:
                frames.append(EosFrame(stream_id=stream_id))
                self._ended[stream_id] = self._reigns.pop(stream_id)
            elif self._credits:
                self._credits -= 1
                frames.append(self._message(self._reigns[stream_id]))
        return frames

    def _message(self, reign: Reign) -> MessageFrame:
        last = self._last[reign.stream_id]
        message_id = last + self._chance.choice([1, 1, 2, 5])
        if last >= 0 and self._chance.random() < 0.25:
            message_id = self._chance.randrange(max(0, last - 3), last + 1)  # it, or another one, was here before
        empty = self._chance.random() < 0.1
        payload = b"" if empty else payload_of(reign.sender, reign.stream_id, message_id, self._chance.choice(SIZES))
        if message_id > last:
            self._ledger.send(reign, message_id, payload)
            self._last[reign.stream_id] = message_id
        return MessageFrame(reign.stream_id, message_id, 0, b"", payload)

    def _notify(self, stream_id: int) -> NotifyFrame:
        if self._credits:
            self._credits -= 1
        else:
            self._credits_max += 1  # the listener may have one on its way, and take it for paid
        self._asked[stream_id] = self._ledger.heard(stream_id)
        return NotifyFrame(stream_id=stream_id, stream_name=f"s{stream_id}", point_of_reference=NOTHING_SEEN)

    async def _hear(self) -> None:
        while True:
            match await self._next():
                case NotifyAckFrame(stream_id=stream_id, accepted=accepted, point_of_reference=point):
                    before = self._asked.pop(stream_id)
                    if accepted:
                        self._grants += 1
                        self._rival.given.add(stream_id)
                        sender = f"{self._sender}.{self._grants}"
                        reign = self._ledger.grant(sender, stream_id, point, before=before)
                        self._reigns[stream_id] = reign
                        self._last[stream_id] = reign.granted
                        self._world.note("granted", f"{self._sender} {stream_id} {point}")
                case AckFrame(credits=credits, points=points):
                    self._take(credits, points)
                case _:
                    raise _CutOffError

    def _take(self, credits: int, points: tuple[tuple[int, int], ...]) -> None:
        self._credits += credits
        self._world.require(
            self._credits <= self._credits_max, f"{self._sender} has {self._credits} credits of {self._credits_max}"
        )
        for stream_id, point in points:
            reign = self._reigns.get(stream_id) or self._ended.get(stream_id)
            if reign is not None:
                self._ledger.acknowledge(reign, point)
                self._rival.acknowledged += 1
                self._world.note("acknowledged", f"{self._sender} {stream_id} {point}")

    async def _say(self, *frames: Frame) -> None:
        await self._stream.send_all(b"".join(map(encode, frames)))

    async def _next(self) -> Frame:
        with trio.fail_after(SILENT_SECONDS):
            while (cut := self._splitter.next_frame()) is None:
                data = await self._stream.receive_some()
                if not data:
                    raise _CutOffError
                self._splitter.feed(bytes(data))
        return decode(cut[0], memoryview(bytes(cut[1])))


class Reader:
    """Reads the log as Spark does, and says how far it is."""

    def __init__(self, world: World, ledger: Ledger, name: str, services: list[str]) -> None:
        self.world = world
        self.name = name
        self._ledger = ledger
        self._chance = world.chance(name)
        self._addresses = [f"{service}:{SERVICE_PORT}" for service in services]

    async def live(self) -> None:
        """Again and again."""
        while True:
            await trio.sleep(self._chance.random())
            with contextlib.suppress(JournalError):
                await self.read_all()

    async def read_all(self) -> list[tuple[int, int, int, bytes]]:
        """Everything that is there, judged as far as anybody knows it."""
        settings = client_settings(self.world, self.name, self._chance)
        dial = partial(self.world.dial, source=self.name)
        rows: list[tuple[int, int, int, bytes]] = []
        opened = open_volume(self._addresses, VOLUME, client_name=self.name, dial=dial, settings=settings)
        async with opened as volume:
            after, more = "", True
            while more:
                page = await volume.list(places.LOG, after=after)
                for entry in page.entries:
                    async with contextlib.aclosing(volume.read(entry.path)) as pieces:
                        rows += stored_rows(b"".join([piece async for piece in pieces]))
                    after = entry.path.rpartition("/")[2]
                more = page.more
        self._ledger.read(self.name, rows)
        self.world.note("read", f"{self.name} {len(rows)}")
        return rows
