"""What a relay counts, as Prometheus gets it. Imported by a relay that is told to give metrics, and by no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from connectors.relay.coordinator import SinkStanding
from journal.service.exposition import GatewayCollector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from connectors.relay.relay import Relay
    from journal.gateway.metrics import GatewayMetrics

_QUERY: Final = ("query", "checkpoint")
"""A fork has the id of its original, and another checkpoint."""
_SINK: Final = (*_QUERY, "sink")


def registry_of(relay: Relay, metrics: GatewayMetrics) -> CollectorRegistry:
    """All that one relay tells."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(metrics))
    registry.register(RelayCollector(relay))
    return registry


class RelayCollector(Collector):
    """Batches, spool, and how the sinks stand."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def collect(self) -> Iterable[Metric]:
        relay = self._relay
        yield CounterMetricFamily("sos_relay_batches_committed", "Batches that are at all sinks", relay.commits)
        yield CounterMetricFamily("sos_relay_batches_failed", "Batches that were given up", relay.failures)
        yield GaugeMetricFamily("sos_relay_spool_bytes", "Bytes that are staged", relay.spool.bytes)
        yield GaugeMetricFamily("sos_relay_spool_bytes_max", "Bytes that may be staged", relay.spool.bytes_max)
        in_doubt = GaugeMetricFamily("sos_relay_in_doubt", "1 while a transaction is not ended", labels=_QUERY)
        refused = CounterMetricFamily("sos_relay_votes_to_abort", "Votes of sinks to abort", labels=_QUERY)
        away = GaugeMetricFamily("sos_relay_sink_away", "1 while a sink is not connected", labels=_SINK)
        sent = CounterMetricFamily("sos_relay_sink_bytes", "Bytes sent to a sink", labels=_SINK)
        for query in relay.open_queries:
            which = [query.query, query.checkpoint]
            in_doubt.add_metric(which, bool(query.transaction))
            refused.add_metric(which, query.refused_transactions)
            for number, link in enumerate(query.links):
                away.add_metric([*which, link.address], query.standing(number) is SinkStanding.AWAY)
                sent.add_metric([*which, link.address], link.bytes_sent)
        yield from (in_doubt, refused, away, sent)
