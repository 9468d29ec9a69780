"""The crash test catches each planted mistake, and does not cry without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.planted import BUGS
from tests.chaos.run import crash_test

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_caught(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    report = crash_test(
        tmp_path / "stage",
        seed=1,
        seconds=600,
        events_max=bug.events_max,
        kinds=bug.kinds,
        variant=bug.variant(name),
        recovery_seconds=60,
    )
    assert report.findings, f"nobody noticed that {bug.what}\n{report.text()}"


def test_same_run_without_a_bug_is_clean(tmp_path: Path) -> None:
    name = "swallow_an_error_in_close"
    bug = BUGS[name]
    report = crash_test(
        tmp_path / "stage", seed=1, seconds=600, events_max=3, kinds=bug.kinds, variant=bug.variant(name, healthy=True)
    )
    assert not report.findings, report.text()
