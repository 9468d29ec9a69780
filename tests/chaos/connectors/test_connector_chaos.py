"""The crash test from producers to sinks, as CI runs it; and that it catches mistakes, which takes longer than that."""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from tests.chaos.connectors.events import EVENTS_IN_CI, MORE_EVENTS, SHARES, ConnectorEvent, plan, rounds
from tests.chaos.connectors.lines import STREAMS, PlainLines, TotalLines, amount, line, sink_of
from tests.chaos.connectors.planted import BUGS
from tests.chaos.connectors.report import ConnectorReport
from tests.chaos.connectors.run import connector_crash_test
from tests.chaos.connectors.totals import BEGIN, END

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 60 * float(os.environ.get("SOS_CHAOS_MINUTES", "2"))


@pytest.mark.chaos
@pytest.mark.timeout(int(_SECONDS) + 1800)
def test_each_line_has_its_effect_once_at_each_sink(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOS_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    report = connector_crash_test(tmp_path / "stage", seed=seed, seconds=_SECONDS, events_max=EVENTS_IN_CI)
    print(report.text())
    assert not report.findings, f"{report.text()}\npython -m tests.chaos.connectors --seed {seed}"
    assert report.events
    assert report.lines


@pytest.mark.soak
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_caught_at_the_sinks(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    report = connector_crash_test(
        tmp_path / "stage",
        seed=1,
        seconds=600,
        events_max=bug.events_max,
        kinds=bug.kinds,
        variant=bug.variant(name),
        recovery_seconds=60,
    )
    assert report.findings, f"nobody noticed that {bug.what}\n{report.text()}"


@pytest.mark.soak
@pytest.mark.parametrize("name", ["send_losing_attempts", "send_again_what_was_decided", "believe_the_sinks"])
def test_same_run_without_the_bug_is_clean(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    report = connector_crash_test(
        tmp_path / "stage", seed=1, seconds=600, events_max=6, kinds=bug.kinds, variant=bug.variant(name, healthy=True)
    )
    assert not report.findings, report.text()


def test_plan_has_a_minimum_of_each_kind_and_follows_from_its_seed() -> None:
    for seed in range(50):
        kinds = plan(random.Random(seed))
        assert len(kinds) == EVENTS_IN_CI
        counts = Counter(kinds)
        assert all(counts[kind] >= share.minimum for kind, share in SHARES.items())
        assert kinds == plan(random.Random(seed))


def test_rounds_follow_from_their_seed_and_begin_with_the_plan() -> None:
    blows = [blow for some in islice(rounds(random.Random(7)), 50) for blow in some]
    assert blows == [blow for some in islice(rounds(random.Random(7)), 50) for blow in some]
    begun = Counter(blow.kind for blow in blows[: EVENTS_IN_CI + MORE_EVENTS])
    assert all(begun[kind] >= share.minimum for kind, share in SHARES.items())


def test_all_runs_are_added_up_in_the_document() -> None:
    report = ConnectorReport(seed=1, seconds=60.0, lines=10)
    report.recoveries[ConnectorEvent.RELAY] += [1.0, 2.0]
    once = report.in_document(f"before\n{BEGIN}\n{END}\nafter\n\n## The last run\n\nold\n")
    report.findings.append("a row is lost")
    report.recoveries[ConnectorEvent.SINK] += [1.0]
    twice = report.in_document(once)
    assert "2 runs, 1 with a finding; 2.0 minutes, 60 lines." in twice
    assert "| the relay | 4 |" in twice
    assert "| a sink | 1 |" in twice
    assert "| all of them | 5 |" in twice
    assert twice.startswith("before\n")
    assert "after" in twice
    assert "old" not in twice


def test_plain_sinks_share_the_lines_and_take_each_once_and_in_order() -> None:
    judges = [PlainLines(0), PlainLines(1)]
    for stream in reversed(STREAMS):
        for number in range(50):
            assert judges[sink_of(number)].take(line(stream, number)) is None
    assert all(judge.position() >= 50 for judge in judges)
    for row in (line(STREAMS[0], 0), line(STREAMS[0], 70), line("elsewhere", 0), line(STREAMS[0], 60) + "!"):
        for judge in judges:
            assert judge.take(row) is not None


def test_totals_only_grow_and_are_those_of_the_lines() -> None:
    judge = TotalLines()
    for stream in STREAMS:
        assert judge.take(f"{stream} 2 {amount(0) + amount(1)}") is None
    assert judge.position() == 2
    right = sum(amount(number) for number in range(5))
    for row in (f"{STREAMS[0]} 2 {amount(0) + amount(1)}", f"{STREAMS[0]} 5 {right + 1}", "x 3 0", f"{STREAMS[0]} 5"):
        assert judge.take(row) is not None
    assert judge.take(f"{STREAMS[0]} 5 {right}") is None
