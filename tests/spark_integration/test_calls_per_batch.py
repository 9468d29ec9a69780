"""What a micro-batch asks of the journal service, counted on the wire: few calls, each one round trip."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from spark_integration.pipelines.service_process import real_service
from tests.benchmarks.spark_query import DEFAULT_MANAGER, SOS_MANAGER, Run, Timing
from tests.benchmarks.spark_suite import CALLS_MAX, PURGE_BEGINS, warm_spark
from tests.spark_integration.call_recorder import CallRecorder, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.spark
_BATCHES: Final = 15


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Callable[[Run], Timing]]]:
    """The address of a service, and a Spark that uses it."""
    folder = tmp_path_factory.mktemp("calls")
    with real_service(folder, "bench") as service, warm_spark(folder, service.address) as timing_of:
        yield service.address, timing_of


def _calls_of(spark: tuple[str, Callable[[Run], Timing]], manager: str, batches: int) -> CallRecorder:
    service, timing_of = spark
    with recorded(service) as recorder:
        timing_of(Run(checkpoint="sos://bench/q", manager=manager, service=recorder.address, batches=batches))
        return recorder


def test_sparks_manager_for_hdfs_makes_far_more_calls(spark: tuple[str, Callable[[Run], Timing]]) -> None:
    """The figures of docs/spark.md: a temporary file and a rename for each file, on the same storage."""
    recorder = _calls_of(spark, DEFAULT_MANAGER, 10 + 2 * _BATCHES)
    edges = tuple(f"/commits/{batch}" for batch in (10, 10 + _BATCHES))  # first of all it looks whether there is one
    ends = [number for number, call in enumerate(recorder.calls) if call.path.endswith(edges)]
    calls = Counter(call.kind.name for call in recorder.calls[ends[0] : ends[-1]])
    assert calls == {"STAT": 10 * _BATCHES, "PUT": 2 * _BATCHES, "RENAME": 2 * _BATCHES}


def test_a_stateless_batch_makes_six_calls_of_one_round_trip_each(spark: tuple[str, Callable[[Run], Timing]]) -> None:
    last = PURGE_BEGINS + _BATCHES
    recorder = _calls_of(spark, SOS_MANAGER, last)
    checkpoint = recorder.calls[0].path
    before_purging = recorder.between_batches(checkpoint, 10, 10 + _BATCHES)
    purging = recorder.between_batches(checkpoint, PURGE_BEGINS, last)
    assert Counter((call.kind.name, call.path.split("/")[1]) for call in before_purging) == {
        (kind, log): _BATCHES for kind in ("STAT", "PUT") for log in ("offsets", "commits")
    }
    # Old batches are deleted by a thread of its own, which may be a batch late.
    assert len(purging) <= CALLS_MAX * (_BATCHES + 1)
    assert {call.kind.name for call in purging} == {"STAT", "PUT", "DELETE"}
    answered = [call for call in purging if call.frames_back]
    assert len(purging) - len(answered) <= 2  # that thread does not wait for its answers when Spark ends
    assert all(call.is_one_round_trip for call in before_purging + answered)
    assert recorder.greetings <= 2 * 4  # HELLO and OPEN of a few connections, which serve all batches
