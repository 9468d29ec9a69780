"""The server and its clients in the simulator: no seed may break a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.__main__ import describe
from tests.simulation.runner import Summary, command_for, seeds_of_this_commit, simulate_many

if TYPE_CHECKING:
    from collections.abc import Callable

HAPPENED = (
    *("power cut", "kill", "stopped", "sync failed", "write failed", "cut", "lose replies", "partition", "connect"),
    *("appends ended", "followed pieces", "objects audited", "refused FENCED", "refused NO_SPACE", "refused IO_ERROR"),
    *("plain socket", "short send"),
)
"""A simulation in which these never happen shows nothing."""
SECONDS = 80.0
"""What a CI run spends; the number of runs is printed."""
RUNS_MIN = 200


def check(summary: Summary) -> None:
    failed = [f"{command_for('server', report.seed)}\n{report.violation}" for report in summary.violations]
    assert not failed, "\n".join(failed)
    assert [what for what in HAPPENED if not summary.counts[what]] == []


def test_some_seeds() -> None:
    check(simulate_many("server", range(40)))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_as_many_seeds_as_there_is_time_for(tell: Callable[[str], None]) -> None:
    summary = simulate_many("server", seeds_of_this_commit(), seconds=SECONDS, runs_min=RUNS_MIN)
    tell(describe("server", summary))
    check(summary)
