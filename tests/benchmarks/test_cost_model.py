"""The model of cost: worked by hand where it can be, and docs/scale.md as the figures have it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from journal.records.change import PutChange, encode_change
from journal.records.record import FIRST_CHAIN, FIRST_LSN, Kind, encode_record
from tests.benchmarks import scale
from tests.benchmarks.charts import FIGURES
from tests.benchmarks.cost_model import (
    BATCHES_KEPT,
    BUSY_MAX,
    DRIVER_CALLS,
    RECORD_BYTES,
    Coefficients,
    Line,
    Workload,
    cost,
    file_seconds,
    fitted,
    put_seconds,
    restart_seconds,
)

if TYPE_CHECKING:
    from pathlib import Path

FOUND = Coefficients(
    put_by_bytes=Line(fixed=40e-6, per_unit=1e-9),
    put_by_members=Line(fixed=32e-6, per_unit=8e-6),
    alone_by_members=Line(fixed=0.1e-3, per_unit=0.2e-3),
    memory_by_files=Line(fixed=100e6, per_unit=1000.0),
    append_seconds=6e-6,
    read_bytes_per_second=500e6,
    calls_per_file=3.0,
)
EACH = 66e-6 + 56.128e-6 + 40e-6
"""A put of 10,000 B on three members, one of 128 B, and a question."""
JOIN = Workload(name="join", partitions=200, stores=4, batches_per_minute=6, file_bytes=10_000, cores=20)


def test_a_line_is_found_again() -> None:
    line = fitted([(x, 5 + 3 * x) for x in (1.0, 2.0, 10.0, 1000.0)])
    assert (line.fixed, line.per_unit) == pytest.approx((5, 3))
    assert line.at(7) == pytest.approx(26)


def test_a_small_cost_counts_as_much_as_a_large_one() -> None:
    """A tenth too much at the far end bends a plain fit so that nothing is left of the fixed part."""
    line = fitted([(0.0, 1.0), (1.0, 2.0), (10.0, 11.0), (1000.0, 1101.0)])
    assert line.at(0) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("points", [[], [(1.0, 1.0)], [(1.0, 1.0), (1.0, 2.0)], [(1.0, 1.0), (2.0, 0.0)]])
def test_what_makes_no_line(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="no line"):
        fitted(points)


def test_a_record_takes_as_much_as_is_said() -> None:
    path = "checkpoints/payments-per-customer/state/0/1234/left-keyWithIndexToValue/1234567.delta"
    meta = encode_change(PutChange(path=path, modified_ms=1_700_000_000_000))
    head, _ = encode_record(
        kind=Kind.PUT, lsn=FIRST_LSN, acknowledged_lsn=FIRST_LSN, time_ms=0, meta=meta, chain=FIRST_CHAIN
    )
    assert RECORD_BYTES / 2 <= len(head) <= RECORD_BYTES


def test_a_join_by_hand() -> None:
    needs = cost(JOIN, FOUND)
    writes = 1600 + DRIVER_CALLS
    assert put_seconds(10_000, 3, FOUND) == pytest.approx(66e-6)
    assert file_seconds(JOIN, FOUND) == pytest.approx(EACH)
    assert needs.service_cores == pytest.approx((800 * EACH + DRIVER_CALLS * 56e-6) / 10)
    assert needs.shards_needed == 1
    assert needs.stored_bytes_per_second == pytest.approx(800 * (10_000 + 128 + 2 * RECORD_BYTES) / 10)
    assert needs.network_bytes_per_second == pytest.approx(4 * needs.stored_bytes_per_second)
    assert needs.syncs_per_second_max == pytest.approx(writes / 10)
    assert needs.server_cores == pytest.approx((800 * 10_000 / 4096 + 800 + DRIVER_CALLS) / 10 * 6e-6)
    assert needs.files == 1604 * BATCHES_KEPT
    assert needs.memory_bytes == pytest.approx(100e6 + 1604 * BATCHES_KEPT * 1000)


def test_a_batch_waits_for_its_tasks_or_for_the_service() -> None:
    in_turn = 10 * 4 * 0.7e-3
    assert cost(JOIN, FOUND).write_seconds == pytest.approx(max(800 * EACH, in_turn))
    few = replace(JOIN, cores=2)
    assert cost(few, FOUND).write_seconds == pytest.approx(100 * 4 * 0.7e-3)
    assert cost(replace(JOIN, shards=8, cores=800), FOUND).write_seconds == pytest.approx(800 * EACH / 8)


def test_shards_carry_what_one_core_does_not() -> None:
    busy = replace(JOIN, batches_per_minute=6 * 120)
    needs = cost(busy, FOUND)
    assert needs.service_cores == pytest.approx(120 * cost(JOIN, FOUND).service_cores)
    assert BUSY_MAX * (needs.shards_needed - 1) < needs.service_cores <= BUSY_MAX * needs.shards_needed
    assert cost(replace(busy, shards=4), FOUND).memory_bytes < needs.memory_bytes


def test_state_comes_through_all_shards() -> None:
    assert restart_seconds(10e9, 1, FOUND) == pytest.approx(20)
    assert restart_seconds(10e9, 4, FOUND) == pytest.approx(5)


def test_what_was_not_measured_is_not_made_up(tmp_path: Path) -> None:
    (tmp_path / "profiles.json").write_text("[]", encoding="utf-8")
    with pytest.raises(LookupError, match="was not measured"):
        scale.Measured(tmp_path).result(scale.CALLS)
    with pytest.raises(LookupError, match="no restart"):
        scale.Measured(tmp_path).read_bytes_per_second()


def test_the_document_says_what_the_figures_say() -> None:
    text = scale.DOCUMENT.read_text(encoding="utf-8")
    assert scale.rendered(FIGURES, text) == text, "run: python -m tests.benchmarks.scale"
