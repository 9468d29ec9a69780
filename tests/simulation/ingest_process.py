"""The real listener as one simulated process: the journal service of its volume, and sources over simulated streams."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import trio

from connectors.ingest.ingest_log import IngestLog
from connectors.listener.admission import SourceAdmission
from connectors.listener.settings import ProtocolSettings
from connectors.listener.sources import Sources
from sos_client.nurseries import background
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog
from tests.simulation.journal_process import VOLUME, ServingPlan, accept_all, serve_volume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.owner.journal import Journal
    from tests.fakes.simulated_connection import SimulatedStream
    from tests.fakes.simulated_disk import SimulatedDisk
    from tests.simulation.process import SimulatedHost
    from tests.simulation.world import World

SOURCES_PORT: Final = 7431
CREDITS: Final = 12
"""So few that sources run out of them all the time."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """What a listener's socket hands on."""

    stream: trio.abc.Stream
    peer: str
    bytes_moved: int = 0

    @property
    def transport(self) -> _Accepted:
        return self

    def greeted(self) -> None:
        """Nobody gives way here."""


class _ListenerProcess:
    """Sources beside the volume: `ingesting` while it is this process's."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        access = AccessRules(None)
        self.sources = Sources(
            ProtocolSettings(credits=CREDITS, streams_max=8, hello_seconds=2.0),
            EventLog(write=lambda _: None, clock=world.wall_clock),
            SourceAdmission(volume=VOLUME, cookie=b"", access=access, wall_clock=world.wall_clock),
        )

    @asynccontextmanager
    async def ingesting(self, journal: Journal) -> AsyncIterator[None]:
        async with background() as nursery:
            ingest = IngestLog(journal, wall_ms=lambda: int(self._world.wall_clock() * 1000))
            await ingest.open()
            self._world.note("ingest", f"{self._name} from {ingest.next_sequence}")
            nursery.start_soon(ingest.run)
            with self.sources.serving(ingest):
                yield

    async def converse(self, accepted: SimulatedStream) -> None:
        async def talk(stream: trio.abc.Stream) -> None:
            outside: Any = _Accepted(stream, accepted.connection.hosts[0])
            await self.sources.converse(outside)

        await self._world.serve(accepted, talk)


async def serve_listener(plan: ServingPlan, host: SimulatedHost, disk: SimulatedDisk) -> None:
    """Keep the ingest volume, take sources and serve readers until cancelled, or until `host.stop_wanted` is set."""
    process = _ListenerProcess(host.world, host.name)
    listener = host.world.network.listen(f"{host.name}:{SOURCES_PORT}")
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            listener.close()
            await process.sources.stop()

        nursery.start_soon(process.sources.run)
        nursery.start_soon(accept_all, nursery, listener, process.converse)
        await serve_volume(plan, host, disk, beside=process.ingesting, stop_first=stop)
        nursery.cancel_scope.cancel()
