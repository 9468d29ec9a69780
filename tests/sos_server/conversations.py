"""What the session tests share: a service over a store in memory, and clients that reach it in several ways."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import trio
import trio.testing

from sos_client.net.plain_stream import PlainStream
from sos_client.serving.containment import concerns_all
from sos_client.serving.event_log import EventLog
from sos_server.service.service import Service
from tests.fakes.memory_store import MemoryStore
from tests.fakes.scripted_client import ScriptedClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sos_client.serving.access import AccessRules
    from sos_server.config import LimitsSection
    from sos_server.store.object_store import ObjectStore

NOW = 1_900_000_000.0


@dataclass(slots=True, kw_only=True)
class Scene:
    """A running service. ``carrier`` says how clients reach it: in memory, or over a socket (the poller's way)."""

    service: Service
    store: MemoryStore
    log_lines: list[str]
    nursery: trio.Nursery
    carrier: str
    failures: list[Exception] = field(default_factory=list)
    failures_expected: list[str] = field(default_factory=list)
    """What ended single sessions although nobody foresaw it; a listener does the same with a log."""

    def stream(self) -> trio.abc.Stream:
        """The client's end of a new connection to the service."""
        here: trio.abc.Stream
        there: trio.abc.Stream
        if self.carrier == "memory":
            here, there = trio.testing.memory_stream_pair()
        else:
            left, right = socket.socketpair()
            here, there = PlainStream(left), PlainStream(right)
        self.nursery.start_soon(self._converse, there)
        return here

    def connect(self) -> ScriptedClient:
        return ScriptedClient(self.stream())

    async def entered(self, namespace: str = "ns", *, token: bytes | None = None) -> ScriptedClient:
        """A client that has said HELLO and USE."""
        client = self.connect()
        await client.hello(token)
        await client.use(namespace)
        return client

    async def _converse(self, stream: trio.abc.Stream) -> None:
        transport = stream if isinstance(stream, PlainStream) else None
        try:
            await self.service.converse(stream, peer="tester", transport=transport)
        except Exception as error:
            if concerns_all(error):
                raise
            self.failures.append(error)
        await stream.aclose()


@asynccontextmanager
async def scene(
    *,
    carrier: str = "memory",
    access: AccessRules | None = None,
    limits: LimitsSection | None = None,
    commits_at_once: bool = True,
    commits_each_round: bool = False,
    real_store: ObjectStore | None = None,
) -> AsyncIterator[Scene]:
    """`real_store`, which somebody else runs, is served instead of the one in memory."""
    lines: list[str] = []
    store = MemoryStore(wall_clock=lambda: NOW, commits_at_once=commits_at_once, commits_each_round=commits_each_round)
    async with trio.open_nursery() as nursery:
        service = Service(
            real_store or cast("ObjectStore", store),
            log=EventLog(write=lines.append, clock=lambda: NOW),
            wall_clock=lambda: NOW,
            nursery=nursery,
            access=access,
            limits=limits,
        )
        nursery.start_soon(service.run)
        here = Scene(service=service, store=store, log_lines=lines, nursery=nursery, carrier=carrier)
        yield here
        assert [str(failure) for failure in here.failures] == here.failures_expected
        nursery.cancel_scope.cancel()
