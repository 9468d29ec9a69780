"""What the store counts about itself, for metrics. Plain numbers, read by whoever likes."""

from __future__ import annotations

import bisect
import dataclasses
from typing import Final

SYNC_SECONDS_BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of commits; one more bucket has the rest."""


@dataclasses.dataclass(slots=True)
class StoreStatistics:
    """Totals since the start. `sync_seconds_buckets` counts commits by how long write and fdatasync took."""

    commits: int = 0
    entries: int = 0
    log_bytes: int = 0
    copied_bytes: int = 0
    straight_bytes: int = 0
    failed_syncs: int = 0
    failed_copies: int = 0
    damaged_reads: int = 0
    sync_seconds: float = 0.0
    sync_seconds_buckets: list[int] = dataclasses.field(default_factory=lambda: [0] * (len(SYNC_SECONDS_BOUNDS) + 1))

    def synced(self, log_bytes: int, entries: int, seconds: float) -> None:
        """One commit was made durable."""
        self.commits += 1
        self.entries += entries
        self.log_bytes += log_bytes
        self.sync_seconds += seconds
        self.sync_seconds_buckets[bisect.bisect_left(SYNC_SECONDS_BOUNDS, seconds)] += 1
