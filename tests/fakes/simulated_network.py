"""A network in memory: hosts, listeners, connections that are slow, cut, half open, or let one direction through only.

All delays and choices come from one seeded source and trio's clock. Nothing here knows what is sent.

As TCP does it: bytes arrive in order or not at all, in pieces of any size; a link that is down holds them until it is
up again; a host that lost power says nothing, and resets old connections once it is back; a killed process's kernel
resets them at once.
"""

from __future__ import annotations

import contextlib
import operator
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    import random

BUFFER_BYTES: Final = 64 * 1024
"""One direction's bytes on the way, then the sender waits. Small, so that back-pressure is exercised."""
CONNECT_SECONDS: Final = 3.0
"""How long a host that does not answer keeps a caller."""

Observer = Callable[[str, str], None]
Link = tuple[str, str]


@dataclass(slots=True, kw_only=True)
class NetworkFaults:
    """What goes wrong by itself. Rates are per call."""

    delay_seconds: tuple[float, float] = (50e-6, 2e-3)
    slow_rate: float = 0.02
    slow_seconds: float = 0.5
    cut_rate: float = 0.0
    """How often a send breaks its connection: for both ends, for one of them, or only for the answers."""
    ghost_rate: float = 0.0
    """How often a connect reaches the server although the caller is told that it failed."""


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
        self.changed = trio.Event()

    def notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

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
        arrival, data = self.chunks[0]
        if arrival > now:
            return None
        count = self.network.draw_piece(min(max_bytes, len(data)))
        if count == len(data):
            self.chunks.popleft()
        else:
            self.chunks[0] = (arrival, data[count:])
        self.size -= count
        self.notify()
        return data[:count]

    def next_change_at(self) -> float:
        if self.chunks and self.network.is_up(self.link):
            return min(self.chunks[0][0], self.broken_at)
        return self.broken_at

    async def wait_change(self) -> None:
        with trio.move_on_at(self.next_change_at()):
            await self.changed.wait()


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
                    self.connection.network.maybe_cut(self.connection)
                    self._check()
                    piece = bytes(view[position : position + self._outgoing.room])
                    self._outgoing.put(piece)
                    if self._outgoing.resets:
                        self.connection.reset(self)
                    self.bytes_moved += len(piece)
                    position += len(piece)

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
                data = self._incoming.take(max_bytes or BUFFER_BYTES)
                if data is not None:
                    self.bytes_moved += len(data)
                    return data
                await self._incoming.wait_change()
        raise trio.ClosedResourceError

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
            with trio.move_on_at(self._incoming.broken_at):
                await self._outgoing.changed.wait()
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


class SimulatedListener(trio.abc.Listener[SimulatedStream]):
    """Where a server accepts. Closing it refuses further calls."""

    def __init__(self, network: SimulatedNetwork, address: str) -> None:
        self.network = network
        self.address = address
        self._waiting: deque[SimulatedStream] = deque()
        self._arrived = trio.Event()
        self.closed = False

    def offer(self, stream: SimulatedStream) -> None:
        self._waiting.append(stream)
        self._arrived.set()

    async def accept(self) -> SimulatedStream:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self.closed:
                raise trio.ClosedResourceError
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        self.closed = True
        self._arrived.set()
        self.network.stop_listening(self)


class SimulatedNetwork:
    """Everything between the hosts. An address is `host:port`; a host is whatever stands before the colon."""

    def __init__(
        self, rng: random.Random, *, faults: NetworkFaults | None = None, observe: Observer | None = None
    ) -> None:
        self.rng = rng
        self.faults = faults or NetworkFaults()
        self.observe = observe
        self.connections: list[Connection] = []
        self._listeners: dict[str, SimulatedListener] = {}
        self._down: set[Link] = set()
        self._asleep: dict[str, trio.Event] = {}

    def listen(self, address: str) -> SimulatedListener:
        assert address not in self._listeners, f"{address} is in use"
        listener = self._listeners[address] = SimulatedListener(self, address)
        return listener

    def stop_listening(self, listener: SimulatedListener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def dial(self, address: str, *, source: str) -> SimulatedStream:
        """Connect from host `source`. Raises `ConnectionRefusedError` or `TimeoutError`, as connect(2) does."""
        host = address.partition(":")[0]
        await self.awake(source)
        await trio.sleep(self.draw_delay())
        if not (self.is_up((source, host)) and self.is_up((host, source))):
            await trio.sleep(CONNECT_SECONDS)
            raise TimeoutError(f"{address} did not answer")
        listener = self._listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(f"nobody listens on {address}")
        connection = Connection(self, source, host)
        self.connections.append(connection)
        self._note("connect", f"{source} {address}")
        listener.offer(connection.server)
        if self.rng.random() < self.faults.ghost_rate:
            connection.client.incoming.lost = True
            raise TimeoutError(f"{address} did not answer in time")
        return connection.client

    def is_up(self, link: Link) -> bool:
        return link not in self._down

    def partition(self, source: str, target: str) -> None:
        """Hold whatever `source` sends to `target`. For both ways call twice."""
        self._note("partition", f"{source} {target}")
        self._down.add((source, target))

    def fall_asleep(self, host: str) -> None:
        """The process there does not run until it wakes up; it will not know that time has passed.

        Its kernel goes on: it accepts connections, and holds what arrives. Whatever the process does next on the
        network waits, deadlines included.
        """
        self._note("sleep", host)
        self._asleep.setdefault(host, trio.Event())

    def wake_up(self, host: str) -> None:
        """It goes on where it stood."""
        if host in self._asleep:
            self._note("wake", host)
            self._asleep.pop(host).set()

    async def awake(self, host: str) -> None:
        """Return when the host is awake. Cannot be cancelled before: a process that does not run notices nothing."""
        while host in self._asleep:
            with trio.CancelScope(shield=True):
                await self._asleep[host].wait()

    def heal(self) -> None:
        """All links are up; what was held arrives."""
        self._down.clear()
        for connection in self.connections:
            connection.client.incoming.notify()
            connection.server.incoming.notify()

    def cut(self, connection: Connection) -> None:
        """Break a connection: both ends hear of it, or only one; what was under way arrives, or not."""
        self._note("cut", " ".join(connection.hosts))
        ends = [connection.client, connection.server]
        if self.rng.random() < 0.3:
            silent = ends.pop(self.rng.randrange(2))
            silent.incoming.lost = True
        for end in ends:
            connection.break_end(end, seconds=self.rng.uniform(0, 0.05), keep_arrived=self.rng.random() < 0.5)
        self._forget(connection)

    def lose_replies(self, connection: Connection) -> None:
        """The server does what it was asked, and the client never hears of it."""
        self._note("lose replies", " ".join(connection.hosts))
        connection.break_end(connection.client, seconds=self.rng.uniform(0.001, 0.1))

    def maybe_cut(self, connection: Connection) -> None:
        if self.faults.cut_rate and self.rng.random() < self.faults.cut_rate:
            self.rng.choice([self.cut, self.lose_replies])(connection)

    def kill_host(self, host: str, *, power_cut: bool) -> None:
        """A process or a whole host is gone: its ends are dead, its listeners closed.

        A killed process's kernel resets connections; after a power cut the peers hear nothing until they send to the
        host when it is back, which `restart_host` stands for.
        """
        self.wake_up(host)
        for listener in [entry for entry in self._listeners.values() if entry.address.partition(":")[0] == host]:
            listener.close()
        for connection in [entry for entry in self.connections if host in entry.hosts]:
            for name in connection.hosts:
                end = connection.end_at(name)
                if name == host:
                    connection.break_end(end)
                    end.closed = True
                elif not power_cut:
                    connection.break_end(end, seconds=self.draw_delay(), keep_arrived=self.rng.random() < 0.5)
                else:
                    end.connection.end_at(host).incoming.lost = True

    def restart_host(self, host: str) -> None:
        """The host is back and knows nothing of its old connections: their other ends get resets."""
        for connection in [entry for entry in self.connections if host in entry.hosts]:
            if connection.end_at(host).closed:
                for name in connection.hosts:
                    connection.break_end(connection.end_at(name), seconds=self.draw_delay())
                self._forget(connection)

    def draw_delay(self) -> float:
        if self.rng.random() < self.faults.slow_rate:
            return self.rng.uniform(0, self.faults.slow_seconds)
        return self.rng.uniform(*self.faults.delay_seconds)

    def draw_piece(self, available: int) -> int:
        """How much one receive gives: mostly everything, now and then a part."""
        return available if self.rng.random() < 0.8 else self.rng.randrange(1, available + 1)

    def forget_if_closed(self, connection: Connection) -> None:
        if connection.client.closed and connection.server.closed:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self.connections = [entry for entry in self.connections if entry is not connection]

    def _note(self, what: str, about: str) -> None:
        if self.observe is not None:
            self.observe(what, about)
