"""SOS servers for tests of the writer: the real sessions, over stores in memory or real stores on simulated disks.

The clock is virtual: tests that use this use trio's autojump clock.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING, Protocol

import trio

from journal.owner.opening import open_journal
from journal.records.settings import MEMBER_DEADLINES, JournalSettings, Surroundings
from journal.takeover.volume_creation import create_volume
from sos_client.nurseries import background
from tests.fakes.simulated_disk import SimulatedDisk
from tests.fakes.simulated_drive import SimulatedDrive
from tests.fakes.simulated_network import NetworkFaults
from tests.simulation.process import SimulatedHost
from tests.simulation.server_process import serve
from tests.simulation.world import World
from tests.sos_client.memory_server import MemoryServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from journal.owner.journal import Journal
    from journal.records.segment import SegmentHeader
    from tests.fakes.memory_store import MemoryObject

VOLUME = "payments"
_PROCESSES = itertools.count()


class Cluster(Protocol):
    """Servers a, b, c …, taken down, brought up and wiped by name."""

    async def up(self, name: str) -> None: ...

    async def down(self, name: str) -> None: ...

    async def wipe(self, name: str) -> None: ...

    async def dial(self, address: str, source: str) -> trio.abc.Stream: ...

    @property
    def names(self) -> str: ...


class SimulatedCluster:
    """The real store on simulated disks; `down` is a power cut."""

    def __init__(self, names: str, nursery: trio.Nursery, *, seed: int = 1) -> None:
        quiet = NetworkFaults(delay_seconds=(0.0001, 0.0003), slow_rate=0.0)
        self.names = names
        self.world = World(seed, network_faults=quiet)
        self.hosts = {name: SimulatedHost(self.world, name, serve) for name in names}
        self.nursery = nursery

    async def up(self, name: str) -> None:
        self.hosts[name].start(self.nursery)
        await trio.sleep(0.5)

    async def down(self, name: str) -> None:
        await self.hosts[name].kill(power_cut=True)

    async def wipe(self, name: str) -> None:
        await self.down(name)
        self.hosts[name].drive = SimulatedDrive(self.world.chance(f"{name} new drive"))
        await self.up(name)

    async def dial(self, address: str, source: str) -> trio.abc.Stream:
        return await self.world.network.dial(f"{address}:7400", source=source)


class MemoryCluster:
    """Real sessions over stores in memory: quick, and what is stored can be looked at and damaged."""

    def __init__(self, names: str, nursery: trio.Nursery) -> None:
        self.names = names
        self.nursery = nursery
        self.servers = {name: MemoryServer(nursery, commits_at_once=True, wall_clock=wall_clock) for name in names}
        for name, server in self.servers.items():
            server.store.identity = name.encode().ljust(16, b".")
        self.sent: Counter[str] = Counter()  # bytes that each server has sent

    async def up(self, name: str) -> None:
        self.servers[name].down = False
        await trio.lowlevel.checkpoint()

    async def down(self, name: str) -> None:
        self.servers[name].down = True
        self.servers[name].cut()
        await trio.lowlevel.checkpoint()

    async def wipe(self, name: str) -> None:
        """The namespace is gone; one made again is another."""
        self.servers[name].cut()
        self.servers[name].store.namespaces.clear()
        await trio.lowlevel.checkpoint()

    async def remake(self, name: str, incarnation: bytes) -> None:
        """Make an empty namespace where one was wiped."""
        namespace = await self.servers[name].store.namespace(VOLUME, create=True)
        namespace.incarnation = incarnation

    async def dial(self, address: str, source: str) -> trio.abc.Stream:
        del source
        return Counting(await self.servers[address].dial(address), self.sent, address)

    def set_clocks(self, clock: Callable[[], float]) -> None:
        """What the servers take for the time."""
        for server in self.servers.values():
            server.service.wall_clock = clock

    def objects(self, name: str) -> dict[str, MemoryObject]:
        """What a server has of the volume."""
        return self.servers[name].store.namespaces[VOLUME].objects


class Counting(trio.abc.Stream):
    """Counts what comes from a server."""

    def __init__(self, inner: trio.abc.Stream, counter: Counter[str], name: str) -> None:
        self._inner = inner
        self._counter = counter
        self._name = name

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._inner.receive_some(max_bytes)
        self._counter[self._name] += len(data)
        return data

    async def aclose(self) -> None:
        await self._inner.aclose()


def wall_clock() -> float:
    return 1_900_000_000.0 + trio.current_time()


def surroundings(
    servers: Cluster,
    source: str = "service",
    *,
    wall_clock: Callable[[], float] = wall_clock,
    asleep_clock: Callable[[], float] = float,
) -> Surroundings:
    """What a process named `source` has around it."""

    async def dial(address: str) -> trio.abc.Stream:
        return await servers.dial(address.partition(":")[0], source)

    chance = random.Random(f"{source} {next(_PROCESSES)}")
    return Surroundings(
        dial=dial, chance=chance, wall_clock=wall_clock, asleep_clock=asleep_clock, deadlines=MEMBER_DEADLINES
    )


def addresses(servers: Cluster, names: str | None = None) -> list[str]:
    return [f"{name}:7400" for name in names or servers.names]


async def create(servers: Cluster, names: str | None = None, *, acknowledgements: int | None = None) -> SegmentHeader:
    """Make the volume on the servers named, or on all."""
    return await create_volume(
        VOLUME,
        addresses(servers, names),
        acknowledgements=acknowledgements,
        surroundings=surroundings(servers, "creator"),
    )


@contextlib.asynccontextmanager
async def open_on(
    servers: Cluster,
    *,
    names: str | None = None,
    source: str = "service",
    disk: SimulatedDisk | None = None,
    settings: JournalSettings | None = None,
    accept_loss: bool = False,
    unless_above: int | None = None,
    wall_clock: Callable[[], float] = wall_clock,
    asleep_clock: Callable[[], float] = float,
) -> AsyncIterator[Journal]:
    """Take the volume over."""
    async with open_journal(
        VOLUME,
        servers=addresses(servers, names),
        directory=disk,
        settings=settings,
        surroundings=surroundings(servers, source, wall_clock=wall_clock, asleep_clock=asleep_clock),
        accept_loss=accept_loss,
        unless_above=unless_above,
    ) as journal:
        yield journal


@contextlib.asynccontextmanager
async def memory_cluster(names: str = "abc") -> AsyncIterator[MemoryCluster]:
    """Running servers, until the end of the block."""
    async with background() as nursery:
        yield MemoryCluster(names, nursery)


@contextlib.asynccontextmanager
async def simulated_cluster(names: str = "abc", *, seed: int = 1) -> AsyncIterator[SimulatedCluster]:
    """The same with real stores on simulated disks."""
    async with background() as nursery:
        servers = SimulatedCluster(names, nursery, seed=seed)
        for name in names:
            await servers.up(name)
        yield servers


def new_disk(seed: int = 1) -> SimulatedDisk:
    """An empty local disk."""
    return SimulatedDisk(SimulatedDrive(random.Random(seed)))


def again(disk: SimulatedDisk) -> SimulatedDisk:
    """The same disk, for the next process."""
    return SimulatedDisk(disk.drive)


async def content(journal: Journal, path: str) -> bytes:
    """A whole file."""
    return b"".join([piece async for piece in journal.read(path)])
