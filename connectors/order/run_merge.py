"""Merges runs by their sequences, without seeing the rows: it says which rows to take, and in which order. Pure.

Parts of runs are read in the order of their first sequence, which is known beforehand. Whatever is below the first
sequence of the next part is complete, so it is sorted (a stable argsort finds runs, and merges tens of millions of
rows a second) and given out; the rest waits.

At any moment at most one part of each run waits, besides those just read. So the memory is bounded by runs x part_rows
+ rows_at_once + part_rows rows: 8 bytes each here, and whatever the caller keeps of a row. part_rows falls with the
number of runs down to MARK_ROWS; with more than STEP_ROWS / MARK_ROWS runs (512) more rows are read at once, up to
eight times STEP_ROWS, because each step looks at each run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic

import numpy as np

from connectors.order.natural_runs import MARK_ROWS, Place, overlapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from connectors.order.natural_runs import NaturalRun, RunSegment, Sequences

STEP_ROWS: Final = 128 * 1024
"""About as many rows are sorted at once: their sequences fit into a processor's cache."""

STEPS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRange(Generic[Place]):
    """Rows `start` to `stop` of what the caller keeps at `place`."""

    place: Place
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStep(Generic[Place]):
    """What comes next: the rows of these pieces, one after the other, taken in this order."""

    pieces: tuple[RowRange[Place], ...]
    order: npt.NDArray[np.intp] | None
    """None: as they are."""
    repeats: int
    """Rows with the sequence of the row before them. Such rows of one task stay in their order, those of several are
    in the order of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part(Generic[Place]):
    """A stretch of one run that is read at once."""

    place: Place
    start: int
    stop: int
    first: int
    run: int
    number: int
    """Of the part in its run."""


@dataclass(slots=True)
class _Waiting(Generic[Place]):
    """What was read of a part and not given out."""

    part: _Part[Place]
    sequences: Sequences


def merge_steps(
    runs: Sequence[NaturalRun[Place]],
    sequences_of: Callable[[Place, int, int], Sequences],
    *,
    step_rows: int = STEP_ROWS,
) -> Iterator[MergeStep[Place]]:
    """All rows of the runs in the order of their sequences.

    `sequences_of(place, start, stop)` reads the sequences of some rows; it is not asked where a run overlaps with no
    other. Runs are given in the order that rows with the same sequence are to have.
    """
    for group in overlapping(runs):
        if len(group) == 1:
            yield from _as_it_is(group[0])
        else:
            yield from _merged(group, sequences_of, step_rows)


def part_rows(runs: int, step_rows: int = STEP_ROWS) -> int:
    """How many rows of a run are read at once: a multiple of MARK_ROWS."""
    return max(1, step_rows // runs // MARK_ROWS) * MARK_ROWS


def rows_at_once(runs: int, step_rows: int = STEP_ROWS) -> int:
    """About as many rows are read before some are given out."""
    return max(step_rows, min(runs * part_rows(runs, step_rows), STEPS_MAX * step_rows))


def _as_it_is(run: NaturalRun[Place]) -> Iterator[MergeStep[Place]]:
    before: RunSegment[Place] | None = None
    for segment in run.segments:
        repeats = segment.repeats + (before is not None and before.last == segment.marks[0])
        piece = RowRange(place=segment.place, start=segment.start, stop=segment.stop)
        yield MergeStep(pieces=(piece,), order=None, repeats=int(repeats))
        before = segment


def _merged(
    runs: Sequence[NaturalRun[Place]], sequences_of: Callable[[Place, int, int], Sequences], step_rows: int
) -> Iterator[MergeStep[Place]]:
    rows, at_once = part_rows(len(runs), step_rows), rows_at_once(len(runs), step_rows)
    parts = sorted(
        (part for number, run in enumerate(runs) for part in _parts(run, number, rows)), key=lambda part: part.first
    )
    waiting: list[_Waiting[Place]] = []
    read = 0
    while waiting or read < len(parts):
        taken = 0
        while read < len(parts) and taken < at_once:
            part = parts[read]
            waiting.append(_Waiting(part, sequences_of(part.place, part.start, part.stop)))
            taken += part.stop - part.start
            read += 1
        bound = parts[read].first if read < len(parts) else None
        complete, waiting = _split(waiting, bound)
        if complete:
            yield _step(complete)


def _parts(run: NaturalRun[Place], number: int, rows: int) -> Iterator[_Part[Place]]:
    count = 0
    for segment in run.segments:
        for start in range(segment.start, segment.stop, rows):
            first = int(segment.marks[(start - segment.start) // MARK_ROWS])
            stop = min(start + rows, segment.stop)
            yield _Part(place=segment.place, start=start, stop=stop, first=first, run=number, number=count)
            count += 1


def _split(waiting: list[_Waiting[Place]], bound: int | None) -> tuple[list[_Waiting[Place]], list[_Waiting[Place]]]:
    """What is below the bound, and the rest."""
    if bound is None:
        return waiting, []
    complete, rest = [], []
    for one in waiting:
        below = int(np.searchsorted(one.sequences, bound))
        if below:
            complete.append(_Waiting(one.part, one.sequences[:below]))
        if below < len(one.sequences):
            rest.append(_Waiting(_behind(one.part, below), one.sequences[below:]))
    return complete, rest


def _behind(part: _Part[Place], rows: int) -> _Part[Place]:
    return replace(part, start=part.start + rows)


def _step(complete: list[_Waiting[Place]]) -> MergeStep[Place]:
    complete.sort(key=lambda one: int(one.sequences[0]))
    if all(before.sequences[-1] < after.sequences[0] for before, after in pairwise(complete)):
        return _step_of(complete, np.concatenate([one.sequences for one in complete]), None)
    complete.sort(key=lambda one: (one.part.run, one.part.number))  # equal sequences stay in the order of runs
    sequences = np.concatenate([one.sequences for one in complete])
    order = np.argsort(sequences, kind="stable")
    return _step_of(complete, sequences[order], order)


def _step_of(
    complete: list[_Waiting[Place]], ascending: Sequences, order: npt.NDArray[np.intp] | None
) -> MergeStep[Place]:
    pieces = tuple(
        RowRange(place=one.part.place, start=one.part.start, stop=one.part.start + len(one.sequences))
        for one in complete
    )
    return MergeStep(pieces=pieces, order=order, repeats=int(np.count_nonzero(ascending[1:] == ascending[:-1])))
