"""The store's benchmark still runs, every case of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.store_bench import CASES, Case, run_case

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_runs(tmp_path: Path, case: Case) -> None:
    small = dataclasses.replace(case, objects=min(case.objects, 100))
    assert any(run_case(str(tmp_path), small, seconds) > 0 for seconds in (0.05, 1.0, 5.0))  # a busy machine stalls
