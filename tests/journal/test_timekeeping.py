"""Time never goes back, a clock that somebody sets is not followed, and says so; ages do not depend on it at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.timekeeping import JUMP_MS, Timekeeper

DAY_MS = 86_400_000


@given(last=st.integers(0, 10**13), readings=st.lists(st.integers(0, 10**13), min_size=1))
def test_each_record_is_later_than_the_one_before(last: int, readings: list[int]) -> None:
    timekeeper = Timekeeper(last_ms=last)
    for at, wall in enumerate(readings):
        before = timekeeper.last_ms
        assert timekeeper.next_ms(wall, at) > before
        assert timekeeper.lived_ms(wall, at) == last + at


def test_times_follow_a_wall_clock_that_runs_a_little_wrong() -> None:
    timekeeper = Timekeeper(last_ms=0)
    assert timekeeper.next_ms(1000, 0) == 1000
    assert timekeeper.next_ms(9000 + JUMP_MS, 9000) == 9000 + JUMP_MS
    assert timekeeper.next_ms(11_000, 10_000) == 9001 + JUMP_MS


def test_a_clock_that_jumps_is_followed_again_when_it_is_back() -> None:
    timekeeper = Timekeeper(last_ms=0)
    assert timekeeper.next_ms(1000, 0) == 1000
    assert timekeeper.next_ms(2000 + 30 * DAY_MS, 1000) == 2000
    assert timekeeper.next_ms(3000 + 30 * DAY_MS, 2000) == 3000
    assert timekeeper.jump_ms(3000 + 30 * DAY_MS, 2000) == 30 * DAY_MS
    assert timekeeper.jump_ms(3000 + 30 * DAY_MS, 2000) == 0
    assert timekeeper.next_ms(4321, 3000) == 4321
    assert timekeeper.jump_ms(4321, 3000) == 321 - 30 * DAY_MS
    assert timekeeper.distrust_ms == 0
    assert timekeeper.next_ms(5000 - DAY_MS, 4321) == 5642
    assert timekeeper.lived_ms(5000 - DAY_MS, 4321) == 4321


def test_a_wall_clock_behind_the_last_record_is_loud_at_once() -> None:
    assert Timekeeper(last_ms=1_000_000).jump_ms(1000, 0) == -999_000


def test_what_owners_have_not_lived_through_does_not_count() -> None:
    timekeeper = Timekeeper(last_ms=1000, paused_ms=400)
    assert timekeeper.lived_ms(1000 + 30 * DAY_MS, 77) == 600
    assert timekeeper.lived_ms(1000 + 30 * DAY_MS, 177) == 700
