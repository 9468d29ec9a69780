"""A listener without sockets, on a volume in memory, and what tests say to it and hear from it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from connectors.ingest import places
from connectors.ingest.ingest_log import IngestLog
from connectors.listener.admission import SourceAdmission
from connectors.listener.settings import ProtocolSettings
from connectors.listener.sources import Sources
from connectors.registry.stream_registry import StreamRegistry
from connectors.wire.codec import decode, encode
from connectors.wire.frames import AckFrame, Frame, HelloFrame, MessageFrame, NotifyAckFrame, NotifyFrame, OkFrame
from connectors.wire.limits import NOTHING_SEEN
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog
from sos_client.wire.frames import FrameSplitter
from tests.connectors.wallaroo_source import stored_rows
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HELLO = HelloFrame(version="0.0.1", cookie=b"", program="p", instance="i")
OTHER = HelloFrame(version="0.0.1", cookie=b"", program="p", instance="j")
SETTINGS = ProtocolSettings(credits=10, streams_max=3, frame_bytes_max=2000, hello_seconds=5.0)


def notify(stream_id: int = 1) -> NotifyFrame:
    return NotifyFrame(stream_id=stream_id, stream_name=f"s{stream_id}", point_of_reference=0)


def accepted(stream_id: int = 1, point: int = NOTHING_SEEN) -> NotifyAckFrame:
    return NotifyAckFrame(accepted=True, stream_id=stream_id, point_of_reference=point)


def refused(stream_id: int = 1) -> NotifyAckFrame:
    return NotifyAckFrame(accepted=False, stream_id=stream_id, point_of_reference=0)


def message(message_id: int, payload: bytes = b"x", stream_id: int = 1) -> MessageFrame:
    return MessageFrame(stream_id, message_id, 0, b"", payload)


def ack(more_credits: int, *points: tuple[int, int]) -> AckFrame:
    return AckFrame(credits=more_credits, points=points)


class Peer:
    """The other end of a connection, in frames."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._splitter = FrameSplitter(frame_bytes_max=1 << 20)

    async def say(self, *frames: Frame) -> None:
        await self.stream.send_all(b"".join(map(encode, frames)))

    async def hears(self, *wanted: Frame) -> None:
        """These, one after the other; signs of life in between are passed over."""
        for frame in wanted:
            while (heard := await self.next()) == ack(0) != frame:
                pass
            assert heard == frame

    async def next(self) -> Frame | None:
        """None: the end."""
        with trio.fail_after(300):
            while (cut := self._splitter.next_frame()) is None:
                data = await self.stream.receive_some()
                if not data:
                    return None
                self._splitter.feed(data)
        return decode(cut[0], memoryview(bytes(cut[1])))

    async def is_closed(self) -> None:
        assert await self.next() is None


class FromOutside:
    """What a listener's socket hands on."""

    peer = "test:1"
    bytes_moved = 0

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.transport = self

    def greeted(self) -> None:
        pass


class House:
    """A listener, and who connects to it."""

    def __init__(self, volume: MemoryVolume, sources: Sources, nursery: trio.Nursery) -> None:
        self.volume = volume
        self.sources = sources
        self.ends: list[trio.abc.Stream] = []
        self.failed: list[Exception] = []  # conversations, for a reason that nobody foresaw
        self._nursery = nursery

    async def dial(self, address: str = "") -> trio.abc.Stream:
        """A connection."""
        here, there = trio.testing.memory_stream_pair()
        self.ends.append(there)

        async def converse() -> None:
            outside: Any = FromOutside(there)
            try:
                await self.sources.converse(outside)
            except Exception as error:
                self.failed.append(error)
                raise
            await there.aclose()

        self._nursery.start_soon(converse)
        return here

    async def connect(self, *frames: Frame) -> Peer:
        peer = Peer(await self.dial())
        await peer.say(*frames)
        return peer

    async def opened(self, *streams: int, hello: HelloFrame = HELLO) -> Peer:
        """Greeted, with these streams open."""
        peer = await self.connect(hello)
        await peer.hears(OkFrame(initial_credits=self.sources.settings.credits))
        for stream_id in streams:
            await peer.say(notify(stream_id))
            await peer.hears(accepted(stream_id), ack(1))
        return peer

    async def rows(self) -> list[tuple[int, int, int, bytes]]:
        """All that is stored: sequence, stream, id, payload."""
        page = await self.volume.list(places.LOG)
        parts = [b"".join([piece async for piece in self.volume.read(entry.path)]) for entry in page.entries]
        return stored_rows(b"".join(parts))


@asynccontextmanager
async def listening(
    volume: MemoryVolume | None = None,
    settings: ProtocolSettings = SETTINGS,
    *,
    tokens: Path | None = None,
    shared: MemoryVolume | None = None,
) -> AsyncIterator[House]:
    """A house whose listener owns the volume during the block. `shared`: the registry of several."""
    volume = volume or MemoryVolume("v")
    access = AccessRules(tokens)
    admission = SourceAdmission(volume="v", cookie=settings.cookie, access=access, wall_clock=lambda: 1790000001.0)
    sources = Sources(settings, EventLog(write=lambda _: None), admission)
    ingest = IngestLog(volume, wall_ms=lambda: 1790000001000)
    await ingest.open()
    registry = None
    if shared is not None:
        points = dict(ingest.durable.points)
        registry = StreamRegistry(shared, listener=ingest._volume.name, epoch=ingest._volume.epoch, points=points)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sources.run)
        if registry is not None:
            nursery.start_soon(registry.run)
        with sources.serving(ingest, registry):
            nursery.start_soon(ingest.run)
            yield House(volume, sources, nursery)
        nursery.cancel_scope.cancel()
