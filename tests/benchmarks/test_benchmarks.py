"""Each benchmark runs once, shortly, so that none can rot. No ratio is judged here: a shared machine says nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.__main__ import SUITES, measure
from tests.benchmarks.comparison import Report, beside, read_results, stolen_share

if TYPE_CHECKING:
    from pathlib import Path


NOTHING_COMPARED = {"growth", "profiles"}
SECONDS = 0.1
"""Of each measurement: enough for every step of it to be taken."""


@pytest.mark.slow
@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_suite_runs(suite: str, tmp_path: Path) -> None:
    report = Report(rounds=1)
    measure(suite, report, tmp_path, SECONDS)
    assert report.results or report.left_out or suite in NOTHING_COMPARED
    assert all(result.ours > 0 and result.peer > 0 for result in report.results)


def test_rounds_alternate_and_the_median_of_the_ratios_counts() -> None:
    report = Report(rounds=3)
    calls: list[str] = []
    ours, peer = iter([10.0, 30.0, 20.0]), iter([10.0, 10.0, 10.0])

    def measure_ours() -> float:
        calls.append("ours")
        return next(ours)

    def measure_peer() -> float:
        calls.append("peer")
        return next(peer)

    result = report.compare("x", measure_ours, measure_peer, peer_name="y", unit="1/s", goal=1.0)
    assert calls == ["ours", "peer", "peer", "ours", "ours", "peer"]
    assert result.ratio == 2.0


def test_latencies_turn_the_ratio_round() -> None:
    report = Report(rounds=1)
    result = report.compare("x", lambda: 2.0, lambda: 6.0, peer_name="y", unit="ms", goal=None, smaller_is_better=True)
    assert result.ratio == 3.0


def result_of(report: Report, suite: str, name: str, goal: float | None) -> None:
    report.suite = suite
    report.state(name, 1.0, 2.0, peer_name="y", unit="MiB", goal=goal)


def test_every_goal_in_the_file_is_a_number(tmp_path: Path) -> None:
    report = Report(rounds=1)
    result_of(report, "a", "with", 1.0)
    result_of(report, "a", "without", None)
    report.write_json(tmp_path / "bench.json")
    assert [row["goal"] for row in json.loads((tmp_path / "bench.json").read_text())] == [1.0]
    assert [result.name for result in read_results(beside(tmp_path / "bench.json"))] == ["without"]


def test_what_is_not_measured_again_is_kept(tmp_path: Path) -> None:
    before, now = Report(rounds=1), Report(rounds=1)
    for suite, name in (("a", "old"), ("b", "kept"), ("c", "again"), ("c", "broken")):
        result_of(before, suite, name, 1.0)
    before.write_json(tmp_path / "bench.json")
    for suite, name in (("c", "again"), ("a", "new")):
        result_of(now, suite, name, 1.0)
    now.keep_others(tmp_path / "bench.json", measured={"a"})
    now.in_order(["a", "b", "c"])
    assert [result.name for result in now.results] == ["new", "kept", "again", "broken"]


def test_the_share_that_others_took() -> None:
    assert stolen_share([0] * 8, [10, 0, 10, 60, 0, 0, 0, 20]) == 0.2
