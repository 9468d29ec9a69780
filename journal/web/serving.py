"""`--web` of `sos-journal serve`: the endpoint over the running service."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any

import trio

from journal.service.exposition import registry_of
from journal.web.service_source import ServiceSource
from sos_client.serving.listener import check_exposure
from sos_client.serving.serving_metrics import ServingMetrics
from sos_client.web.endpoint import WebEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.registry import Collector

    from journal.service.serve import RunningService, ServeSettings
    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog


async def serve_web(
    settings: ServeSettings,
    service: RunningService,
    log: EventLog,
    *,
    connectors: Callable[[], dict[str, Any] | None] = lambda: None,
    collectors: Iterable[Collector] = (),
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the page until cancelled. Reports where; SettingsError when it cannot be had, or must not be.

    `connectors`: what a listener beside the service says of its streams; `collectors`: what it counts.
    """
    assert settings.web is not None
    check_exposure(
        settings.web, tls=settings.tls is not None, tokens=settings.tokens is not None, insecure=settings.insecure
    )
    address = settings.advertise or str(service.port.listener.address)
    source = ServiceSource(
        service.keepers,
        service.port.metrics,
        log,
        address=address,
        reachable=settings.advertise or reachable(service.port.listener.address),
        siblings=service.volumes.siblings,
        directory=settings.directory,
        connectors=connectors,
    )
    registry = registry_of(service.port.metrics, service.keepers)
    registry.register(ServingMetrics("sos_journal", service.port.listener, log))
    for collector in collectors:
        registry.register(collector)
    endpoint = WebEndpoint(settings.web, source, registry, access=service.port.access, log=log, tls=service.port.tls)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        task_status.started(endpoint.url)
        await endpoint.serve()


def reachable(address: Address) -> str:
    """The address for a command that is copied: a service that listens everywhere has this host's name."""
    try:
        everywhere = ipaddress.ip_address(address.host).is_unspecified
    except ValueError:
        everywhere = False
    return f"{socket.gethostname()}:{address.port}" if everywhere else str(address)
