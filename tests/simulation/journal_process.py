"""The real journal service as one simulated process: keeper, journal, gateway, owner board over simulated streams."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.client.sign_of_life import is_alive
from journal.gateway.conversation import GatewaySurroundings as GatewaySurroundings
from journal.gateway.gateway import Gateway
from journal.gateway.metrics import GatewayMetrics
from journal.kept_past import Retention
from journal.owner.opening import open_journal
from journal.records.settings import JournalSettings, Surroundings
from journal.service.keeper import VolumeKeeper, VolumeKeepers
from journal.takeover.owner_board import ServerBoard
from journal.takeover.volume_creation import create_volume
from sos_client.attempts import Deadlines
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog
from tests.fakes.simulated_network import NetworkFaults
from tests.simulation.journal_scenario import SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.owner.journal import Journal
    from tests.fakes.simulated_connection import SimulatedStream
    from tests.fakes.simulated_disk import SimulatedDisk
    from tests.fakes.simulated_network import SimulatedListener
    from tests.simulation.journal_rights import JournalRights
    from tests.simulation.process import SimulatedHost
    from tests.simulation.world import World

VOLUME: Final = "volume"
SERVICE_PORT: Final = 7500
DEADLINES: Final = Deadlines(connect_seconds=1.0, answer_seconds=2.0, retry_seconds=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """How the services of a run are set up."""

    servers: tuple[str, ...]
    """Every host that is a member or may become one: a service's list may be older or newer than the volume's."""
    settings: JournalSettings
    rights: JournalRights | None = None
    """The tokens of those who may come in; None: everybody may."""
    standby: str = ""
    """The service that only waits until the volume is free; a start of any other one takes it over."""


def journal_settings(
    *,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    unacknowledged_bytes_max: int = 32 << 20,
    retention_seconds: int = 0,
    retention_bytes: int = 0,
) -> JournalSettings:
    """Small segments, and waits that a short run outlives."""
    return JournalSettings(
        segment_bytes_max=segment_bytes_max,
        unacknowledged_bytes_max=unacknowledged_bytes_max,
        tail_bytes_max=30_000,
        quorum_seconds=4.0,
        pause_seconds_max=0.5,
        retention=Retention(seconds=retention_seconds, bytes=retention_bytes),
    )


def address_of(name: str) -> str:
    """Where a simulated server listens."""
    return f"{name}:7400"


def surroundings(world: World, source: str, chance: random.Random) -> Surroundings:
    """What a writer on host `source` has around it."""
    return Surroundings(
        dial=partial(world.dial, source=source),
        chance=chance,
        wall_clock=world.wall_clock,
        asleep_clock=float,
        deadlines=DEADLINES,
        log=_silent_log(world),
    )


async def create_on_quiet_network(
    world: World, members: Sequence[str], *, acknowledgements: int, settings: JournalSettings
) -> None:
    """The volume, before anything goes wrong."""
    faults, world.network.faults = world.network.faults, NetworkFaults(slow_rate=0.0)
    await trio.sleep(0.5)
    await create_volume(
        VOLUME,
        [address_of(name) for name in members],
        acknowledgements=acknowledgements,
        settings=settings,
        surroundings=surroundings(world, "creator", world.chance("creator")),
    )
    world.network.faults = faults


def _silent_log(world: World) -> EventLog:
    return EventLog(write=lambda _: None, clock=world.wall_clock)


@asynccontextmanager
async def _nothing_beside(_: Journal) -> AsyncIterator[None]:
    yield


async def _nothing_first() -> None:
    pass


async def serve_volume(
    plan: ServingPlan,
    host: SimulatedHost,
    disk: SimulatedDisk,
    *,
    beside: Callable[[Journal], AbstractAsyncContextManager[None]] = _nothing_beside,
    stop_first: Callable[[], Awaitable[None]] = _nothing_first,
) -> None:
    """Keep the volume and serve it until cancelled (a crash) or until `host.stop_wanted` is set (SIGTERM).

    `beside` is entered while this process owns the volume, `stop_first` awaited before it stops.
    """
    world, chance = host.world, random.Random(host.chance.random())
    log = _silent_log(world)
    tokens = None if plan.rights is None else plan.rights.read_by(host.name)

    @asynccontextmanager
    async def open_one(volume: str, unless_above: int | None) -> AsyncIterator[Journal]:
        around = surroundings(world, host.name, chance)
        async with _opened(disk) as local:
            opening = open_journal(
                volume,
                servers=plan.servers,
                directory=local,
                settings=plan.settings,
                surroundings=around,
                unless_above=unless_above,
            )
            async with opening as journal:
                world.note("took over", f"{host.name} epoch {journal.epoch} at {journal.acknowledged_lsn}")
                if tokens is not None:
                    tokens.owns(journal)
                async with beside(journal):
                    yield journal

    dial = partial(world.dial, source=host.name)
    address = f"{host.name}:{SERVICE_PORT}"
    board = ServerBoard(servers=plan.servers, address=address, log=log, dial=dial)
    answers, standby = partial(is_alive, dial=dial), plan.standby == host.name
    keeper = VolumeKeeper(VOLUME, open_volume=open_one, board=board, is_alive=answers, log=log, standby=standby)
    volumes = VolumeKeepers([keeper], board=board)
    gateway = _gateway(world, volumes, log, tokens or AccessRules(None), identity=chance.randbytes(16))
    if tokens is not None:
        tokens.on_reload = lambda: gateway.reload_access(world.wall_clock())
    await _serve_until_stopped(host, gateway, keeper, world.network.listen(address), stop_first)


async def _serve_until_stopped(
    host: SimulatedHost,
    gateway: Gateway,
    keeper: VolumeKeeper,
    listener: SimulatedListener,
    stop_first: Callable[[], Awaitable[None]],
) -> None:
    world = host.world

    async def talk(stream: SimulatedStream) -> None:
        await world.serve(stream, partial(gateway.talk, peer=stream.connection.hosts[0]))

    async def keep() -> None:
        await keeper.run()
        host.refused_to_start = str(keeper.failure)
        world.note("gave up", f"{host.name} {keeper.failure}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.run)
        nursery.start_soon(accept_all, nursery, listener, talk)
        nursery.start_soon(keep)
        await host.stop_wanted.wait()
        await stop_first()
        listener.close()
        async with trio.open_nursery() as stopping:
            stopping.start_soon(keeper.give_back)
            await gateway.stop()
        world.note("stopped in order", host.name)
        nursery.cancel_scope.cancel()


async def accept_all(
    nursery: trio.Nursery, listener: SimulatedListener, talk: Callable[[SimulatedStream], Awaitable[None]]
) -> None:
    """Start a conversation for each connection, until the listener is closed."""
    with suppress(trio.ClosedResourceError):
        while not listener.closed:
            nursery.start_soon(talk, await listener.accept())


def _gateway(world: World, volumes: VolumeKeepers, log: EventLog, access: AccessRules, *, identity: bytes) -> Gateway:
    return Gateway(
        GatewaySurroundings(
            volumes=volumes,
            access=access,
            log=log,
            metrics=GatewayMetrics(),
            identity=identity,
            wall_clock=world.wall_clock,
        )
    )


@asynccontextmanager
async def _opened(disk: SimulatedDisk) -> AsyncIterator[SimulatedDisk]:
    """A handle of its own for each time that the volume is opened, as `open_disk` gives."""
    handle = disk.another()
    try:
        yield handle
    finally:
        await handle.close()
