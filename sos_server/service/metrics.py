"""What the server counts, and how Prometheus sees it. docs/operations.md lists every metric.

The hot path counts in plain integers; they become metrics only when somebody scrapes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from sos_server.store.statistics import SYNC_SECONDS_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from sos_client.wire.errors import ErrorCode
    from sos_server.store.object_store import ObjectStore


NAMESPACES_SHOWN: Final = 500
"""The largest: all 50,000 that somebody made held up the event loop for 0.7 s a scrape."""


class Traffic:
    """What went over the connections, in all, since the start."""

    __slots__ = ("appended_bytes", "appends", "read_bytes", "refusals", "sessions")

    def __init__(self) -> None:
        self.appends = 0
        self.appended_bytes = 0
        self.read_bytes = 0
        self.sessions = 0
        self.refusals: Counter[str] = Counter()

    def refused(self, code: ErrorCode) -> None:
        self.refusals[code.name] += 1


class Connections(Protocol):
    """What the listener counts."""

    connections: int
    refused_connections: int


class ServerMetrics(Collector):
    """Everything that can be scraped, read from where it is counted."""

    def __init__(self, store: ObjectStore, traffic: Traffic, connections: Connections) -> None:
        self._store = store
        self._traffic = traffic
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        yield from self._of_connections()
        yield from self._of_store()
        yield from self._of_namespaces()

    def _of_connections(self) -> Iterable[Metric]:
        traffic, listener = self._traffic, self._connections
        yield GaugeMetricFamily("sos_connections", "Connections now.", listener.connections)
        yield CounterMetricFamily("sos_sessions", "Connections served since the start.", traffic.sessions)
        yield CounterMetricFamily(
            "sos_connections_refused", "Connections turned away by a limit.", listener.refused_connections
        )
        yield CounterMetricFamily("sos_appends", "DATA frames taken.", traffic.appends)
        yield CounterMetricFamily("sos_appended_bytes", "Bytes taken in DATA frames.", traffic.appended_bytes)
        yield CounterMetricFamily("sos_read_bytes", "Bytes sent in answer to GET.", traffic.read_bytes)
        refusals = CounterMetricFamily("sos_refused", "Requests and connections refused.", labels=["code"])
        for code, count in sorted(traffic.refusals.items()):
            refusals.add_metric([code], count)
        yield refusals

    def _of_store(self) -> Iterable[Metric]:
        statistics = self._store.statistics
        buckets, total = [], 0
        for bound, count in zip([*SYNC_SECONDS_BOUNDS, "+Inf"], statistics.sync_seconds_buckets, strict=True):
            total += count
            buckets.append((str(bound), total))
        yield HistogramMetricFamily(
            "sos_sync_seconds", "Write and fdatasync of a commit.", buckets=buckets, sum_value=statistics.sync_seconds
        )
        for name, meaning, amount in (
            ("sos_free_bytes", "Room on the disk, as last seen.", self._store.space.free_bytes),
            (
                "sos_log_kept_bytes",
                "Bytes of the commit log that are not copied.",
                self._store.log.files.uncopied_bytes(),
            ),
            ("sos_refusing_appends", "1 while every append is refused.", int(self._store.refuses_appends)),
        ):
            yield GaugeMetricFamily(name, meaning, amount)
        for name, meaning, value in (
            ("sos_commits", "Group commits.", statistics.commits),
            ("sos_commit_entries", "Appends and changes in group commits.", statistics.entries),
            ("sos_log_bytes", "Bytes written to the commit log.", statistics.log_bytes),
            ("sos_copied_bytes", "Bytes copied from the commit log to objects.", statistics.copied_bytes),
            ("sos_straight_bytes", "Bytes of long appends written straight to objects.", statistics.straight_bytes),
            ("sos_failed_syncs", "Commits that the disk failed.", statistics.failed_syncs),
            ("sos_failed_copies", "Copies to objects that the disk failed.", statistics.failed_copies),
            ("sos_damaged_reads", "Reads that found damage.", statistics.damaged_reads),
        ):
            yield CounterMetricFamily(name, meaning, value)

    def _of_namespaces(self) -> Iterable[Metric]:
        stored = GaugeMetricFamily("sos_namespace_bytes", "Bytes of a namespace's objects.", labels=["namespace"])
        objects = GaugeMetricFamily("sos_namespace_objects", "Objects of a namespace.", labels=["namespace"])
        every = self._store.contents.namespaces
        yield GaugeMetricFamily("sos_namespaces", "Namespaces there are.", len(every))
        largest = heapq.nlargest(NAMESPACES_SHOWN, every.items(), key=lambda entry: entry[1].used_bytes)
        for name, namespace in sorted(largest, key=itemgetter(0)):
            stored.add_metric([name], namespace.used_bytes)
            objects.add_metric([name], len(namespace.objects))
        yield stored
        yield objects
