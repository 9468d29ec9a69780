"""The crash test as CI runs it: one round of events, a minimum of each kind, nothing lost, duplicated or changed."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.chaos.events import EVENTS_IN_CI, SHARES, plan
from tests.chaos.run import crash_test
from tests.chaos.takeovers import play_rounds

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 60 * float(os.environ.get("SOS_CHAOS_MINUTES", "60"))
"""CI counts events: this is for machines on which they take long."""


@pytest.mark.chaos
@pytest.mark.timeout(int(_SECONDS) + 1800)
def test_nothing_is_lost_duplicated_or_changed(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOS_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    report = crash_test(tmp_path / "stage", seed=seed, seconds=_SECONDS, events_max=EVENTS_IN_CI)
    print(report.text())
    again = f'make chaos ARGS="--seed {seed}"'
    assert not report.findings, f"{report.text()}\n{again}"
    assert report.events == EVENTS_IN_CI, f"{report.text()}\n{again}"
    for kind, share in SHARES.items():
        assert len(report.recoveries[kind]) >= share.minimum


@pytest.mark.chaos
def test_takeovers_under_load_lose_nothing_with_any_member_missing(tmp_path: Path) -> None:
    report = play_rounds(tmp_path, seconds=1, seed=int(os.environ.get("SOS_CHAOS_SEED", "1")), events=20)
    assert not report.findings, report.text(1)
    assert report.taken_away == 3
    assert report.calls > 100


def test_plan_has_a_minimum_of_each_kind_and_follows_from_its_seed() -> None:
    for seed in range(50):
        kinds = plan(random.Random(seed))
        assert len(kinds) == EVENTS_IN_CI
        counts = Counter(kinds)
        assert all(counts[kind] >= share.minimum for kind, share in SHARES.items())
        assert kinds == plan(random.Random(seed))
