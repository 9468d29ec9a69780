"""Metrics as Prometheus reads them: collected once in a while at the most, and of what a token may see.

Also `--metrics`: an address of their own, without tokens, where nothing else is answered.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sos_client.web.http_server import HttpReply, HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog
    from sos_client.web.http_server import HttpRequest
    from sos_client.web.status_source import ViewerSight

METRICS_TYPE: Final = CONTENT_TYPE_LATEST
KEPT_SECONDS: Final = 1.0
"""An answer is given again to whoever asks sooner: it takes the event loop's time, and anybody may ask."""
KEPT_TEXTS_MAX: Final = 16
WHOSE_LABELS: Final = ("volume", "namespace")
"""What is of one volume has its name in one of these labels."""


class MetricsText:
    """What was collected last, as each sight sees it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._texts: dict[ViewerSight | None, bytes] = {}
        self._good_until = -math.inf

    def text(self, sight: ViewerSight | None = None) -> bytes:
        """All of it, or what this sight may see."""
        now = trio.current_time()
        if now >= self._good_until or len(self._texts) > KEPT_TEXTS_MAX:
            self._texts.clear()
            self._good_until = now + KEPT_SECONDS
        if sight is not None and sight.is_whole:
            sight = None
        if sight not in self._texts:
            seen = self._registry if sight is None else _SeenMetrics(self._registry, sight)
            self._texts[sight] = generate_latest(seen)
        return self._texts[sight]


class _SeenMetrics:
    """A registry of which only what names a volume of the sight is there. Sums over all would tell of others'."""

    def __init__(self, registry: CollectorRegistry, sight: ViewerSight) -> None:
        self._registry = registry
        self._sight = sight

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            seen = Metric(family.name, family.documentation, family.type, family.unit)
            seen.samples = [
                sample
                for sample in family.samples
                if any(sample.labels.get(label) in self._sight.names for label in WHOSE_LABELS)
            ]
            if seen.samples:
                yield seen


async def serve_metrics(
    address: Address,
    registry: CollectorRegistry,
    log: EventLog,
    *,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer scrapes until cancelled. Reports the bound address; SettingsError when it cannot be had."""
    metrics = MetricsText(registry)

    async def respond(request: HttpRequest) -> HttpReply:
        if request.path != "/metrics":
            return HttpReply(status=404, body=b"there is only /metrics here\n", is_welcome=True)
        return HttpReply(body=metrics.text(), content_type=METRICS_TYPE, is_welcome=True)

    server = HttpServer(address, respond, log=log)
    task_status.started(server.address)
    await server.serve()
