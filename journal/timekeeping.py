"""The one monotonic clock of a volume: max(wall clock, last record + 1 ms). Pure: readings come from outside.

Spark compares modification times of files that different machines wrote (RocksDB's orphan clean-up), so all of them
come from the writer, and never go back: not within a process, not over a takeover, not when somebody sets the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JUMP_MS: Final = 10_000  # NTP slews less; more than this is somebody setting the clock, or a suspended machine


@dataclass(slots=True)
class Timekeeper:
    """Gives each record its time. `last_ms` starts as the time of the last record of the chosen chain."""

    last_ms: int
    _wall_ms: int | None = None
    _monotonic_ms: int = 0

    def next_ms(self, wall_ms: int) -> int:
        """The time of the next record."""
        self.last_ms = max(wall_ms, self.last_ms + 1)
        return self.last_ms

    def jump_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """How far the wall clock moved against the monotonic one since the last call; 0 below JUMP_MS. Be loud if not.

        The first call compares with the last record: a wall clock behind it has been set back, or was ahead before.
        """
        if self._wall_ms is None:
            drift = min(0, wall_ms - self.last_ms)
        else:
            drift = (wall_ms - self._wall_ms) - (monotonic_ms - self._monotonic_ms)
        self._wall_ms, self._monotonic_ms = wall_ms, monotonic_ms
        return drift if abs(drift) >= JUMP_MS else 0
