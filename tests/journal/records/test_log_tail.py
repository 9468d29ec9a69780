"""The end of the log in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from journal.records.log_tail import LogTail

if TYPE_CHECKING:
    from journal.records.segment import SegmentHeader

ONE, TWO = cast("SegmentHeader", "one"), cast("SegmentHeader", "two")


def tail(*sizes: int) -> LogTail:
    made = LogTail(lsn=100, bytes_max=10)
    for number, size in enumerate(sizes):
        made.add(ONE if number < 3 else TWO, bytes([number]) * size)
    return made


def test_records_of_one_segment_are_taken_together() -> None:
    made = tail(4, 5, 6, 7)
    batch, index = made.take(0, 1000)
    assert batch is not None
    assert (batch.segment, batch.lsn, batch.end) == (ONE, 100, 115)
    assert batch.data == b"\0" * 4 + b"\1" * 5 + b"\2" * 6
    batch, index = made.take(index, 1000)
    assert batch is not None
    assert (batch.segment, batch.lsn, batch.data) == (TWO, 115, b"\3" * 7)
    assert made.take(index, 1000) == (None, index)


def test_a_batch_is_bounded() -> None:
    batch, index = tail(4, 5, 6).take(0, 5)
    assert batch is not None
    assert len(batch.data) == 9  # whole records, the last one may reach over
    assert index == 2


@pytest.mark.parametrize(("lsn", "expected"), [(100, (0, 0)), (103, (0, 3)), (104, (1, 0)), (115, (3, 0)), (99, None)])
def test_a_reader_may_begin_inside_a_record(lsn: int, expected: tuple[int, int] | None) -> None:
    assert tail(4, 5, 6).index_at(lsn) == expected


def test_what_is_acknowledged_and_old_is_dropped() -> None:
    made = tail(4, 5, 6, 7)
    made.release(104)
    assert made.start == 104
    made.release(made.end)
    assert made.start == 109  # the last ten bytes are kept, in whole records
    with pytest.raises(LookupError):
        made.take(0, 1000)
    assert made.index_at(104) is None
    assert made.index_at(110) == (2, 1)


def test_bytes_are_found_inside_one_record() -> None:
    made = tail(4, 5, 6)
    assert made.find(105, 2) == b"\1\1"
    assert made.find(99, 2) is None
    assert made.find(115, 1) is None
    assert LogTail(lsn=7, bytes_max=10).start == 7
