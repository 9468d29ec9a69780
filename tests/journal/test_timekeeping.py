"""Time never goes back, and says when the wall clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.timekeeping import JUMP_MS, Timekeeper


@given(last=st.integers(0, 10**13), readings=st.lists(st.integers(0, 10**13), min_size=1))
def test_each_record_is_later_than_the_one_before_and_never_behind_the_wall(last: int, readings: list[int]) -> None:
    timekeeper = Timekeeper(last_ms=last)
    for wall in readings:
        before = timekeeper.last_ms
        assert timekeeper.next_ms(wall) == max(wall, before + 1)


def test_a_jump_is_what_the_monotonic_clock_does_not_show() -> None:
    timekeeper = Timekeeper(last_ms=1000)
    assert timekeeper.jump_ms(500_000, 7) == 0
    assert timekeeper.jump_ms(560_000, 60_007) == 0
    assert timekeeper.jump_ms(561_000 + JUMP_MS, 61_007) == JUMP_MS
    assert timekeeper.jump_ms(400_000, 62_007) == 400_000 - 561_000 - JUMP_MS - 1000


def test_a_wall_clock_behind_the_last_record_is_loud_at_once() -> None:
    assert Timekeeper(last_ms=1_000_000).jump_ms(1000, 0) == -999_000
