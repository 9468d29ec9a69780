"""The benchmark of checked arrays still runs, every case of it."""

from __future__ import annotations

from tests.benchmarks.array_checks import cases, measure


def test_cases_run() -> None:
    assert measure(1, 2).keys() == cases().keys()
