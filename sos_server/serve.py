"""The server process: store, service, sockets, metrics and signals put together, and taken apart again in order."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from prometheus_client import CollectorRegistry

from journal.disk.disk import open_disk
from sos_client.declarations import values_of
from sos_client.serving.access import AccessRules
from sos_client.serving.beginning import Exposure, prepare_to_serve
from sos_client.serving.event_log import EventLog, Level
from sos_client.serving.listener import Accepted, Listener, ListenerLimits, allow_connections
from sos_client.serving.running import announce_ready, end_when_told, kept_hangups, reload_and_tell, serve_beside
from sos_client.serving.serving_metrics import ServingMetrics
from sos_client.serving.tls import ServerTls
from sos_client.settings import SettingsError
from sos_client.web.limits import WEB_CONNECTIONS_MAX
from sos_client.web.metrics_text import serve_metrics
from sos_client.wire.codec import encode
from sos_client.wire.errors import ErrorCode
from sos_client.wire.messages import Error
from sos_server.service.metrics import ServerMetrics
from sos_server.service.reloading import fixed_changes, reloaded
from sos_server.service.service import Service
from sos_server.store.object_store import ObjectStore
from sos_server.store.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

    from sos_client.net.addresses import Address
    from sos_server.config import Settings


class RunningServer:
    """What ``serve`` needs to keep in hand while it runs: for reload and stop."""

    def __init__(
        self,
        settings: Settings,
        load_settings: Callable[[], Settings],
        log: EventLog,
        store: ObjectStore,
        nursery: trio.Nursery,
        *,
        access: AccessRules,
        tls: ServerTls | None,
        share_port: bool,
    ) -> None:
        """Binds the address; SettingsError when it cannot be had."""
        self._settings = settings
        self._load_settings = load_settings
        self._log = log
        self._store = store
        self._access = access
        self._tls = tls
        self._all_closed = trio.Event()
        self._service = Service(
            store, log=log, wall_clock=time.time, nursery=nursery, access=access, limits=settings.limits
        )
        self.listener = Listener(
            settings.listen,
            limits=_listener_limits(settings),
            tls=tls,
            log=log,
            too_many=lambda what: encode(Error.because(ErrorCode.LIMIT, what=what)),
            not_tls=lambda reason: encode(Error(code=ErrorCode.PROTOCOL, fields={}, message=reason)),
            share_port=share_port,
        )
        self.traffic = self._service.traffic
        self.registry = CollectorRegistry()
        self.registry.register(ServerMetrics(store, self.traffic, self.listener))
        self.registry.register(ServingMetrics("sos", self.listener, log))

    async def run(self) -> None:
        """Serve until ``stop`` has let the last connection go."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._service.run)
            await self.listener.serve(self._converse)
            self._all_closed.set()
            nursery.cancel_scope.cancel()

    async def stop(self) -> None:
        """Accept nothing more, finish what was begun, acknowledge it; within the time that the settings give."""
        self.listener.stop()
        seconds = self._settings.server.shutdown_seconds
        with trio.move_on_after(seconds) as patience:
            await self._service.stop()
            await self._all_closed.wait()  # peers may still be reading what they were told
        if patience.cancelled_caught:
            left = len(self._service.sessions)
            self._log.warning("left connections behind", connections=left, seconds=seconds)

    def reload(self) -> None:
        """Settings, tokens and certificates again. What is not in order is reported, and stays as it was."""
        reload_and_tell(self._log, "settings", self._reload_settings)
        reload_and_tell(self._log, "tokens", lambda: self._access.reload(self._settings.access.tokens))
        if (tls := self._tls) is not None:
            reload_and_tell(self._log, "TLS", lambda: tls.reload(self._settings.tls))
        self._service.recheck_access()

    def _reload_settings(self) -> None:
        """What can be changed while the server runs. What cannot is named, and stays as it is until a restart."""
        read = self._load_settings()
        settings = reloaded(self._settings, read)
        allow_connections(_listener_limits(settings), besides=WEB_CONNECTIONS_MAX if settings.web else 0)
        if fixed := fixed_changes(self._settings, read):
            self._log.warning("a restart is needed", settings=fixed)
        self._settings = settings
        self._log.least = Level[settings.server.log_level.upper()]
        self.listener.limits = _listener_limits(settings)
        self._service.use_limits(settings.limits)
        self._store.use_settings(store_settings(settings))

    async def _converse(self, accepted: Accepted) -> None:
        await self._service.converse(
            accepted.stream, peer=accepted.peer, transport=accepted.transport, greeted=accepted.greeted
        )


async def serve(
    load_settings: Callable[[], Settings], exit_with_handle: int | None = None, *, share_port: bool = False
) -> None:
    """Run the server until SIGTERM or SIGINT. SettingsError, OSError or RefusedError when it cannot begin.

    Settings are loaded now, and again at each SIGHUP. `exit_with_handle` is a pipe: the server also ends, in the same
    order, when its other end is closed. `share_port`: another process of this user keeps the port.
    """
    with kept_hangups() as hangups:
        await _serve(load_settings, hangups, exit_with_handle, share_port=share_port)


async def _serve(
    load_settings: Callable[[], Settings],
    hangups: AsyncIterable[int],
    exit_with_handle: int | None,
    *,
    share_port: bool,
) -> None:
    settings = load_settings()
    log = EventLog(least=Level[settings.server.log_level.upper()])
    exposure = Exposure(
        tls=settings.tls is not None,
        tokens=settings.access.tokens is not None,
        insecure=settings.server.insecure,
    )
    pages = WEB_CONNECTIONS_MAX if settings.web else 0
    addresses = filter(None, (settings.listen, settings.web))
    prepare_to_serve(addresses, exposure, _listener_limits(settings), besides=pages, exit_with_handle=exit_with_handle)
    access = AccessRules(settings.access.tokens)
    tls = ServerTls(settings.tls) if settings.tls else None
    async with _opened_store(settings, log) as store, trio.open_nursery() as nursery:
        server = RunningServer(
            settings, load_settings, log, store, nursery, access=access, tls=tls, share_port=share_port
        )
        metrics = partial(serve_metrics, settings.metrics, server.registry, log) if settings.metrics else None
        web = partial(_serve_web, settings.web, server, store, access, tls, log) if settings.web else None
        await serve_beside(nursery, log, metrics=metrics, web=web)
        await end_when_told(
            nursery,
            stop=server.stop,
            hangups=hangups,
            reload=server.reload,
            log=log,
            exit_with_handle=exit_with_handle,
        )
        nursery.start_soon(server.run)
        log.info("serving", address=str(server.listener.address), root=str(settings.root), tls=settings.tls is not None)
        announce_ready(server.listener.address)
    log.info("stopped")


async def _serve_web(
    address: Address,
    server: RunningServer,
    store: ObjectStore,
    access: AccessRules,
    tls: ServerTls | None,
    log: EventLog,
    *,
    task_status: trio.TaskStatus[str],
) -> None:
    """Until cancelled. Imports what only this needs."""
    from sos_client.web.endpoint import WebEndpoint
    from sos_server.service.web_source import ServerSource

    source = ServerSource(store, server.traffic, log, address=str(server.listener.address))
    endpoint = WebEndpoint(address, source, server.registry, access=access, log=log, tls=tls)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        task_status.started(endpoint.url)
        await endpoint.serve()


@asynccontextmanager
async def _opened_store(settings: Settings, log: EventLog) -> AsyncIterator[ObjectStore]:
    """The store, its commit loop running; closed (synced, marked clean) at a graceful end, also after cancellation."""
    began = trio.current_time()
    async with AsyncExitStack() as stack:
        try:
            disk = await stack.enter_async_context(open_disk(settings.root, create=True))
        except OSError as error:
            raise SettingsError(f"{settings.root}: cannot be the root: {error.strerror}") from error
        store = await ObjectStore.open(
            disk,
            settings=store_settings(settings),
            wall_clock=time.time,
            report=lambda sentence: log.error("disk failed", what=sentence),
        )
        log.info("store opened", seconds=round(trio.current_time() - began, 3), identity=store.identity)
        for sentence in store.damage:
            log.error("damage found at the start", what=sentence)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            yield store
            await store.close()
            nursery.cancel_scope.cancel()


def store_settings(settings: Settings) -> StoreSettings:
    """What the store is told of them."""
    return StoreSettings(quotas=settings.quotas, **values_of(settings.storage))


def _listener_limits(settings: Settings) -> ListenerLimits:
    limits = settings.limits
    return ListenerLimits(
        connections_max=limits.connections_max,
        connections_per_peer_max=limits.connections_per_peer_max,
        handshake_seconds=limits.handshake_seconds,
    )
