"""The journal service as a process: volumes, gateway, sockets, metrics, signals put together and taken apart in order.

A service takes its volumes over when it starts, and is ready when it has them all, or stands by for them. It ends by
SIGTERM, or with the process that holds the other end of a pipe.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.client.sign_of_life import is_alive
from journal.service.file_port import FilePort
from journal.service.keeper import VolumeKeeper, VolumeKeepers
from journal.takeover.owner_board import ServerBoard
from sos_client.serving.beginning import Exposure, prepare_to_serve
from sos_client.serving.event_log import EventLog
from sos_client.serving.listener import ListenerLimits
from sos_client.serving.running import announce_ready, kept_hangups, serve_beside, until_told
from sos_client.web.limits import WEB_CONNECTIONS_MAX

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from journal.service.keeper import OwnedVolume
    from sos_client.net.addresses import Address
    from sos_client.serving.tls import TlsFiles

    ServeWeb = Callable[..., Awaitable[None]]
    OpenVolume = Callable[[str, int | None], AbstractAsyncContextManager[OwnedVolume]]

_LIMITS: Final = ListenerLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What `sos-journal serve` is told. `token` and `authorities` are for the SOS servers, the rest for the clients."""

    volumes: tuple[str, ...]
    servers: tuple[str, ...]
    directory: Path
    listen: Address
    share_port: bool = False
    advertise: str = ""  # what other services tell clients; the listening address if empty
    metrics: Address | None = None
    web: Address | None = None
    tls: TlsFiles | None = None
    tokens: Path | None = None
    insecure: bool = False
    standby: bool = False
    token: bytes | None = None
    authorities: ssl.SSLContext | None = None
    exit_with_handle: int | None = None
    log: EventLog = field(default_factory=EventLog)


class RunningService:
    """What must be kept in hand while it runs: for reload and stop."""

    def __init__(self, settings: ServeSettings, log: EventLog, open_volume: OpenVolume) -> None:
        """Reads tokens and certificates and binds the address; SettingsError when anything of it is wrong."""
        self._settings = settings
        self._log = log
        self._open_volume = open_volume
        self.keepers: list[VolumeKeeper] = []
        self.volumes: VolumeKeepers
        self.port = FilePort(
            settings.listen,
            self._volumes,
            who="service",
            limits=_LIMITS,
            tls=settings.tls,
            tokens=settings.tokens,
            share_port=settings.share_port,
            log=log,
        )

    def _volumes(self, address: Address) -> VolumeKeepers:
        settings = self._settings
        board = ServerBoard(
            servers=settings.servers,
            address=settings.advertise or str(address),
            log=self._log,
            token=settings.token,
            tls=settings.authorities,
            insecure=settings.insecure,
        )
        self.keepers = [
            VolumeKeeper(
                name,
                open_volume=self._open_volume,
                board=board,
                is_alive=is_alive,
                log=self._log,
                standby=settings.standby,
            )
            for name in settings.volumes
        ]
        self.volumes = VolumeKeepers(self.keepers, board=board)
        return self.volumes

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until `stop`. Calls `ready` when every volume is settled; raises why one can never be."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.port.watch)
            for keeper in self.keepers:
                nursery.start_soon(keeper.run)
            nursery.start_soon(self._announce, ready)
            await self.port.serve()
            nursery.cancel_scope.cancel()

    async def stop(self) -> None:
        """Accept nothing more, let standbys have the volumes, answer what was asked, within a bounded time."""
        self.port.listener.stop()
        async with trio.open_nursery() as nursery:
            for keeper in self.keepers:
                nursery.start_soon(keeper.give_back)
            await self.port.stop()

    async def _announce(self, ready: Callable[[], None]) -> None:
        for keeper in self.keepers:
            await keeper.settled.wait()
            if keeper.failure is not None:
                raise keeper.failure
        ready()


async def serve(settings: ServeSettings, open_volume: OpenVolume, serve_web: ServeWeb | None = None) -> None:
    """Serve until told to stop. SettingsError or JournalError (in a group) when it cannot begin.

    `serve_web` serves the page, if the settings name an address for it.
    """
    log = settings.log
    exposure = Exposure(tls=settings.tls is not None, tokens=settings.tokens is not None, insecure=settings.insecure)
    pages = WEB_CONNECTIONS_MAX if settings.web else 0
    prepare_to_serve([settings.listen], exposure, _LIMITS, besides=pages, exit_with_handle=settings.exit_with_handle)
    with kept_hangups() as hangups:
        service = RunningService(settings, log, open_volume)
        async with until_told(
            stop=service.stop,
            hangups=hangups,
            reload=service.port.reload,
            log=log,
            exit_with_handle=settings.exit_with_handle,
        ) as nursery:
            metrics = partial(serve_metrics_of, settings.metrics, service, log) if settings.metrics else None
            web = partial(serve_web, settings, service, log) if settings.web and serve_web else None
            await serve_beside(nursery, log, metrics=metrics, web=web)
            address = service.port.listener.address
            log.info("serving", address=str(address), volumes=settings.volumes, tls=settings.tls is not None)

            def ready() -> None:
                gc.freeze()  # what a service has when it begins, it keeps
                announce_ready(address)

            await service.run(ready)


async def serve_metrics_of(
    address: Address, service: RunningService, log: EventLog, *, task_status: trio.TaskStatus[Address]
) -> None:
    """Imports what only this needs, a tenth of a start."""
    from journal.service.exposition import registry_of
    from sos_client.serving.serving_metrics import ServingMetrics
    from sos_client.web.metrics_text import serve_metrics

    registry = registry_of(service.port.metrics, service.keepers)
    registry.register(ServingMetrics("sos_journal", service.port.listener, log))
    await serve_metrics(address, registry, log, task_status=task_status)
