"""A network in memory: hosts, listeners, connections that are slow, cut, half open, or let one direction through only.

All delays and choices come from one seeded source and trio's clock. Nothing here knows what is sent.

As TCP does it: bytes arrive in order or not at all, in pieces of any size; a link that is down holds them until it is
up again; a host that lost power says nothing, and resets old connections once it is back; a killed process's kernel
resets them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from tests.fakes.simulated_connection import Connection, Link, SimulatedStream

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

CONNECT_SECONDS: Final = 3.0
"""How long a host that does not answer keeps a caller."""

Observer = Callable[[str, str], None]


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
        self.note("connect", f"{source} {address}")
        listener.offer(connection.server)
        if self.rng.random() < self.faults.ghost_rate:
            connection.client.incoming.lost = True
            raise TimeoutError(f"{address} did not answer in time")
        return connection.client

    def is_up(self, link: Link) -> bool:
        return link not in self._down

    def partition(self, source: str, target: str) -> None:
        """Hold whatever `source` sends to `target`. For both ways call twice."""
        self.note("partition", f"{source} {target}")
        self._down.add((source, target))

    def fall_asleep(self, host: str) -> None:
        """The process there does not run until it wakes up; it will not know that time has passed.

        Its kernel goes on: it accepts connections, and holds what arrives. Whatever the process does next on the
        network waits, deadlines included.
        """
        self.note("sleep", host)
        self._asleep.setdefault(host, trio.Event())

    def wake_up(self, host: str) -> None:
        """It goes on where it stood."""
        if host in self._asleep:
            self.note("wake", host)
            self._asleep.pop(host).set()

    @contextmanager
    def until_it_falls_over(self) -> Iterator[None]:
        """Whoever sleeps when the block ends by an error wakes up: nobody is left to wake it, nor could it be ended."""
        try:
            yield
        except BaseException:
            for host in list(self._asleep):
                self.wake_up(host)
            raise

    def is_asleep(self, host: str) -> bool:
        return host in self._asleep

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
        self.note("cut", " ".join(connection.hosts))
        ends = [connection.client, connection.server]
        if self.rng.random() < 0.3:
            silent = ends.pop(self.rng.randrange(2))
            silent.incoming.lost = True
        for end in ends:
            connection.break_end(end, seconds=self.rng.uniform(0, 0.05), keep_arrived=self.rng.random() < 0.5)
        self._forget(connection)

    def lose_replies(self, connection: Connection) -> None:
        """The server does what it was asked, and the client never hears of it."""
        self.note("lose replies", " ".join(connection.hosts))
        connection.break_end(connection.client, seconds=self.rng.uniform(0.001, 0.1))

    def maybe_cut(self, connection: Connection) -> None:
        if self.faults.cut_rate and self.rng.random() < self.faults.cut_rate:
            self.rng.choice([self.cut, self.lose_replies])(connection)

    def kill_host(self, host: str, *, power_cut: bool) -> None:
        """A process or a whole host is gone: its ends are dead, its listeners closed.

        A killed process's kernel resets connections; after a power cut the peers hear nothing until they send to the
        host when it is back, which `restart_host` stands for. What a partition held is gone: nobody sends it again.
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
                    if not self.is_up(end.incoming.link):
                        end.incoming.chunks.clear()

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

    def note(self, what: str, about: str) -> None:
        if self.observe is not None:
            self.observe(what, about)
