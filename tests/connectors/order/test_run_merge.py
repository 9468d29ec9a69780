"""Runs and their merge against sorted(): any rows, cut into tasks and blocks anyhow, and what the merge holds
meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.order.natural_runs import MARK_ROWS, RunCutter, overlapping, split_at, starts_of_runs
from connectors.order.run_merge import merge_steps, part_rows, rows_at_once

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from connectors.order.natural_runs import NaturalRun, Sequences

Block = list[int]


@dataclass(slots=True)
class Rows:
    """Rows of some tasks. Each is (sequence, task, number in the task): a sequence alone would hide what was mixed
    up."""

    tasks: list[list[Block]]
    blocks: list[list[tuple[int, int, int]]] = field(default_factory=list)
    held: int = 0
    held_max: int = 0
    read: int = 0

    def runs(self) -> list[NaturalRun[int]]:
        found: list[NaturalRun[int]] = []
        for task, blocks in enumerate(self.tasks):
            cutter, count = RunCutter[int](), 0
            for block in blocks:
                cutter.add(array(block), len(self.blocks))
                self.blocks.append([(sequence, task, count + number) for number, sequence in enumerate(block)])
                count += len(block)
            found += cutter.runs()
        return found

    def sequences_of(self, place: int, start: int, stop: int) -> Sequences:
        self.read += stop - start
        self.held += stop - start
        self.held_max = max(self.held_max, self.held)
        return array([row[0] for row in self.blocks[place][start:stop]])

    def merged(
        self, step_rows: int = 1024, runs: Sequence[NaturalRun[int]] | None = None
    ) -> Iterator[tuple[int, int, int]]:
        self.repeats = 0
        for step in merge_steps(self.runs() if runs is None else runs, self.sequences_of, step_rows=step_rows):
            rows = [row for piece in step.pieces for row in self.blocks[piece.place][piece.start : piece.stop]]
            self.held -= len(rows)
            self.repeats += step.repeats
            yield from rows if step.order is None else (rows[number] for number in step.order)

    repeats: int = 0


def array(sequences: Sequence[int]) -> Sequences:
    return np.array(sequences, dtype=np.int64)


def test_rows_are_cut_where_the_sequence_falls() -> None:
    assert starts_of_runs(array([1, 2, 2, 9, 3, 4, 1])) == [4, 6]
    assert starts_of_runs(array([])) == []


def test_a_run_goes_on_into_the_next_block() -> None:
    cutter = RunCutter[str]()
    assert [
        cutter.add(array(rows), name) for rows, name in [([1, 2], "a"), ([], "b"), ([2, 5], "c"), ([4, 6], "d")]
    ] == [
        1,
        0,
        0,
        1,
    ]
    runs = cutter.runs()
    assert [(run.first, run.last, run.count) for run in runs] == [(1, 5, 4), (4, 6, 2)]
    assert [[segment.place for segment in run.segments] for run in runs] == [["a", "c"], ["d"]]
    assert RunCutter[str]().runs() == []


def test_only_what_overlaps_is_merged() -> None:
    rows = Rows([[[10, 11, 12]], [[1, 2, 3]], [[5, 7], [4, 6]]])
    assert [[(run.first, run.last) for run in group] for group in overlapping(rows.runs())] == [
        [(1, 3)],
        [(5, 7), (4, 6)],
        [(10, 12)],
    ]
    rows = Rows(rows.tasks)
    assert [row[0] for row in rows.merged()] == [1, 2, 3, 4, 5, 6, 7, 10, 11, 12]
    assert rows.read == 4


def test_runs_that_take_turns_in_long_stretches_are_not_sorted() -> None:
    """Such as of a round-robin exchange that deals out whole blocks."""
    even, odd = ([list(range(start, start + MARK_ROWS)) for start in range(at, 4096, 512)] for at in (0, 256))
    rows = Rows([even, odd])
    steps = list(merge_steps(rows.runs(), rows.sequences_of, step_rows=2 * MARK_ROWS))
    assert [step.order for step in steps] == [None] * 8


def test_equal_sequences_are_counted_and_stay_in_the_order_of_tasks() -> None:
    rows = Rows([[[1, 5, 5]], [[0, 1, 5]]])
    assert list(rows.merged()) == [(0, 1, 0), (1, 0, 0), (1, 1, 1), (5, 0, 1), (5, 0, 2), (5, 1, 2)]
    assert rows.repeats == 3
    alone = Rows([[[1, 1, 1], [1]]])
    assert len(list(alone.merged())) == 4
    assert alone.repeats == 3


def test_one_sequence_in_many_parts_comes_together() -> None:
    rows = Rows([[[5] * 600], [[5] * 600]])
    assert list(rows.merged(step_rows=1)) == [(5, task, number) for task in (0, 1) for number in range(600)]
    assert rows.repeats == 1199


def everything_of(tasks: list[list[Block]]) -> list[tuple[int, int, int]]:
    """In order."""
    return sorted(
        (sequence, task, number)
        for task, blocks in enumerate(tasks)
        for number, sequence in enumerate(sequence for block in blocks for sequence in block)
    )


block = st.lists(st.integers(-9, 9), max_size=6) | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)
tasks = st.lists(st.lists(block, max_size=4), max_size=5)


@given(tasks)
def test_any_rows(tasks: list[list[Block]]) -> None:
    assert list(Rows(tasks).merged()) == everything_of(tasks)


@given(tasks, st.integers(-10, 10))
def test_any_rows_up_to_a_bound_and_above_it(tasks: list[list[Block]], bound: int) -> None:
    rows, everything = Rows(tasks), everything_of(tasks)
    runs = rows.runs()
    low, high = split_at(runs, bound, rows.sequences_of)
    rows.held = 0
    assert list(rows.merged(runs=low)) == [row for row in everything if row[0] <= bound]
    assert list(rows.merged(runs=high)) == [row for row in everything if row[0] > bound]
    assert sum(run.count for run in (*low, *high)) == len(everything)


@given(st.integers(1, 40), st.integers(1, 3000), st.integers(1, 2000), st.randoms(use_true_random=False))
def test_long_runs_in_small_steps_hold_no_more_than_promised(
    runs: int, count: int, step_rows: int, chance: random.Random
) -> None:
    owners = [chance.randrange(runs) for _ in range(count)]
    rows = Rows([[[sequence for sequence, owner in enumerate(owners) if owner == task]] for task in range(runs)])
    assert [row[0] for row in rows.merged(step_rows)] == list(range(count))
    part = part_rows(runs, step_rows)
    assert rows.held_max <= runs * part + rows_at_once(runs, step_rows) + part


@pytest.mark.parametrize(("runs", "rows"), [(1, 131072), (2, 65536), (512, 256), (4096, 256)])
def test_the_part_that_is_read_at_once_falls_with_the_number_of_runs(runs: int, rows: int) -> None:
    assert part_rows(runs) == rows
    assert rows_at_once(runs) == max(131072, min(runs * rows, 1048576))
