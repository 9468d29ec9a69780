"""Every line and branch of the pure modules is run by the tests of these modules alone.

They decide about bytes that others send, or that a disk gives back, so a case that nobody tried is a hole. What runs
them by chance, such as a whole server, does not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
# With a seed: what Hypothesis finds by chance in one run it would not find in the next.
PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1")

WIRE: Final = ["sos_client/wire/*", "sos_client/retry.py"]
WIRE_TESTS: Final = [
    "tests/sos_client/wire/test_checksum.py",
    "tests/sos_client/wire/test_codec.py",
    "tests/sos_client/wire/test_connection.py",
    "tests/sos_client/wire/test_data_run.py",
    "tests/sos_client/wire/test_errors.py",
    "tests/sos_client/wire/test_frames.py",
    "tests/sos_client/wire/test_msgpack_edge.py",
    "tests/sos_client/wire/test_shapes.py",
    "tests/sos_client/wire/test_strangers.py",
    "tests/sos_client/test_retry.py",
    "tests/sos_client/wire/test_document.py",
]

JOURNAL: Final = [
    "journal/records/record.py",
    "journal/records/segment.py",
    "journal/records/chain_rules.py",
    "journal/image/image.py",
    "journal/image/index_snapshot.py",
    "journal/copies/backup_mark.py",
    "journal/image/operation_window.py",
    "journal/records/timekeeping.py",
    "journal/image/path_claims.py",
    "journal/owner/replica_progress.py",
    "journal/takeover/rules.py",
    "journal/takeover/takeover.py",
    "journal/records/membership.py",
    "journal/copies/promise.py",
    "journal/records/stored_objects.py",
    "journal/records/shards.py",
    "journal/owner/retention.py",
    "journal/checkpoint/layout.py",
    "journal/checkpoint/operator_metadata.py",
    "journal/gateway/wire/messages.py",
    "journal/gateway/wire/bodies.py",
    "journal/gateway/wire/elements.py",
    "journal/gateway/wire/encoding.py",
    "journal/gateway/wire/decoding.py",
    "journal/gateway/wire/tagging.py",
    "journal/gateway/wire/answer_checks.py",
]
JOURNAL_TESTS: Final = [
    "tests/journal/records/test_record.py",
    "tests/journal/records/test_segment.py",
    "tests/journal/records/test_chain_rules.py",
    "tests/journal/image/test_image.py",
    "tests/journal/image/test_own_puts.py",
    "tests/journal/image/test_index_snapshot.py",
    "tests/journal/copies/test_backup_mark.py",
    "tests/journal/image/test_operation_window.py",
    "tests/journal/records/test_timekeeping.py",
    "tests/journal/image/test_path_claims.py",
    "tests/journal/owner/test_replica_progress.py",
    "tests/journal/takeover/test_takeover.py",
    "tests/journal/records/test_membership.py",
    "tests/journal/copies/test_promise.py",
    "tests/journal/records/test_stored_objects.py",
    "tests/journal/records/test_shards.py",
    "tests/journal/owner/test_retention.py",
    "tests/journal/records/test_paths.py",
    "tests/journal/checkpoint/test_checks.py",
    "tests/journal/checkpoint/test_live_checkpoints.py",
    "tests/journal/test_refusals_of_pure_parts.py",
    "tests/journal/test_format.py",
    "tests/journal/gateway/wire/test_codec.py",
    "tests/journal/gateway/wire/test_answer_checks.py",
]

CONNECTORS: Final = [
    "connectors/wire/*",
    "connectors/order/*",
    "connectors/relay/coordinator.py",
    "connectors/relay/decision_lines.py",
    "connectors/relay/manifest.py",
    "connectors/relay/staged_rows.py",
    "connectors/sink/sink_history.py",
    "connectors/sink/sink_rows.py",
    "connectors/sink/sink_rules.py",
    "connectors/ingest/drain_order.py",
    "connectors/ingest/reader_position.py",
    "connectors/ingest/report.py",
    "connectors/ingest/retention.py",
    "connectors/registry/claims.py",
]
CONNECTOR_TESTS: Final = [
    f"tests/connectors/{name}.py"
    for name in [
        "test_codec",
        "test_message_run",
        "test_row_run",
        "test_session",
        "test_wallaroo_vectors",
        "test_wire_document",
        "test_retention",
        "test_registry",
        "order/test_run_merge",
        "relay/test_coordinator",
        "relay/test_formats",
        "sink/test_sink_formats",
    ]
]

WEB: Final = ["journal/web/outlook.py", "journal/owner/query_facts.py", "sos_client/web/sampling.py"]
WEB_TESTS: Final = [
    "tests/journal/web/test_outlook.py",
    "tests/journal/owner/test_query_facts.py",
    "tests/sos_client/web/test_sampling.py",
]

ORDER: Final = ["spark_integration/order/plan_*.py", "spark_integration/order/verdict_text.py"]
ORDER_TESTS: Final = ["tests/spark_integration/order/test_plan_verdict.py"]


COVERED_TESTS: Final = [*WIRE_TESTS, *JOURNAL_TESTS, *CONNECTOR_TESTS, *WEB_TESTS, *ORDER_TESTS]


def test_each_of_them_is_there() -> None:
    for pattern in [*WIRE, *JOURNAL, *CONNECTORS, *WEB, *ORDER, *COVERED_TESTS]:
        assert list(ROOT.glob(pattern)), pattern


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "tests"),
    [
        (WIRE, WIRE_TESTS),
        (JOURNAL, JOURNAL_TESTS),
        (CONNECTORS, CONNECTOR_TESTS),
        (WEB, WEB_TESTS),
        (ORDER, ORDER_TESTS),
    ],
    ids=["wire protocol", "journal", "connectors", "web", "order"],
)
def test_the_pure_modules_are_covered(modules: list[str], tests: list[str], tmp_path: Path) -> None:
    def coverage(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "COVERAGE_FILE": str(tmp_path / "coverage")}
        command = [sys.executable, "-m", "coverage", *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    run = coverage("run", f"--include={','.join(modules)}", *PYTEST, *tests)
    assert run.returncode == 0, run.stdout
    report = coverage("report", "--show-missing", "--skip-covered", "--fail-under=100")
    assert report.returncode == 0, report.stdout + report.stderr
