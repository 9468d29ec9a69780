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


NOT_MENDED = ("the pinned moment", "nobody can take the volume over, and all is in order")
"""Shown by one seed of a hundred, and not understood yet: a test below has seeds for each, and fails when it is mended.
Until then such a seed ends no CI run; `make soak` and `python -m tests.simulation` still call it a violation."""


def check(summary: Summary, happened: tuple[str, ...]) -> None:
    new = [report for report in summary.violations if not any(known in str(report.violation) for known in NOT_MENDED)]
    failed = [f"{command_for('journal', report.seed)}\n{report.violation}" for report in new]
    assert not failed, "\n".join(failed)
    assert [what for what in happened if not summary.counts[what]] == []


@pytest.mark.parametrize("seed", range(len(PROFILES)))
def test_the_same_seed_gives_the_same_journal_run(seed: int) -> None:
    first, second = simulate_journal(seed, keep_trace=True), simulate_journal(seed, keep_trace=True)
    assert first.trace == second.trace
    assert first.digest == second.digest


@pytest.mark.xfail(strict=True, reason="shown, not understood yet; mended, it fails here and moves to the seeds above")
@pytest.mark.parametrize(
    ("seed", "wrong"),
    [
        (497093, "the pinned moment 12725 is not readable"),
        (500067, "nobody can take the volume over, and all is in order"),
    ],
)
def test_what_seeds_have_shown_and_nobody_has_mended(seed: int, wrong: str) -> None:
    violation = simulate_journal(seed).violation or ""
    assert wrong not in violation


@pytest.mark.parametrize("seed", [498019, 499119, 499159])
def test_who_opens_while_tokens_are_read_again_has_the_rights_of_now(seed: int) -> None:
    """OPEN waits until the volume has an owner: the rights from before that wait were in force after it."""
    assert simulate_journal(seed).violation is None


def test_some_seeds() -> None:
    check(simulate_many("journal", range(20)), HAPPENED)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_as_many_seeds_as_there_is_time_for(tell: Callable[[str], None]) -> None:
    summary = simulate_many("journal", seeds_of_this_commit(), seconds=SECONDS, runs_min=RUNS_MIN)
    tell(describe("journal", summary))
    check(summary, HAPPENED_IN_MANY)
