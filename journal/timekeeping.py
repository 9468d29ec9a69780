"""The two clocks of a volume: the times of its records, and how long owners have lived through it. Pure.

Spark compares modification times of files that different machines wrote (RocksDB's orphan clean-up), so all of them
come from the writer, and never go back: not within a process, not over a takeover, not when somebody sets the clock.

A wall clock that jumps is not followed: times go on as the monotonic clock does until the wall clock is back where it
was, or until the next owner. What may be forgotten after some time rests on lived time alone, which only the monotonic
clocks of owners make grow: a clock that was set wrong, here or on the next owner's machine, makes nothing old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JUMP_MS: Final = 10_000  # NTP slews less; more than this is somebody setting the clock, or a suspended machine


@dataclass(slots=True)
class Timekeeper:
    """Gives each record its time. `last_ms` starts as the time of the last record of the chosen chain.

    `paused_ms`: how much less than that time the volume's owners have lived through, as the last header says.
    """

    last_ms: int
    paused_ms: int = 0
    distrust_ms: int = 0  # how far the wall clock has jumped away from the times that are given
    _lived_ms: int = 0  # at the first reading
    _first_ms: int = 0
    _wall_ms: int | None = None
    _monotonic_ms: int = 0
    _jumped_ms: int = 0  # since somebody asked

    def read(self, wall_ms: int, monotonic_ms: int) -> int:
        """What the wall clock would say had it not jumped."""
        if self._wall_ms is None:
            self._first_ms, self._lived_ms = monotonic_ms, self.last_ms - self.paused_ms
            self._jumped_ms = min(0, wall_ms - self.last_ms)
        else:
            drift = (wall_ms - self._wall_ms) - (monotonic_ms - self._monotonic_ms)
            if abs(drift) >= JUMP_MS:
                self._jumped_ms += drift
                self.distrust_ms += drift
                if abs(self.distrust_ms) < JUMP_MS:
                    self.distrust_ms = 0
        self._wall_ms, self._monotonic_ms = wall_ms, monotonic_ms
        return wall_ms - self.distrust_ms

    def next_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """The time of the next record."""
        self.last_ms = max(self.read(wall_ms, monotonic_ms), self.last_ms + 1)
        return self.last_ms

    def lived_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """How long owners have lived through this volume; only differences mean something."""
        self.read(wall_ms, monotonic_ms)
        return self._lived_ms + monotonic_ms - self._first_ms

    def jump_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """How far the wall clock moved against the monotonic one since the last call; 0 below JUMP_MS. Be loud if not.

        The first call compares with the last record: a wall clock behind it has been set back, or was ahead before.
        """
        self.read(wall_ms, monotonic_ms)
        jumped, self._jumped_ms = self._jumped_ms, 0
        return jumped if abs(jumped) >= JUMP_MS else 0
