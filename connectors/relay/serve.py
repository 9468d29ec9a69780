"""The relay as a process: the file protocol's port, the spool, the queries; started and ended in order."""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from connectors.relay.relay import Relay
from connectors.relay.relay_volume import RelayVolume, RelayVolumes
from connectors.relay.spool import Spool
from connectors.sink.locking import locked
from journal.service.file_port import FilePort
from sos_client.net.dialing import tcp_dial
from sos_client.serving.beginning import Exposure, prepare_to_serve
from sos_client.serving.event_log import EventLog, Level
from sos_client.serving.listener import ListenerLimits
from sos_client.serving.running import announce_ready, kept_hangups, serve_beside, until_told
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from connectors.relay.settings import RelaySettings
    from sos_client.net.addresses import Address

_LIMITS: Final = ListenerLimits()
"""A connection for each task that runs at the same time."""


class RunningRelay:
    """What must be kept in hand while it runs: for reload and stop."""

    def __init__(self, settings: RelaySettings, log: EventLog) -> None:
        """Reads tokens and certificates, makes the spool, binds the address; SettingsError when anything is wrong."""
        try:
            spool = Spool(settings.spool, bytes_max=settings.spool_bytes_max)
        except OSError as error:
            raise SettingsError(f"the spool in {settings.spool} cannot be used: {error.strerror or error}") from error
        self.relay = Relay(settings, spool, dial=tcp_dial(settings.sink_tls), log=log)
        self.port = FilePort(
            settings.listen,
            lambda _: RelayVolumes(RelayVolume(self.relay, wall_ms=lambda: int(time.time() * 1000))),
            who="relay",
            limits=_LIMITS,
            tls=settings.tls,
            tokens=settings.tokens,
            share_port=settings.share_port,
            log=log,
        )

    async def run(self) -> None:
        """Serve until `stop`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.port.watch)
            nursery.start_soon(self.relay.run)
            gc.freeze()
            announce_ready(self.port.listener.address)
            await self.port.serve()
            nursery.cancel_scope.cancel()

    async def stop(self) -> None:
        """Accept nothing more; whoever waits for a batch is told to ask the next relay."""
        self.port.listener.stop()
        self.relay.stop()
        await self.port.stop()


async def serve_relay(settings: RelaySettings) -> None:
    """Serve until told to stop. SettingsError (in a group) when it cannot begin."""
    log = EventLog(least=Level[settings.log_level.upper()])
    exposure = Exposure(tls=settings.tls is not None, tokens=settings.tokens is not None, insecure=settings.insecure)
    prepare_to_serve([settings.listen], exposure, _LIMITS, exit_with_handle=settings.exit_with_handle)
    with kept_hangups() as hangups:
        async with locked(settings.spool, f"the spool in {settings.spool}"):
            running = RunningRelay(settings, log)
            async with until_told(
                stop=running.stop,
                hangups=hangups,
                reload=running.port.reload,
                log=log,
                exit_with_handle=settings.exit_with_handle,
            ) as nursery:
                metrics = partial(_serve_metrics, settings.metrics, running, log) if settings.metrics else None
                await serve_beside(nursery, log, metrics=metrics)
                log.info("serving", address=str(running.port.listener.address), spool=str(settings.spool))
                await running.run()


async def _serve_metrics(
    address: Address, running: RunningRelay, log: EventLog, *, task_status: trio.TaskStatus[Address]
) -> None:
    """Imports what only this needs, a tenth of a start."""
    from connectors.relay.exposition import registry_of
    from sos_client.serving.serving_metrics import ServingMetrics
    from sos_client.web.metrics_text import serve_metrics

    registry = registry_of(running.relay, running.port.metrics)
    registry.register(ServingMetrics("sos_relay", running.port.listener, log))
    await serve_metrics(address, registry, log, task_status=task_status)
