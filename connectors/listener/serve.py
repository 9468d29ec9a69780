"""The listener as a process: the ingest volume and its files (a journal service), and the port for source connectors.

The volume is taken over as `sos-journal serve` takes one over, a standby included; sources are taken while it is ours.
"""

from __future__ import annotations

import contextlib
import gc
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from connectors.ingest.ingest_log import IngestLog
from connectors.ingest.retention import MessageRetention
from connectors.listener.admission import SourceAdmission
from connectors.listener.report import listener_report
from connectors.listener.reporting_volume import ReportingVolume
from connectors.listener.sources import Sources, farewell
from connectors.listener.upkeep import Upkeep
from connectors.registry.stream_registry import StreamRegistry
from journal.gateway.client.client import ClientSettings, open_volume
from journal.service.serve import RunningService
from sos_client.nurseries import background
from sos_client.serving.access import AccessRules
from sos_client.serving.beginning import Exposure, prepare_to_serve
from sos_client.serving.listener import Listener, ListenerLimits
from sos_client.serving.running import announce, kept_hangups, serve_beside, until_told
from sos_client.serving.tls import ServerTls
from sos_client.settings import SettingsError
from sos_client.web.limits import WEB_CONNECTIONS_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from connectors.listener.settings import ProtocolSettings
    from journal.gateway.client.client import RemoteVolume
    from journal.service.keeper import OwnedVolume
    from journal.service.serve import OpenVolume, ServeSettings, ServeWeb
    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog

_LIMITS: Final = ListenerLimits()

REGISTRY_SECONDS: Final = 10.0
"""How long a question to the registry may take before `status` says who is waited for. It is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPlace:
    """The volume in which several listeners claim streams, and where it is served. Token and TLS as for the servers."""

    volume: str
    services: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSettings:
    """What `sos-connector listen` is told. `files` is the journal service of the ingest volume."""

    files: ServeSettings
    listen: Address
    protocol: ProtocolSettings
    retention: MessageRetention = field(default_factory=MessageRetention)
    registry: RegistryPlace | None = None


class RunningListener:
    """What must be kept in hand while it runs: for reload and stop."""

    def __init__(self, settings: ListenSettings, log: EventLog, open_volume: OpenVolume) -> None:
        """Reads tokens and certificates and binds both addresses; SettingsError when anything of it is wrong."""
        self._settings = settings
        self._log = log
        self._open_volume = open_volume
        files = settings.files
        admission = SourceAdmission(
            volume=files.volumes[0],
            cookie=settings.protocol.cookie,
            access=AccessRules(files.tokens),
            wall_clock=time.time,
        )
        self.sources = Sources(settings.protocol, log, admission)
        self.owned: tuple[IngestLog, Upkeep, StreamRegistry | None] | None = None
        """While the volume is this process's."""
        self._report: Callable[[], dict[str, Any]] | None = None
        self._drained = trio.Event()
        self._drained_to = ""
        self._tls = ServerTls(settings.files.tls) if settings.files.tls else None
        self.listener = Listener(
            settings.listen,
            limits=_LIMITS,
            tls=self._tls,
            log=log,
            too_many=lambda _what: b"",  # a reason would be for good, and this passes
            not_tls=farewell,
        )
        self.service = RunningService(settings.files, log, self._opened)

    @property
    def files(self) -> ServeSettings:
        """What its service is told."""
        return self._settings.files

    async def run(self) -> None:
        """Serve until `stop`. Says where when the volume is settled; raises why it can never be."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.sources.run)
            nursery.start_soon(self.listener.serve, self.sources.converse)
            nursery.start_soon(self._end_when_drained, nursery.cancel_scope)
            await self.service.run(self._ready)
            nursery.cancel_scope.cancel()

    async def stop(self, address: str = "") -> None:
        """Take nobody more, send the sources away, let a standby have the volume; within a bounded time."""
        self.listener.stop()
        await self.sources.stop(address)
        await self.service.stop()

    def report(self) -> dict[str, Any] | None:
        """For the page; None while the volume is not this process's."""
        return None if self._report is None else self._report()

    def _drain(self, address: str) -> None:
        self._drained_to = address
        self._drained.set()

    async def _end_when_drained(self, scope: trio.CancelScope) -> None:
        await self._drained.wait()
        self._log.audit("drained", to=self._drained_to)
        with trio.CancelScope(shield=True):  # or what stops first would end it, before a standby is told
            await self.stop(self._drained_to)
        scope.cancel()

    def reload(self) -> None:
        """Tokens and certificates again."""
        self.service.port.reload()
        for load in (self.sources.reload, *([self._tls.reload] if self._tls is not None else [])):
            with contextlib.suppress(SettingsError):  # the service has said what is wrong with the same files
                load()

    @asynccontextmanager
    async def _opened(self, volume: str, unless_above: int | None) -> AsyncIterator[OwnedVolume]:
        async with AsyncExitStack() as stack:
            journal = await stack.enter_async_context(self._open_volume(volume, unless_above))
            shared = await stack.enter_async_context(self._registry_volume())
            nursery = await stack.enter_async_context(background())
            ingest = IngestLog(journal, wall_ms=wall_ms)
            await ingest.open()
            self._log.info(
                "ingest", volume=volume, next_sequence=ingest.next_sequence, streams=len(ingest.durable.names)
            )
            upkeep = Upkeep(
                journal, ingest, self._settings.retention, now_ms=journal.now_ms, log=self._log, drain=self._drain
            )
            await upkeep.look()
            nursery.start_soon(ingest.run)
            nursery.start_soon(upkeep.run)
            registry = None
            if shared is not None:
                points = dict(ingest.durable.points)
                registry = StreamRegistry(shared, listener=volume, epoch=journal.epoch, points=points)
                nursery.start_soon(registry.run)

            def report() -> dict[str, Any]:
                return listener_report(
                    volume=volume,
                    epoch=journal.epoch,
                    now_ms=wall_ms(),
                    address=str(self.listener.address),
                    sources=self.sources,
                    ingest=ingest,
                    upkeep=upkeep,
                    registry=registry,
                )

            self.owned = ingest, upkeep, registry
            self._report = report
            try:
                with self.sources.serving(ingest, registry):
                    yield cast("OwnedVolume", ReportingVolume(journal, report))
            finally:
                self.owned = self._report = None

    @asynccontextmanager
    async def _registry_volume(self) -> AsyncIterator[RemoteVolume | None]:
        place, files = self._settings.registry, self._settings.files
        if place is None:
            yield None
            return
        async with open_volume(
            place.services,
            place.volume,
            token=files.token,
            tls=files.authorities,
            insecure=files.insecure,
            client_name="sos-connector",
            settings=ClientSettings(seconds=REGISTRY_SECONDS),
        ) as shared:
            yield shared

    def _ready(self) -> None:
        gc.freeze()  # what a listener has when it begins, it keeps
        announce(f"files {self.service.port.listener.address}")
        announce(f"ready {self.listener.address}")


async def _serve_metrics(
    address: Address, running: RunningListener, log: EventLog, *, task_status: trio.TaskStatus[Address]
) -> None:
    """Imports what only this needs, a tenth of a start."""
    from connectors.listener.exposition import ListenerCollector
    from journal.service.exposition import registry_of
    from sos_client.serving.serving_metrics import ServingMetrics
    from sos_client.web.metrics_text import serve_metrics

    registry = registry_of(running.service.port.metrics, running.service.keepers)
    registry.register(ServingMetrics("sos_journal", running.service.port.listener, log))
    registry.register(ListenerCollector(running.sources, lambda: running.owned))
    await serve_metrics(address, registry, log, task_status=task_status)


async def _serve_web(
    serve_web: ServeWeb, running: RunningListener, log: EventLog, *, task_status: trio.TaskStatus[str]
) -> None:
    """The page of the files' service, with what the listener says of itself."""
    from connectors.listener.exposition import ListenerCollector

    collectors = [ListenerCollector(running.sources, lambda: running.owned)]
    files, service = running.files, running.service
    await serve_web(files, service, log, connectors=running.report, collectors=collectors, task_status=task_status)


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


async def listen(settings: ListenSettings, open_volume: OpenVolume, serve_web: ServeWeb | None = None) -> None:
    """Serve until told to stop. SettingsError or JournalError (in a group) when it cannot begin.

    `serve_web` serves the page, if the settings name an address for it.
    """
    files = settings.files
    log = files.log
    exposure = Exposure(tls=files.tls is not None, tokens=files.tokens is not None, insecure=files.insecure)
    others = _LIMITS.connections_max + (WEB_CONNECTIONS_MAX if files.web else 0)  # those of the files' listener, pages
    addresses = (files.listen, settings.listen)
    prepare_to_serve(addresses, exposure, _LIMITS, besides=others, exit_with_handle=files.exit_with_handle)
    with kept_hangups() as hangups:
        running = RunningListener(settings, log, open_volume)
        async with until_told(
            stop=running.stop,
            hangups=hangups,
            reload=running.reload,
            log=log,
            exit_with_handle=files.exit_with_handle,
        ) as nursery:
            metrics = partial(_serve_metrics, files.metrics, running, log) if files.metrics else None
            web = partial(_serve_web, serve_web, running, log) if files.web and serve_web else None
            await serve_beside(nursery, log, metrics=metrics, web=web)
            log.info(
                "listening", address=str(running.listener.address), files=str(running.service.port.listener.address)
            )
            await running.run()
