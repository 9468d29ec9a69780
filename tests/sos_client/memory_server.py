"""A server for tests of the client: the real sessions over a store in memory, reached by streams that can be broken.

No socket and no disk, so a test with trio's autojump clock takes no time whatever it waits for.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

import trio
import trio.testing

from sos_client.attempts import Deadlines
from sos_client.client import SosClient, open_client
from sos_client.serving.event_log import EventLog
from sos_server.service.service import Service
from tests.fakes.memory_store import MemoryNamespace, MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sos_server.store.object_store import ObjectStore

DEADLINES = Deadlines(connect_seconds=5, answer_seconds=10, retry_seconds=30)


MemoryStream = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]


class BreakableStream(trio.abc.Stream):
    """The client's end of a connection. `cut` breaks it; after `half_open` is set no byte passes either way.

    It breaks by itself after `cut_after_bytes`; after `stuck_after_bytes` the server takes nothing any more. With
    `bytes_a_second` the line, or the server, is so slow that answers come in pieces, one each second.
    """

    def __init__(self, inner: MemoryStream) -> None:
        self.half_open = False
        self.cut_after_bytes: int | None = None
        self.stuck_after_bytes: int | None = None
        self.sends_stuck = 0
        self.bytes_a_second: int | None = None
        self._late = b""
        self._inner = inner
        self._closed = trio.Event()

    def cut(self) -> None:
        self._closed.set()
        self._inner.send_stream.close()
        self._inner.receive_stream.close()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.half_open:
            await trio.lowlevel.checkpoint()
            return
        if self.stuck_after_bytes is not None:
            self.stuck_after_bytes -= len(data)
            if self.stuck_after_bytes < 0:
                self.sends_stuck += 1
                await self._closed.wait()
                raise trio.ClosedResourceError
        if self.cut_after_bytes is not None:
            passing, self.cut_after_bytes = bytes(data)[: self.cut_after_bytes], self.cut_after_bytes - len(data)
            await self._inner.send_all(passing)
            if self.cut_after_bytes <= 0:
                self.cut()
                raise trio.BrokenResourceError("cut")
            return
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = self._late or bytes(await self._inner.receive_some(max_bytes))
        if self.half_open:
            await self._closed.wait()
            raise trio.ClosedResourceError
        if self.bytes_a_second is not None:
            await trio.sleep(1)
            data, self._late = data[: self.bytes_a_second], data[self.bytes_a_second :]
        return data

    async def aclose(self) -> None:
        self.cut()
        await trio.lowlevel.checkpoint()


class MemoryServer:
    """What tests see of it: the store, and the connections, the newest last."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        commits_at_once: bool,
        wall_clock: Callable[[], float] = lambda: 1_900_000_000.0,
    ) -> None:
        self.store = MemoryStore(wall_clock=wall_clock, commits_at_once=commits_at_once)
        self.service = Service(
            cast("ObjectStore", self.store),
            log=EventLog(write=lambda _line: None),
            wall_clock=self.store.wall_clock,
            nursery=nursery,
        )
        self.down = False
        self.stuck_after_bytes: int | None = None
        """For the next connection."""
        self.streams: list[BreakableStream] = []
        self._nursery = nursery

    async def dial(self, _address: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if self.down:
            raise ConnectionRefusedError(111, "Connection refused")
        here, there = trio.testing.memory_stream_pair()
        stream = BreakableStream(here)
        stream.stuck_after_bytes, self.stuck_after_bytes = self.stuck_after_bytes, None
        self.streams.append(stream)
        self._nursery.start_soon(self._converse, there)
        return stream

    async def _converse(self, stream: trio.abc.Stream) -> None:
        try:
            await self.service.converse(stream, peer="tester")
        finally:
            await trio.aclose_forcefully(stream)

    def cut(self, *, commit: bool = False) -> None:
        """Break all connections; what was received and not synced is lost, or, with `commit`, kept."""
        if commit:
            self.store.commit()
        for appender in self.store.dirty:
            appender.pending.clear()
        self.store.dirty.clear()
        for stream in self.streams:
            stream.cut()

    def content(self, namespace: str, object: str) -> bytes:
        return bytes(self.store.namespaces[namespace].objects[object].content)

    def namespace(self, name: str) -> MemoryNamespace:
        return self.store.namespaces[name]

    def client(self, *, deadlines: Deadlines = DEADLINES) -> contextlib.AbstractAsyncContextManager[SosClient]:
        return open_client("memory", dial=self.dial, deadlines=deadlines)


@contextlib.asynccontextmanager
async def memory_server(*, commits_at_once: bool = True) -> AsyncIterator[MemoryServer]:
    async with trio.open_nursery() as nursery:
        yield MemoryServer(nursery, commits_at_once=commits_at_once)
        nursery.cancel_scope.cancel()


async def started(server: MemoryServer, client: SosClient) -> None:
    await client.use("n", create=True)
    async with client.append("n", "o", size=0) as stream:
        await stream.send(b"synced")
