"""Servers, services, owners and drivers in the simulator: no seed may break a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.__main__ import describe
from tests.simulation.journal_run import simulate_journal
from tests.simulation.journal_scenario import PROFILES
from tests.simulation.runner import Summary, command_for, seeds_of_this_commit, simulate_many

if TYPE_CHECKING:
    from collections.abc import Callable

HAPPENED = (
    *("power cut", "kill", "took over", "answered", "partition", "cut", "lose replies"),
    *("members changed", "taken away", "pin", "moments audited", "judged twice", "clock jump", "repeated"),
    *("operations audited", "records audited", "answered ALREADY_EXISTS", "answered NOT_FOUND"),
    *("plain socket", "short send", "tasks shared a connection"),
)
"""A simulation in which these never happen shows nothing."""
HAPPENED_IN_MANY = (
    *HAPPENED,
    "given up on a shared connection",
    "went on",
    "wipe",
    "rot",
    "sleep",
    "replace a member",
    "add a member",
    "remove a member",
)
"""What comes by in one of twenty runs: twenty of them need not have it, `RUNS_MIN` must."""
SECONDS = 80.0
"""What a CI run spends; the number of runs is printed."""
RUNS_MIN = 100


def check(summary: Summary, happened: tuple[str, ...]) -> None:
    failed = [f"{command_for('journal', report.seed)}\n{report.violation}" for report in summary.violations]
    assert not failed, "\n".join(failed)
    assert [what for what in happened if not summary.counts[what]] == []


@pytest.mark.parametrize("seed", range(len(PROFILES)))
def test_the_same_seed_gives_the_same_journal_run(seed: int) -> None:
    first, second = simulate_journal(seed, keep_trace=True), simulate_journal(seed, keep_trace=True)
    assert first.trace == second.trace
    assert first.digest == second.digest


def test_some_seeds() -> None:
    check(simulate_many("journal", range(20)), HAPPENED)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_as_many_seeds_as_there_is_time_for(tell: Callable[[str], None]) -> None:
    summary = simulate_many("journal", seeds_of_this_commit(), seconds=SECONDS, runs_min=RUNS_MIN)
    tell(describe("journal", summary))
    check(summary, HAPPENED_IN_MANY)
