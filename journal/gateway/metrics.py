"""What the gateway counts, as plain numbers. How Prometheus gets them is in exposition.py."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

from journal.gateway.wire.messages import FileMessageType

if TYPE_CHECKING:
    from collections.abc import Callable

# From a read of what is in memory to the longest wait for a quorum.
BUCKETS_SECONDS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class Histogram:
    """Durations of one kind of request."""

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.total_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.total_seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        rows: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip([*map(str, BUCKETS_SECONDS), "+Inf"], self.counts, strict=True):
            total += count
            rows.append((bound, total))
        return rows


class GatewayMetrics:
    """Counters of one service, for all its volumes."""

    def __init__(self, *, connections: Callable[[], int] = lambda: 0) -> None:
        self.seconds: dict[int, Histogram] = {code: Histogram() for code in FileMessageType}
        self.refusals: Counter[int] = Counter()
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections = connections
