"""Cuts rows into natural ascending runs: the longest stretches in which the sequence never falls. Pure.

A run's rows stay where they are. What is kept of a run is where its rows lie, and the sequence of every MARK_ROWS-th
row, so that a merge knows which part to read next without having read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Sequences = npt.NDArray[np.int64]

Place = TypeVar("Place")

MARK_ROWS: Final = 256
"""The smallest part of a run that a merge reads at once; 8 bytes are kept for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSegment(Generic[Place]):
    """Rows `start` to `stop` of what the caller keeps at `place`."""

    place: Place
    start: int
    stop: int
    marks: Sequences
    """The sequence of the first row, and of every MARK_ROWS-th after it."""
    last: int
    repeats: int
    """Rows with the sequence of the row before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NaturalRun(Generic[Place]):
    """Rows whose sequence never falls, in their order."""

    segments: Sequence[RunSegment[Place]]

    @property
    def first(self) -> int:
        return int(self.segments[0].marks[0])

    @property
    def last(self) -> int:
        return self.segments[-1].last

    @property
    def count(self) -> int:
        return sum(segment.stop - segment.start for segment in self.segments)


@dataclass(slots=True)
class RunCutter(Generic[Place]):
    """Takes the rows of one task, block by block; a run goes on from one block into the next."""

    finished: list[NaturalRun[Place]] = field(default_factory=list)
    _open: list[RunSegment[Place]] = field(default_factory=list)

    def add(self, sequences: Sequences, place: Place) -> int:
        """The rows that come next, which the caller keeps at `place`. Returns how many runs began with them."""
        if not len(sequences):
            return 0
        bounds = [0, *starts_of_runs(sequences), len(sequences)]
        began = len(bounds) - 2
        if not self._open or sequences[0] < self._open[-1].last:
            self._close()
            began += 1
        for number, (start, stop) in enumerate(pairwise(bounds)):
            if number:
                self._close()
            self._open.append(_segment(sequences[start:stop], place, start))
        return began

    def runs(self) -> list[NaturalRun[Place]]:
        """All runs so far, in order; the rows that come next begin a new one."""
        self._close()
        return self.finished

    def _close(self) -> None:
        if self._open:
            self.finished.append(NaturalRun(segments=tuple(self._open)))
            self._open = []


def starts_of_runs(sequences: Sequences) -> list[int]:
    """Where the sequence falls: the rows that begin a run, without the first one."""
    falls: list[int] = (np.flatnonzero(sequences[1:] < sequences[:-1]) + 1).tolist()
    return falls


def overlapping(runs: Sequence[NaturalRun[Place]]) -> list[list[NaturalRun[Place]]]:
    """Groups in the order of their sequences: runs of a group reach into each other, groups only follow each other.

    Inside a group the runs are in the order in which they were given.
    """
    groups: list[list[int]] = []
    end = 0
    for number in sorted(range(len(runs)), key=lambda number: runs[number].first):
        if groups and runs[number].first <= end:
            groups[-1].append(number)
            end = max(end, runs[number].last)
        else:
            groups.append([number])
            end = runs[number].last
    return [[runs[number] for number in sorted(group)] for group in groups]


def split_at(
    runs: Sequence[NaturalRun[Place]], bound: int, sequences_of: Callable[[Place, int, int], Sequences]
) -> tuple[list[NaturalRun[Place]], list[NaturalRun[Place]]]:
    """The rows up to the bound, with it, and those above it, each as runs in the order in which these were given.

    `sequences_of(place, start, stop)` reads the sequences of some rows; it is asked of one segment of a run at most.
    """
    low, high = [], []
    for run in runs:
        below, above = _split_run(run, bound, sequences_of)
        if below:
            low.append(NaturalRun(segments=tuple(below)))
        if above:
            high.append(NaturalRun(segments=tuple(above)))
    return low, high


def _split_run(
    run: NaturalRun[Place], bound: int, sequences_of: Callable[[Place, int, int], Sequences]
) -> tuple[list[RunSegment[Place]], list[RunSegment[Place]]]:
    below: list[RunSegment[Place]] = []
    above: list[RunSegment[Place]] = []
    for segment in run.segments:
        if segment.last <= bound:
            below.append(segment)
        elif segment.marks[0] > bound:
            above.append(segment)
        else:
            own = sequences_of(segment.place, segment.start, segment.stop)
            rows = int(np.searchsorted(own, bound, side="right"))
            below.append(_segment(own[:rows], segment.place, segment.start))
            above.append(_segment(own[rows:], segment.place, segment.start + rows))
    return below, above


def _segment(own: Sequences, place: Place, start: int) -> RunSegment[Place]:
    return RunSegment(
        place=place,
        start=start,
        stop=start + len(own),
        marks=own[::MARK_ROWS].copy(),
        last=int(own[-1]),
        repeats=int(np.count_nonzero(own[1:] == own[:-1])),
    )
