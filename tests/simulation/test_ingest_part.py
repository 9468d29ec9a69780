"""Programs, rivals, listeners and readers in the simulator: no seed may break a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.__main__ import describe
from tests.simulation.ingest_run import simulate_ingest
from tests.simulation.runner import Summary, command_for, seeds_of_this_commit, simulate_many

if TYPE_CHECKING:
    from collections.abc import Callable

HAPPENED = (
    *("power cut", "kill", "took over", "ingest", "acknowledged", "flushed", "granted", "read", "messages judged"),
    *("went on", "plain socket", "short send"),
)
"""A simulation in which these never happen shows nothing."""
SECONDS = 40.0
"""What a CI run spends; the number of runs is printed."""
RUNS_MIN = 30


def check(summary: Summary) -> None:
    failed = [f"{command_for('ingest', report.seed)}\n{report.violation}" for report in summary.violations]
    assert not failed, "\n".join(failed)
    assert [what for what in HAPPENED if not summary.counts[what]] == []


@pytest.mark.parametrize("seed", [0, 5])
def test_the_same_seed_gives_the_same_ingest_run(seed: int) -> None:
    first, second = simulate_ingest(seed, keep_trace=True), simulate_ingest(seed, keep_trace=True)
    assert first.trace == second.trace
    assert first.digest == second.digest


def test_some_seeds() -> None:
    check(simulate_many("ingest", range(12)))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_as_many_seeds_as_there_is_time_for(tell: Callable[[str], None]) -> None:
    summary = simulate_many("ingest", seeds_of_this_commit(), seconds=SECONDS, runs_min=RUNS_MIN)
    tell(describe("ingest", summary))
    check(summary)
