"""The last hour in numbers, kept in memory: bounded, and taken by one small task whether somebody looks or not. Pure.

Belongs here: rates and percentiles from counters that others keep, and since when something has been so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STEP_SECONDS: Final = 5
POINTS_MAX: Final = 3600 // STEP_SECONDS
MOMENTS_MAX: Final = 3600
"""One a second: for how far behind a member is in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals since the start. `slower_than` counts by bounds of `bounds`, with one more for the rest."""

    puts: int
    bytes: int
    slower_than: Sequence[int]


@dataclass(slots=True)
class Point:
    """What happened in one step."""

    time_ms: int
    puts: float
    bytes: float
    p99_ms: float | None
    gap_bytes: int

    def as_json(self) -> list[object]:
        p99 = None if self.p99_ms is None else round(self.p99_ms, 3)
        return [self.time_ms, round(self.puts, 2), round(self.bytes, 1), p99, self.gap_bytes]


@dataclass(slots=True)
class Samples:
    """Of one process. `bounds`: of the histogram's buckets, in seconds."""

    bounds: Sequence[float]
    counters: Callable[[], Counters]
    gap_bytes: Callable[[], int]
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    _last: tuple[float, Counters] | None = None

    def take(self, now: float) -> None:
        """To be called every `STEP_SECONDS`."""
        counters = self.counters()
        if self._last is not None:
            then, before = self._last
            seconds = max(now - then, 0.001)
            grown = [after - was for after, was in zip(counters.slower_than, before.slower_than, strict=True)]
            self.points.append(
                Point(
                    int(now * 1000),
                    (counters.puts - before.puts) / seconds,
                    (counters.bytes - before.bytes) / seconds,
                    percentile_ms(self.bounds, grown, 0.99),
                    self.gap_bytes(),
                )
            )
        self._last = now, counters

    def as_json(self) -> dict[str, object]:
        return {
            "step_seconds": STEP_SECONDS,
            "columns": ["time_ms", "puts_per_second", "bytes_per_second", "p99_ms", "gap_bytes"],
            "points": [point.as_json() for point in self.points],
        }


def percentile_ms(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The bound below which so large a share lies, in between two bounds as if all between them were spread evenly."""
    total = sum(counts)
    if not total:
        return None
    wanted, below = share * total, 0
    for index, count in enumerate(counts):
        if count and below + count >= wanted:
            if index == len(bounds):
                return bounds[-1] * 1000
            low = bounds[index - 1] if index else 0.0
            return 1000 * (low + (bounds[index] - low) * (wanted - below) / count)
        below += count
    return bounds[-1] * 1000


@dataclass(slots=True)
class LogPace:
    """Where one volume's log ended when: how old what a member lacks is, and how fast the log grows."""

    moments: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MOMENTS_MAX))

    def take(self, now: float, end: int) -> None:
        """To be called every second. While nothing is written, nothing is kept."""
        if not self.moments or self.moments[-1][1] != end:
            self.moments.append((now, end))

    def behind_seconds(self, synced: int, now: float) -> float:
        """How long ago the first byte after `synced` was written; at least that, if it was longer ago than is kept."""
        at = bisect_right(self.moments, synced, key=lambda moment: moment[1])
        return max(0.0, now - self.moments[at][0]) if at < len(self.moments) else 0.0

    def bytes_per_day(self, now: float) -> float | None:
        """By what is kept, once that is a few minutes."""
        if not self.moments or now - self.moments[0][0] < 120:
            return None
        then, end = self.moments[0]
        return (self.moments[-1][1] - end) * 86_400 / (now - then)


@dataclass(slots=True)
class Since:
    """When each thing became what it is."""

    _known: dict[object, tuple[object, int]] = field(default_factory=dict)

    def of(self, key: object, state: object, now_ms: int) -> int:
        """Milliseconds since 1970; as of the first look for what was so before."""
        known = self._known.get(key)
        if known is None or known[0] != state:
            self._known[key] = known = (state, now_ms)
        return known[1]
