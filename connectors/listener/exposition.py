"""What a listener counts, as Prometheus gets it (collected only when asked for).

Imported by a listener that is told to give metrics, and by no other: its library takes a tenth of a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from connectors.listener.report import waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from connectors.ingest.ingest_log import IngestLog
    from connectors.listener.sources import Sources
    from connectors.listener.upkeep import Upkeep
    from connectors.registry.stream_registry import StreamRegistry

    Owned = tuple[IngestLog, Upkeep, StreamRegistry | None]


class ListenerCollector(Collector):
    """Of one listener. What is of the volume is missing while it is not ours, which an alert can see."""

    def __init__(self, sources: Sources, volume: Callable[[], Owned | None]) -> None:
        self._sources = sources
        self._volume = volume

    def collect(self) -> Iterable[Metric]:
        sessions = self._sources.sessions
        taken = self._sources.messages + sum(session.messages for session in sessions)
        yield CounterMetricFamily("sos_connector_messages", "Messages taken from sources, not doubled", taken)
        yield _gauge("connections", "Connections of sources", len(sessions))
        yield _gauge("credits", "Messages that sources may send now", sum(session.credits for session in sessions))
        yield _gauge("streams_open", "Streams that a connection has open", len(list(self._sources.streams_in_use())))
        owned = self._volume()
        if owned is not None:
            yield from _of_volume(*owned, no_new_streams=self._sources.no_new_streams)


def _of_volume(
    ingest: IngestLog, upkeep: Upkeep, registry: StreamRegistry | None, *, no_new_streams: str
) -> Iterable[Metric]:
    yield CounterMetricFamily("sos_connector_written_bytes", "Bytes of blocks made durable", ingest.bytes_written)
    seconds = HistogramMetricFamily("sos_connector_commit_seconds", "Time for a commit to be durable on k servers")
    commits = ingest.commit_seconds
    seconds.add_metric([], commits.buckets(), sum_value=commits.total_seconds)
    yield seconds
    yield _gauge("next_sequence", "Messages that ever came", ingest.next_sequence)
    yield _gauge("oldest_sequence", "The first message that is kept", upkeep.oldest_sequence)
    yield _gauge("log_bytes", "Size of the messages that are kept", sum(file.size for file in ingest.files))
    yield _gauge("streams_known", "Streams that ever were", len(ingest.durable.names))
    yield _gauge("waiting_bytes", "Bytes that have come and are not durable", ingest.intake.frames_bytes)
    messages = GaugeMetricFamily("sos_connector_reader_lag_messages", "Messages before a reader", labels=["reader"])
    behind = GaugeMetricFamily("sos_connector_reader_lag_bytes", "Bytes before a reader", labels=["reader"])
    for reader in upkeep.readers:
        messages.add_metric([reader.name], max(0, ingest.next_sequence - reader.needs))
        behind.add_metric([reader.name], upkeep.lag_bytes(reader))
    yield messages
    yield behind
    waiting = GaugeMetricFamily("sos_connector_waiting", "1 for each who waits, and for whom", labels=["who", "for"])
    for wait in waits(ingest, upkeep, registry, no_new_streams=no_new_streams):
        waiting.add_metric([wait["who"], wait["for"]], 1)
    yield waiting


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sos_connector_{name}", meaning, value)
