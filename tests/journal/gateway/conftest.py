"""A service in memory, and ways to talk to it byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, journal_error
from journal.gateway.conversation import GatewaySurroundings
from journal.gateway.gateway import Gateway
from journal.gateway.metrics import GatewayMetrics
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import decode_answer
from journal.gateway.wire.encoding import encode
from journal.volume import OperationId, PathClaim
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog
from sos_client.wire.frames import FrameSplitter
from tests.fakes.memory_volume import MemoryVolume
from tests.fakes.memory_volumes import MemoryVolumes

if TYPE_CHECKING:
    from pathlib import Path

INSTANCE = bytes(range(16))
HELLO = m.HelloRequest(version=1, token=None, client="test", instance=INSTANCE)
OPEN = m.OpenRequest(volume="payments", epoch_seen=0)


class Room:
    """What a volume says to changes, and whose they are: `crowded` when it keeps too much for them."""

    def __init__(self) -> None:
        self.admitted: dict[bytes, bytes] = {}
        self.crowded = False

    def admit(self, operation: OperationId, whose: bytes) -> None:
        if self.crowded:
            raise journal_error(JournalCode.UNAVAILABLE, "too much is kept for them")
        self.admitted[operation.client] = whose


class Service:
    """A gateway whose connections are pairs of streams in memory."""

    def __init__(self, nursery: trio.Nursery, tokens: Path | None = None) -> None:
        self.volume = MemoryVolume()
        self.volumes = MemoryVolumes(self.volume)
        self.lines: list[str] = []
        self.metrics = GatewayMetrics()
        self.now = 1_700_000_000.0
        self.access = AccessRules(tokens)
        self.gateway = Gateway(
            GatewaySurroundings(
                volumes=self.volumes,
                access=self.access,
                log=EventLog(write=self.lines.append),
                metrics=self.metrics,
                identity=bytes(16),
                wall_clock=lambda: self.now,
            )
        )
        self._nursery = nursery

    def connect(self) -> Peer:
        here, there = trio.testing.memory_stream_pair()
        ended = trio.Event()

        async def talk() -> None:
            await self.gateway.talk(there, peer="memory")
            await there.aclose()
            ended.set()

        self._nursery.start_soon(talk)
        return Peer(here, ended)

    async def opened(self) -> Peer:
        """A connection on which HELLO and OPEN have been answered."""
        peer = self.connect()
        assert isinstance(await peer.ask(HELLO), m.WelcomeAnswer)
        assert isinstance(await peer.ask(OPEN), m.OpenedAnswer)
        return peer


class Peer:
    """A client that sends what it is told to and shows each answer."""

    def __init__(self, stream: trio.abc.Stream, ended: trio.Event) -> None:
        self.stream = stream
        self.ended = ended
        self._splitter = FrameSplitter(frame_bytes_max=limits.FRAME_BYTES_MAX)
        self._sequence = 0

    def stamp(self, claim: PathClaim | None = None, *, epoch_seen: int = 0) -> m.Stamp:
        self._sequence += 1
        return m.Stamp(
            operation=OperationId(client=INSTANCE, sequence=self._sequence), claim=claim, epoch_seen=epoch_seen
        )

    async def send(self, *messages: m.Request) -> None:
        await self.stream.send_all(b"".join(encode(message) for message in messages))

    async def receive(self) -> m.Answer:
        """The next answer; EndOfChannel when the service has closed the connection."""
        while (frame := self._splitter.next_frame()) is None:
            data = await self.stream.receive_some()
            if not data:
                raise trio.EndOfChannel
            self._splitter.feed(data)
        return decode_answer(*frame)

    async def ask(self, *messages: m.Request) -> m.Answer:
        await self.send(*messages)
        return await self.receive()

    async def refused(self, *messages: m.Request) -> m.RefusalAnswer:
        answer = await self.ask(*messages)
        assert isinstance(answer, m.RefusalAnswer), answer
        return answer

    async def closed(self) -> None:
        """The service says nothing more and closes."""
        with pytest.raises(trio.EndOfChannel):
            await self.receive()


@pytest.fixture
def service(nursery: trio.Nursery) -> Service:
    return Service(nursery)
