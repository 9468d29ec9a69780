"""What every server counts about its connections and its log, for Prometheus, named with the server's own prefix."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from sos_client.serving.event_log import EventLog
    from sos_client.serving.listener import Listener


class ServingMetrics(Collector):
    """Of one listener and one log."""

    def __init__(self, prefix: str, listener: Listener, log: EventLog) -> None:
        self._prefix = prefix
        self._listener = listener
        self._log = log
        self._started = time.time()

    def collect(self) -> Iterable[Metric]:
        for name, meaning, value in (
            (
                "connections_failed",
                "Connections that a mistake of this server ended.",
                self._listener.failed_connections,
            ),
            ("log_lines_lost", "Lines of the log that nobody took.", self._log.lines_lost),
            ("log_lines_left_out", "Warnings and refusals beyond their bounds.", self._log.lines_left_out),
        ):
            yield CounterMetricFamily(f"{self._prefix}_{name}", meaning, value)
        started = f"{self._prefix}_start_time_seconds"
        yield GaugeMetricFamily(started, "When this process began to serve, in seconds since 1970.", self._started)
