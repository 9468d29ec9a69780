"""The two clocks of a volume: the times of its records, and how long owners have lived through it. Pure.

Spark compares modification times of files that different machines wrote (RocksDB's orphan clean-up), so all of them
come from the writer, and never go back: not within a process, not over a takeover, not when somebody sets the clock.

A wall clock that jumps is not believed at once: times go on as the monotonic clock does, and come nearer to it by half
of what passes, until they meet. That a machine has slept is seen by a third clock, and followed at once. What may be
forgotten after some time rests on lived time alone, which only the monotonic clocks of owners make grow: a clock that
was set wrong, here or on the next owner's machine, makes nothing old.

Forward, times are corrected only where a segment begins (`correct`): its header says how much of the step nobody has
lived through, so that between two headers times never run ahead of lived time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

JUMP_MS: Final = 10_000  # NTP slews less; more than this is somebody setting the clock, or a machine that slept
STEP_MS: Final = 300_000  # earned in ten minutes, a correction that is worth a segment of its own


@dataclass(slots=True)
class Timekeeper:
    """Gives each record its time. `last_ms` starts as the time of the last record of the chosen chain.

    `paused_ms`: how much less than that time the volume's owners have lived through, as the last header says.
    `asleep_ms` tells how long the machine has slept since some moment; it is asked only about what looks like a jump.
    `ahead_ms`: how far the wall clock is ahead of most others that were asked. That is not believed at once either.
    """

    last_ms: int
    paused_ms: int = 0
    asleep_ms: Callable[[], int] = lambda: 0
    ahead_ms: int = 0
    distrust_ms: int = 0  # how far the wall clock is ahead of the times that are given
    _slept_ms: int = 0  # of that, what this machine has slept through
    _earned_ms: int = 0  # of that, what the time that has passed since the jump lets be corrected
    _passed_ms: int = 0  # less than two: what half of is not counted yet
    _asleep_ms: int = 0  # when it was asked last
    _lived_ms: int = 0  # at the first reading
    _first_ms: int = 0
    _wall_ms: int | None = None
    _monotonic_ms: int = 0
    _jumped_ms: int = 0  # since somebody asked

    @property
    def has_slept(self) -> bool:
        """Whether times are late because this machine slept: correct them before anything else is written."""
        return self._slept_ms > 0

    @property
    def may_step(self) -> bool:
        """Whether `correct` would bring times nearer to the wall clock by so much that a new segment is worth it."""
        return 0 < min(self.distrust_ms, STEP_MS) <= self._earned_ms

    def read(self, wall_ms: int, monotonic_ms: int) -> int:
        """What the volume's clock says, but for `last_ms`, which it never falls behind."""
        if self._wall_ms is None:
            self._first_ms, self._lived_ms = monotonic_ms, self.last_ms - self.paused_ms
            since_ms = wall_ms - self.last_ms
            self._jumped_ms = self.distrust_ms = since_ms if since_ms < 0 else min(self.ahead_ms, since_ms)
            self._asleep_ms = self.asleep_ms()
        else:
            passed_ms = monotonic_ms - self._monotonic_ms
            drift_ms = wall_ms - self._wall_ms - passed_ms
            if abs(drift_ms) >= JUMP_MS:
                self._jump(drift_ms)
            elif self.distrust_ms:
                self._approach(passed_ms)
        self._wall_ms, self._monotonic_ms = wall_ms, monotonic_ms
        return wall_ms - self.distrust_ms

    def _jump(self, drift_ms: int) -> None:
        asleep_ms = self.asleep_ms()
        slept_ms, self._asleep_ms = asleep_ms - self._asleep_ms, asleep_ms
        self.distrust_ms += drift_ms
        if abs(drift_ms - slept_ms) < JUMP_MS:
            self._slept_ms += drift_ms
        else:
            self._jumped_ms += drift_ms
            self._earned_ms = 0
        if abs(self.distrust_ms) < JUMP_MS:
            self.distrust_ms = 0
        self._slept_ms = max(0, min(self._slept_ms, self.distrust_ms))

    def _approach(self, passed_ms: int) -> None:
        """Times that are ahead of the wall clock run at half its speed; those behind it earn a step as large."""
        half_ms, self._passed_ms = divmod(self._passed_ms + max(passed_ms, 0), 2)
        if self.distrust_ms < 0:
            self.distrust_ms = min(0, self.distrust_ms + half_ms)
        else:
            self._earned_ms += half_ms

    def correct(self) -> None:
        """A segment begins: step forward by what was slept through, and by what was earned."""
        self.distrust_ms -= max(0, min(self.distrust_ms, self._slept_ms + self._earned_ms))
        self._slept_ms = self._earned_ms = 0

    def now_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """What a record would be given at the beginning of a segment, if that were late by a sleep alone."""
        return max(self.read(wall_ms, monotonic_ms) + self._slept_ms, self.last_ms)

    def next_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """The time of the next record."""
        self.last_ms = max(self.read(wall_ms, monotonic_ms), self.last_ms + 1)
        return self.last_ms

    def next_within(self, monotonic_ms: int) -> int:
        """As `next_ms`, if the clocks were read in this millisecond already; else 0. Many records come in each."""
        if monotonic_ms != self._monotonic_ms or self._wall_ms is None:
            return 0
        self.last_ms = max(self._wall_ms - self.distrust_ms, self.last_ms + 1)
        return self.last_ms

    def lived_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """How long owners have lived through this volume; only differences mean something."""
        self.read(wall_ms, monotonic_ms)
        return self._lived_ms + monotonic_ms - self._first_ms

    def jump_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """How far the wall clock moved against the monotonic one since the last call; 0 below JUMP_MS. Be loud if not.

        The first call compares with the last record and with other clocks: a wall clock behind the record has been set
        back, or was ahead before.
        """
        self.read(wall_ms, monotonic_ms)
        jumped, self._jumped_ms = self._jumped_ms, 0
        return jumped if abs(jumped) >= JUMP_MS else 0
