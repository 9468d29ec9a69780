"""What a service counts, and how its volumes stand, as Prometheus gets it (collected only when asked for).

Imported by a service that is told to give metrics, and by no other: its library takes a tenth of a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from journal.errors import JournalCode
from journal.gateway.wire.messages import FileMessageType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from journal.gateway.metrics import GatewayMetrics
    from journal.service.keeper import VolumeKeeper


def registry_of(metrics: GatewayMetrics, keepers: Iterable[VolumeKeeper]) -> CollectorRegistry:
    """All that one service tells."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(metrics))
    registry.register(VolumeCollector(keepers))
    return registry


class GatewayCollector(Collector):
    """What the gateway has counted."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        metrics = self._metrics
        seconds = HistogramMetricFamily(
            "sos_journal_request_seconds", "Time from a request's last byte to its answer", labels=["request"]
        )
        for code, histogram in metrics.seconds.items():
            if any(histogram.counts):
                seconds.add_metric(
                    [FileMessageType(code).name.lower()], histogram.buckets(), sum_value=histogram.total_seconds
                )
        yield seconds
        refusals = CounterMetricFamily("sos_journal_refusals", "Requests refused, by error code", labels=["code"])
        for code, count in metrics.refusals.items():
            refusals.add_metric([JournalCode(code).name.lower()], count)
        yield refusals
        moved = CounterMetricFamily("sos_journal_gateway_bytes", "Bytes received and sent", labels=["direction"])
        moved.add_metric(["in"], metrics.bytes_in)
        moved.add_metric(["out"], metrics.bytes_out)
        yield moved
        yield GaugeMetricFamily("sos_journal_connections", "Open connections", value=metrics.connections())


class VolumeCollector(Collector):
    """How the volumes stand. One that the service does not own is missing, which an alert can see."""

    def __init__(self, keepers: Iterable[VolumeKeeper]) -> None:
        self._keepers = tuple(keepers)

    def collect(self) -> Iterable[Metric]:
        owned = _family("owned", "1 if this service owns the volume")
        numbers = {
            "epoch": _family("epoch", "Number of this ownership"),
            "written_lsn": _family("written_lsn_bytes", "End of the log"),
            "acknowledged_lsn": _family("acknowledged_lsn_bytes", "End of what k members have synced"),
            "oldest_lsn": _family("oldest_lsn_bytes", "Beginning of what is retained"),
            "files": _family("files", "Files in the tree"),
            "tree_bytes": _family("tree_bytes", "What files, directories and claims take in memory"),
            "may_lose": _family("may_lose", "Members that may still go before writes stop; negative: they have"),
        }
        in_sync = _family("member_in_sync", "1 if the member counts towards the quorum", "member")
        lag = _family("member_lag_bytes", "Written bytes that the member has not synced", "member")
        uncleaned = _family("member_uncleaned", "1 if what retention has given up could not be deleted there", "member")
        committed = GaugeMetricFamily(
            "sos_journal_query_committed_seconds",
            "When the query has committed its last batch, in seconds since 1970",
            labels=["volume", "query"],
        )
        for keeper in self._keepers:
            statistics = keeper.statistics()
            owned.add_metric([keeper.name], statistics is not None)
            if statistics is None:
                continue
            for name, family in numbers.items():
                family.add_metric([keeper.name], getattr(statistics, name))
            if keeper.owned_volume is not None:
                for query, committed_ms in keeper.owned_volume.query_commits().items():
                    committed.add_metric([keeper.name, query or "/"], committed_ms / 1000)
            for member in statistics.members:
                in_sync.add_metric([keeper.name, member.address], member.in_sync)
                lag.add_metric([keeper.name, member.address], member.lag_bytes)
                uncleaned.add_metric([keeper.name, member.address], member.uncleaned)
        return [owned, *numbers.values(), in_sync, lag, uncleaned, committed]


def _family(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sos_journal_volume_{name}", meaning, labels=["volume", *labels])
