"""The journal service as a process: volumes, gateway, sockets, metrics, signals put together and taken apart in order.

A service takes its volumes over when it starts, and is ready when it has them all, or stands by for them. It ends by
SIGTERM, or with the process that holds the other end of a pipe.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode
from journal.gateway.client.sign_of_life import is_alive
from journal.gateway.conversation import GatewaySurroundings
from journal.gateway.gateway import Gateway, farewell
from journal.gateway.metrics import GatewayMetrics
from journal.gateway.wire.limits import INSTANCE_BYTES
from journal.service.keeper import VolumeKeeper, VolumeKeepers
from journal.takeover.owner_board import ServerBoard
from sos_client.serving.access import AccessRules
from sos_client.serving.event_log import EventLog
from sos_client.serving.interpreter import tune_for_serving
from sos_client.serving.listener import Listener, ListenerLimits, allow_connections, check_exposure
from sos_client.serving.parent_pipe import check_pipe
from sos_client.serving.running import announce_ready, end_when_told, kept_hangups
from sos_client.serving.tls import ServerTls, TlsFiles
from sos_client.settings import SettingsError
from sos_client.web.limits import WEB_CONNECTIONS_MAX

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from journal.service.keeper import OwnedVolume
    from sos_client.net.addresses import Address

    ServeWeb = Callable[..., Awaitable[None]]
    OpenVolume = Callable[[str, int | None], AbstractAsyncContextManager[OwnedVolume]]

_LIMITS: Final = ListenerLimits(connections_max=4096, connections_per_peer_max=2048, handshake_seconds=10.0)


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
        self._log = log
        self.access = AccessRules(settings.tokens)
        self.tls = ServerTls(settings.tls) if settings.tls else None
        self.listener = Listener(
            settings.listen,
            limits=_LIMITS,
            tls=self.tls,
            log=log,
            too_many=lambda what: farewell(JournalCode.LIMIT, f"all {what} of this service are in use; try again"),
            not_tls=lambda reason: farewell(JournalCode.PROTOCOL, reason),
            share_port=settings.share_port,
        )
        board = ServerBoard(
            servers=settings.servers,
            address=settings.advertise or str(self.listener.address),
            log=log,
            token=settings.token,
            tls=settings.authorities,
            insecure=settings.insecure,
        )
        self.keepers = [
            VolumeKeeper(
                name, open_volume=open_volume, board=board, is_alive=is_alive, log=log, standby=settings.standby
            )
            for name in settings.volumes
        ]
        self.metrics = GatewayMetrics(connections=lambda: self.gateway.connections)
        self.gateway = Gateway(
            GatewaySurroundings(
                volumes=VolumeKeepers(self.keepers),
                access=self.access,
                log=log,
                metrics=self.metrics,
                identity=os.urandom(INSTANCE_BYTES),
                wall_clock=time.time,
            )
        )

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until `stop`. Calls `ready` when every volume is settled; raises why one can never be."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.gateway.run)
            for keeper in self.keepers:
                nursery.start_soon(keeper.run)
            nursery.start_soon(self._announce, ready)
            await self.listener.serve(self.gateway.converse)
            nursery.cancel_scope.cancel()

    async def stop(self) -> None:
        """Accept nothing more, let standbys have the volumes, answer what was asked, within a bounded time."""
        self.listener.stop()
        async with trio.open_nursery() as nursery:
            for keeper in self.keepers:
                nursery.start_soon(keeper.give_back)
            await self.gateway.stop()

    def reload(self) -> None:
        """Tokens and certificates again. What is not in order is reported, and stays as it was."""
        for what, load in (("tokens", self.access.reload), ("TLS", self.tls.reload if self.tls else None)):
            if load is None:
                continue
            try:
                load()
            except SettingsError as error:
                self._log.error("reload failed", what=what, reason=str(error))
            else:
                self._log.audit("reloaded", what=what)
        self.gateway.reload_access(time.time())

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
    tune_for_serving()
    log = settings.log
    check_exposure(
        settings.listen,
        tls=settings.tls is not None,
        tokens=settings.tokens is not None,
        insecure=settings.insecure,
    )
    if settings.exit_with_handle is not None:
        check_pipe(settings.exit_with_handle)
    allow_connections(_LIMITS, besides=WEB_CONNECTIONS_MAX if settings.web else 0)
    with kept_hangups() as hangups:
        service = RunningService(settings, log, open_volume)
        async with trio.open_nursery() as nursery:
            await end_when_told(
                nursery,
                stop=service.stop,
                hangups=hangups,
                reload=service.reload,
                log=log,
                exit_with_handle=settings.exit_with_handle,
            )
            if settings.metrics is not None:
                where = await nursery.start(serve_metrics_of, settings.metrics, service, log)
                log.info("metrics", address=str(where))
            if settings.web is not None and serve_web is not None:
                log.info("web", address=await nursery.start(serve_web, settings, service, log))
            address = service.listener.address
            log.info("serving", address=str(address), volumes=settings.volumes, tls=settings.tls is not None)

            def ready() -> None:
                gc.freeze()  # what a service has when it begins, it keeps
                announce_ready(address)

            await service.run(ready)
    log.info("stopped")


async def serve_metrics_of(
    address: Address, service: RunningService, log: EventLog, *, task_status: trio.TaskStatus[Address]
) -> None:
    """Imports what only this needs, a tenth of a start."""
    from journal.service.exposition import registry_of
    from sos_client.serving.serving_metrics import ServingMetrics
    from sos_client.web.metrics_text import serve_metrics

    registry = registry_of(service.metrics, service.keepers)
    registry.register(ServingMetrics("sos_journal", service.listener, log))
    await serve_metrics(address, registry, log, task_status=task_status)
