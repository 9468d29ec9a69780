"""What a micro-batch asks of the journal service, counted on the wire: few calls, each one round trip."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from spark_integration.pipelines.service_process import real_service
from tests.benchmarks.spark_query import SOS_MANAGER, Run
from tests.benchmarks.spark_suite import CALLS_MAX, PURGE_BEGINS, warm_spark
from tests.spark_integration.call_recorder import recorded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
_BATCHES: Final = 15


def test_a_stateless_batch_makes_six_calls_of_one_round_trip_each(tmp_path: Path) -> None:
    with (
        real_service(tmp_path, "bench") as service,
        recorded(service.address) as recorder,
        warm_spark(tmp_path, service.address) as timing_of,
    ):
        last = PURGE_BEGINS + _BATCHES
        timing_of(Run(checkpoint="sos://bench/q", manager=SOS_MANAGER, service=recorder.address, batches=last))
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
