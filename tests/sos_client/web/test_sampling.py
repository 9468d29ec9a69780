"""An hour in numbers: rates, percentiles, and how far behind something is in time."""

from __future__ import annotations

import pytest

from sos_client.web.sampling import MOMENTS_MAX, POINTS_MAX, Counters, LogPace, Samples, Since, percentile_ms

BOUNDS = (0.001, 0.01, 0.1)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0, 0, 0, 0], None),
        ([100, 0, 0, 0], 0.99),
        ([98, 2, 0, 0], 5.5),
        ([0, 0, 10, 0], 99.1),
        ([1, 0, 0, 99], 100.0),
    ],
)
def test_percentiles(counts: list[int], expected: float | None) -> None:
    found = percentile_ms(BOUNDS, counts, 0.99)
    assert found == pytest.approx(expected)


def test_more_than_all_is_the_last_bound() -> None:
    assert percentile_ms(BOUNDS, [1, 0, 0, 0], 2.0) == 100.0


def test_points_are_differences_and_bounded() -> None:
    totals = iter(range(10_000))

    def counters() -> Counters:
        total = next(totals)
        return Counters(puts=10 * total, bytes=1000 * total, slower_than=[10 * total, 0, 0, 0])

    samples = Samples(BOUNDS, counters, lambda: 7)
    samples.take(100.0)
    assert not samples.points
    samples.take(105.0)
    assert samples.as_json()["points"] == [[105_000, 2.0, 200.0, 0.99, 7]]
    for step in range(2 * POINTS_MAX):
        samples.take(110.0 + 5 * step)
    assert len(samples.points) == POINTS_MAX


def test_an_idle_step_has_no_percentile() -> None:
    samples = Samples(BOUNDS, lambda: Counters(puts=0, bytes=0, slower_than=[0, 0, 0, 0]), lambda: 0)
    samples.take(0.0)
    samples.take(5.0)
    assert samples.points[0].as_json() == [5000, 0.0, 0.0, None, 0]


def test_how_long_ago_the_first_missing_byte_was_written() -> None:
    pace = LogPace()
    assert pace.behind_seconds(0, 10.0) == 0.0
    for now, end in ((10.0, 100), (11.0, 100), (12.0, 200), (20.0, 300)):
        pace.take(now, end)
    assert len(pace.moments) == 3
    assert pace.behind_seconds(300, 25.0) == 0.0
    assert pace.behind_seconds(200, 25.0) == 5.0
    assert pace.behind_seconds(199, 25.0) == 13.0
    assert pace.behind_seconds(0, 25.0) == 15.0
    for step in range(2 * MOMENTS_MAX):
        pace.take(30.0 + step, 400 + step)
    assert len(pace.moments) == MOMENTS_MAX


def test_growth_is_known_after_a_while() -> None:
    pace = LogPace()
    assert pace.bytes_per_day(0.0) is None
    pace.take(0.0, 0)
    pace.take(60.0, 1000)
    assert pace.bytes_per_day(60.0) is None
    assert pace.bytes_per_day(240.0) == 1000 * 86_400 / 240


def test_since_when() -> None:
    since = Since()
    assert since.of("a", "in sync", 5) == 5
    assert since.of("a", "in sync", 9) == 5
    assert since.of("a", "gone", 11) == 11
    assert since.of("b", "gone", 12) == 12
