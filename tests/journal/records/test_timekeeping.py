"""Time never goes back, a clock that somebody sets is not followed, and says so; ages do not depend on it at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.records.timekeeping import JUMP_MS, STEP_MS, Timekeeper

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@given(last=st.integers(0, 10**13), readings=st.lists(st.integers(0, 10**13), min_size=1))
def test_each_record_is_later_than_the_one_before(last: int, readings: list[int]) -> None:
    timekeeper = Timekeeper(last_ms=last)
    for at, wall in enumerate(readings):
        before = timekeeper.last_ms
        assert timekeeper.next_ms(wall, at) > before
        assert timekeeper.lived_ms(wall, at) == last + at


@given(last=st.integers(0, 2000), steps=st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), min_size=1))
def test_records_of_one_millisecond_need_no_clock(last: int, steps: list[tuple[int, int]]) -> None:
    quick, careful = Timekeeper(last_ms=last), Timekeeper(last_ms=last)
    now_ms = drift_ms = 0
    for passed_ms, drifted_ms in steps:
        now_ms += passed_ms
        drift_ms += drifted_ms if passed_ms else 0
        time_ms = quick.next_within(now_ms) or quick.next_ms(1000 + now_ms + drift_ms, now_ms)
        assert time_ms == careful.next_ms(1000 + now_ms + drift_ms, now_ms)


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


def test_times_that_are_ahead_run_at_half_speed_until_the_wall_clock_has_come_up() -> None:
    """An owner that began with a clock one hour fast, which was then set right."""
    timekeeper = Timekeeper(last_ms=0)
    timekeeper.next_ms(10 * HOUR_MS, 0)
    timekeeper.read(9 * HOUR_MS, 0)
    at = 0
    for at in range(1, 2 * HOUR_MS // 1000 + 1):
        timekeeper.next_ms(9 * HOUR_MS + at * 1000, at * 1000)
        assert timekeeper.last_ms == 10 * HOUR_MS + at * 500
    assert timekeeper.next_ms(9 * HOUR_MS + at * 1000 + 1, at * 1000 + 1) == 11 * HOUR_MS + 1


def test_a_new_owner_with_a_clock_behind_the_last_record_gives_times_that_can_be_told_apart() -> None:
    timekeeper = Timekeeper(last_ms=HOUR_MS)
    given = [timekeeper.next_ms(at * 1000, at * 1000) for at in range(4)]
    assert given == [HOUR_MS + 1, HOUR_MS + 500, HOUR_MS + 1000, HOUR_MS + 1500]


@given(pieces=st.lists(st.integers(1, 7), min_size=1, max_size=200))
def test_however_often_the_clock_is_read_it_comes_back_as_fast(pieces: list[int]) -> None:
    timekeeper = Timekeeper(last_ms=0)
    timekeeper.read(HOUR_MS, 0)
    timekeeper.read(0, 0)
    at = 0
    for piece in pieces:
        at += piece
        timekeeper.read(at, at)
    assert timekeeper.distrust_ms == at // 2 - HOUR_MS


def test_a_clock_that_stays_ahead_is_followed_in_steps_that_segments_begin_with() -> None:
    timekeeper = Timekeeper(last_ms=0)
    timekeeper.next_ms(1000, 0)
    timekeeper.read(1000 + HOUR_MS, 0)
    at = 0
    steps: list[int] = []
    stepped_ms = 0
    while timekeeper.distrust_ms:
        at += 10_000
        before_ms = timekeeper.last_ms
        assert timekeeper.next_ms(1000 + HOUR_MS + at, at) == before_ms + 10_000 + stepped_ms
        stepped_ms = 0
        if timekeeper.may_step:
            behind_ms = timekeeper.distrust_ms
            timekeeper.correct()
            stepped_ms = behind_ms - timekeeper.distrust_ms
            steps.append(stepped_ms)
        assert timekeeper.lived_ms(1000 + HOUR_MS + at, at) == at
    assert at == 2 * HOUR_MS
    assert steps == [STEP_MS] * (HOUR_MS // STEP_MS)


def test_a_clock_that_is_wrong_for_a_moment_moves_times_by_half_of_that_moment_at_most() -> None:
    timekeeper = Timekeeper(last_ms=0)
    timekeeper.next_ms(1000, 0)
    timekeeper.next_ms(1000 + 30 * DAY_MS, DAY_MS)  # long after the last record
    timekeeper.next_ms(21_000 + 30 * DAY_MS, DAY_MS + 20_000)
    timekeeper.correct()  # a segment began just then
    assert timekeeper.next_ms(22_000 + DAY_MS, DAY_MS + 21_000) == 1000 + DAY_MS + 31_000


def test_a_machine_that_has_slept_gives_right_times_as_soon_as_a_segment_begins() -> None:
    slept_ms = 0
    timekeeper = Timekeeper(last_ms=0, asleep_ms=lambda: slept_ms)
    timekeeper.next_ms(1000, 0)
    slept_ms = 8 * HOUR_MS
    assert timekeeper.next_ms(2000 + 8 * HOUR_MS, 1000) == 2000
    assert timekeeper.has_slept
    timekeeper.correct()
    assert timekeeper.next_ms(3000 + 8 * HOUR_MS, 2000) == 3000 + 8 * HOUR_MS
    assert timekeeper.lived_ms(3000 + 8 * HOUR_MS, 2000) == 2000
    assert timekeeper.jump_ms(3000 + 8 * HOUR_MS, 2000) == 0
    assert not timekeeper.has_slept


def test_what_would_be_said_at_the_beginning_of_a_segment_is_not_late_by_a_sleep() -> None:
    slept_ms = 0
    timekeeper = Timekeeper(last_ms=0, asleep_ms=lambda: slept_ms)
    timekeeper.next_ms(1000, 0)
    slept_ms = 8 * HOUR_MS
    assert timekeeper.now_ms(2000 + 8 * HOUR_MS, 1000) == 2000 + 8 * HOUR_MS
    assert timekeeper.next_ms(2000 + 8 * HOUR_MS, 1000) == 2000, "asking changes nothing"


def test_sleep_that_was_followed_once_explains_no_later_jump() -> None:
    slept_ms = 0
    timekeeper = Timekeeper(last_ms=0, asleep_ms=lambda: slept_ms)
    timekeeper.next_ms(1000, 0)
    slept_ms = HOUR_MS
    timekeeper.next_ms(2000 + HOUR_MS, 1000)
    timekeeper.correct()
    timekeeper.next_ms(2000 + 2 * HOUR_MS, 1000)
    assert not timekeeper.has_slept
    assert timekeeper.jump_ms(2000 + 2 * HOUR_MS, 1000) == HOUR_MS


def test_times_that_were_ahead_are_less_so_after_a_sleep() -> None:
    slept_ms = 0
    timekeeper = Timekeeper(last_ms=0, asleep_ms=lambda: slept_ms)
    timekeeper.next_ms(10 * HOUR_MS, 0)
    timekeeper.next_ms(9 * HOUR_MS, 0)  # set back by an hour
    slept_ms = HOUR_MS // 2
    timekeeper.next_ms(9 * HOUR_MS + slept_ms, 0)
    assert (timekeeper.distrust_ms, timekeeper.has_slept) == (-HOUR_MS // 2, False)


def test_a_wall_clock_behind_the_last_record_is_loud_at_once() -> None:
    assert Timekeeper(last_ms=1_000_000).jump_ms(1000, 0) == -999_000


def test_a_clock_that_is_ahead_of_all_others_from_the_beginning_is_not_believed_at_once() -> None:
    timekeeper = Timekeeper(last_ms=HOUR_MS, ahead_ms=24 * HOUR_MS)
    assert timekeeper.next_ms(26 * HOUR_MS, 0) == 2 * HOUR_MS
    assert timekeeper.jump_ms(26 * HOUR_MS, 0) == 24 * HOUR_MS
    assert timekeeper.next_ms(26 * HOUR_MS + 50, 50) == 2 * HOUR_MS + 50
    assert timekeeper.next_ms(2 * HOUR_MS + 100, 100) == 2 * HOUR_MS + 100, "it is right again"


def test_a_clock_that_is_ahead_of_all_others_moves_no_time_before_the_last_record() -> None:
    timekeeper = Timekeeper(last_ms=25 * HOUR_MS, ahead_ms=24 * HOUR_MS)
    assert timekeeper.next_ms(26 * HOUR_MS, 0) == 25 * HOUR_MS + 1


def test_what_owners_have_not_lived_through_does_not_count() -> None:
    timekeeper = Timekeeper(last_ms=1000, paused_ms=400)
    assert timekeeper.lived_ms(1000 + 30 * DAY_MS, 77) == 600
    assert timekeeper.lived_ms(1000 + 30 * DAY_MS, 177) == 700
