"""The real store, service and sessions as one simulated process; only disk, network, clock and chance are not real."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import trio

from sos_client.net.plain_stream import PlainStream
from sos_client.serving.event_log import EventLog
from sos_client.wire.errors import DamagedError
from sos_server.service.service import Service
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.store.log_files import FILE_RESERVE_BYTES
from sos_server.store.object_store import ObjectStore
from sos_server.store.settings import StoreSettings

if TYPE_CHECKING:
    from tests.fakes.simulated_connection import SimulatedStream
    from tests.fakes.simulated_disk import SimulatedDisk
    from tests.simulation.process import SimulatedHost

PAYLOAD_BYTES_MAX: Final = 16 << 10
BATCH_BYTES_MAX: Final = 16 << 10
RUN_BYTES_MAX: Final = 32 << 10


RUN_LOG_PARTS: Final = (0.0, 0.0, 0.25)
"""From when on there are runs: always, or when a third of the log is full."""


def store_settings(run_log_part: float = 0.25, *, accept_log_damage: bool = False) -> StoreSettings:
    """Everything as small as the store allows, so that a short run goes around its log many times.

    Much of one append is a block: with a part of 0 nearly every append that is in a hurry has runs.
    """
    sizes = StoreSettings(batch_bytes_max=BATCH_BYTES_MAX, append_bytes_max=PAYLOAD_BYTES_MAX)
    file_bytes = sizes.buffer_bytes + FILE_RESERVE_BYTES + (16 << 10)
    return StoreSettings(
        batch_bytes_max=BATCH_BYTES_MAX,
        append_bytes_max=PAYLOAD_BYTES_MAX,
        log_file_bytes_first=file_bytes,
        log_file_bytes_max=file_bytes,
        log_bytes_max=3 * file_bytes,
        copy_bytes_max=2 * file_bytes,
        run_log_part=run_log_part,
        run_bytes_min=BLOCK_BYTES,
        run_bytes_max=RUN_BYTES_MAX,
        idle_copy_seconds=0.4,
        reserve_bytes=64 << 10,
        accept_log_damage=accept_log_damage,
    )


async def serve(host: SimulatedHost, disk: SimulatedDisk) -> None:
    """Open the store and serve until cancelled (a crash) or until `host.stop_wanted` is set (SIGTERM)."""
    world = host.world
    log = EventLog(write=lambda _: None, clock=world.wall_clock)
    try:
        store = await ObjectStore.open(
            disk,
            settings=store_settings(host.chance.choice(RUN_LOG_PARTS), accept_log_damage=host.accepts_log_damage),
            wall_clock=world.wall_clock,
            random_bytes=host.chance.randbytes,
        )
    except DamagedError as error:
        world.note("refused to start", f"{host.name} {error}")
        host.refused_to_start = str(error)
        return
    try:
        await _converse(host, disk, store, log)
    finally:
        world.counts["bytes of runs"] += store.statistics.straight_bytes


async def _converse(host: SimulatedHost, disk: SimulatedDisk, store: ObjectStore, log: EventLog) -> None:
    world = host.world
    async with trio.open_nursery() as nursery:
        service = Service(store, log=log, wall_clock=world.wall_clock, nursery=nursery)
        nursery.start_soon(store.run)
        nursery.start_soon(service.run)
        listener = world.network.listen(f"{host.name}:7400")

        async def converse(accepted: SimulatedStream) -> None:
            async def talk(stream: trio.abc.Stream) -> None:
                transport = stream if isinstance(stream, PlainStream) else None
                await service.converse(stream, peer=accepted.connection.hosts[0], transport=transport)

            await world.serve(accepted, talk)

        async def accept() -> None:
            with contextlib.suppress(trio.ClosedResourceError):
                while True:
                    nursery.start_soon(converse, await listener.accept())

        nursery.start_soon(accept)
        world.note("serving", host.name)
        await host.stop_wanted.wait()
        listener.close()
        with trio.move_on_after(10):
            await service.stop()
        await store.close()
        await disk.close()
        world.note("stopped", host.name)
        nursery.cancel_scope.cancel()
