"""A connection in memory: bytes under way both ways, and a stream at each end. Faults come from the network."""

from __future__ import annotations

import contextlib
import operator
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from tests.fakes.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.fakes.simulated_network import SimulatedNetwork

BUFFER_BYTES: Final = 64 * 1024
"""One direction's bytes on the way, then the sender waits. Small, so that back-pressure is exercised."""

Link = tuple[str, str]


class _Direction:
    """Bytes on the way from one end of a connection to the other."""

    def __init__(self, network: SimulatedNetwork, link: Link) -> None:
        self.network = network
        self.link = link
        self.chunks: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.ended = False
        self.broken_at = inf
        """When the receiver learns that the connection is gone. inf: not at all."""
        self.lost = False
        """Bytes sent from now on go nowhere (the other host has lost power, or the connection)."""
        self.resets = False
        """The receiver has closed its end and its kernel is alive: who sends anything more gets a reset."""
        self.changed = Bell()
        self.watchers: list[Callable[[], None]] = []
        """Are told of every change, too."""

    def notify(self) -> None:
        self.changed.ring()
        for watcher in self.watchers:
            watcher()

    @property
    def room(self) -> int:
        return BUFFER_BYTES - self.size

    def put(self, data: bytes) -> None:
        if not self.lost:
            arrival = trio.current_time() + self.network.draw_delay()
            if self.chunks:
                arrival = max(arrival, self.chunks[-1][0])
            self.chunks.append((arrival, data))
        self.size += len(data)
        self.notify()

    def take(self, max_bytes: int) -> bytes | None:
        """What has arrived (b"" at the end), or None. Raises once the connection is known to be gone."""
        now = trio.current_time()
        if self.broken_at <= now:
            raise trio.BrokenResourceError("connection reset")
        if not self.network.is_up(self.link):
            return None
        if not self.chunks:
            return b"" if self.ended else None
        if self.chunks[0][0] > now:
            return None
        data = self._arrived(now, max_bytes)
        count = self.network.draw_piece(min(max_bytes, len(data)))
        if count < len(data):
            self.chunks.appendleft((now, data[count:]))
        self.size -= count
        self.notify()
        return data[:count]

    def _arrived(self, now: float, bytes_min: int) -> bytes:
        """Remove what has arrived, whatever the pieces in which it was sent, until there is enough."""
        pieces: list[bytes] = []
        size = 0
        while self.chunks and self.chunks[0][0] <= now and size < bytes_min:
            pieces.append(self.chunks.popleft()[1])
            size += len(pieces[-1])
        return b"".join(pieces)

    @property
    def has_something(self) -> bool:
        """Whether `take` would give something, or raise."""
        now = trio.current_time()
        if self.broken_at <= now:
            return True
        if not self.network.is_up(self.link):
            return False
        return self.chunks[0][0] <= now if self.chunks else self.ended

    def next_change_at(self) -> float:
        if self.chunks and self.network.is_up(self.link):
            return min(self.chunks[0][0], self.broken_at)
        return self.broken_at

    def wait_change(self) -> Awaitable[None]:
        return self.changed.wait(self.next_change_at())


class SimulatedStream(trio.abc.Stream):
    """One end of a connection."""

    def __init__(self, outgoing: _Direction, incoming: _Direction, connection: Connection) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._busy: set[str] = set()
        self.connection = connection
        self.closed = False
        self.bytes_moved = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with self._only_one("send"):
            await trio.lowlevel.checkpoint()
            await self._awake()
            self._check()
            with memoryview(data) as view:
                position = 0
                while position < len(view):
                    await self._wait_room()
                    position += self.send_now(view[position:])

    def send_now(self, data: memoryview) -> int:
        """Send what there is room for, and say how much that was."""
        self.connection.network.maybe_cut(self.connection)
        self._check()
        piece = bytes(data[: max(0, self._outgoing.room)])
        if piece:
            self._outgoing.put(piece)
            if self._outgoing.resets:
                self.connection.reset(self)
            self.bytes_moved += len(piece)
        return len(piece)

    def end_sending(self) -> None:
        """The other end reads what is under way, then the end of the stream."""
        self._outgoing.ended = True
        self._outgoing.notify()

    async def wait_send_all_might_not_block(self) -> None:
        with self._only_one("send"):
            await trio.lowlevel.checkpoint()
            await self._wait_room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if max_bytes is not None and operator.index(max_bytes) < 1:
            raise ValueError("max_bytes must be at least 1")
        with self._only_one("receive"):
            await trio.lowlevel.checkpoint()
            while not self.closed:
                await self._awake()
                data = self.receive_now(max_bytes or BUFFER_BYTES)
                if data is not None:
                    return data
                await self._incoming.wait_change()
        raise trio.ClosedResourceError

    def receive_now(self, max_bytes: int) -> bytes | None:
        """What has arrived, b"" at the end of the stream, None if there is nothing."""
        data = self._incoming.take(max_bytes)
        self.bytes_moved += len(data or b"")
        return data

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close this end; the other one reads what is under way, then the end of the stream."""
        if not self.closed:
            self.closed = True
            self._outgoing.ended = True
            self._incoming.lost = self._incoming.resets = True
            self._outgoing.notify()
            self._incoming.notify()
            if self._incoming.chunks:
                self.connection.reset(self.connection.peer_of(self))
            self.connection.network.forget_if_closed(self.connection)

    @property
    def incoming(self) -> _Direction:
        return self._incoming

    @property
    def outgoing(self) -> _Direction:
        return self._outgoing

    @property
    def broken(self) -> bool:
        """Whether `send_now` would raise."""
        return self.closed or self._incoming.broken_at <= trio.current_time()

    async def _awake(self) -> None:
        await self.connection.network.awake(self.connection.host_of(self))

    def _check(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError
        if self._incoming.broken_at <= trio.current_time():
            raise trio.BrokenResourceError("connection reset")

    async def _wait_room(self) -> None:
        self._check()
        while self._outgoing.room <= 0:
            await self._outgoing.changed.wait(self._incoming.broken_at)
            self._check()

    @contextlib.contextmanager
    def _only_one(self, what: str) -> Iterator[None]:
        if what in self._busy:
            raise trio.BusyResourceError(f"another task is in {what}")
        self._busy.add(what)
        try:
            yield
        finally:
            self._busy.discard(what)


class Connection:
    """Both directions and both ends of one connection."""

    def __init__(self, network: SimulatedNetwork, client_host: str, server_host: str) -> None:
        self.network = network
        self.hosts = (client_host, server_host)
        there = _Direction(network, (client_host, server_host))
        back = _Direction(network, (server_host, client_host))
        self.client = SimulatedStream(there, back, self)
        self.server = SimulatedStream(back, there, self)

    def host_of(self, end: SimulatedStream) -> str:
        return self.hosts[0] if end is self.client else self.hosts[1]

    def end_at(self, host: str) -> SimulatedStream:
        return self.client if host == self.hosts[0] else self.server

    def peer_of(self, end: SimulatedStream) -> SimulatedStream:
        return self.server if end is self.client else self.client

    def reset(self, end: SimulatedStream) -> None:
        """Tell this end, as fast as the network is, that nobody will read what it sends."""
        self.break_end(end, seconds=self.network.draw_delay(), keep_arrived=True)

    def break_end(self, end: SimulatedStream, *, seconds: float = 0.0, keep_arrived: bool = False) -> None:
        """From `seconds` on this end gets errors. What is under way to it is lost, or, if asked, delivered before."""
        direction = end.incoming
        if not keep_arrived:
            direction.chunks.clear()
        direction.lost = True
        direction.broken_at = min(direction.broken_at, trio.current_time() + seconds)
        direction.notify()
        self.peer_of(end).incoming.notify()
