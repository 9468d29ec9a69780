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
    f"tests/sos_client/test_{name}.py"
    for name in [
        "checksum",
        "codec",
        "connection",
        "data_run",
        "errors",
        "frames",
        "msgpack_edge",
        "retry",
        "wire_document",
    ]
]

TESTED_BY_NAME: Final = [
    "record",
    "segment",
    "recovery",
    "image",
    "index_snapshot",
    "backup_mark",
    "operation_window",
    "timekeeping",
    "path_claims",
    "replica_progress",
    "takeover",
    "membership",
    "promise",
    "stored_objects",
    "cleaner",
]
"""Modules of the journal whose test has their name."""
JOURNAL: Final = [
    *(f"journal/{name}.py" for name in [*TESTED_BY_NAME, "checkpoint_layout", "operator_metadata"]),
    *(f"journal/gateway/{name}.py" for name in ["messages", "elements", "encoding", "decoding", "answer_checks"]),
]
JOURNAL_TESTS: Final = [
    *(f"tests/journal/test_{name}.py" for name in TESTED_BY_NAME),
    *(
        f"tests/journal/test_{name}.py"
        for name in ["paths", "checkpoint_checks", "live_checkpoints", "rare_cases", "format"]
    ),
    "tests/journal/gateway/test_codec.py",
    "tests/journal/gateway/test_answer_checks.py",
]

CONNECTORS: Final = ["connectors/wire/*"]
CONNECTOR_TESTS: Final = [
    f"tests/connectors/test_{name}.py"
    for name in ["codec", "message_run", "session", "wallaroo_vectors", "wire_document"]
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "tests"),
    [(WIRE, WIRE_TESTS), (JOURNAL, JOURNAL_TESTS), (CONNECTORS, CONNECTOR_TESTS)],
    ids=["wire protocol", "journal", "connectors"],
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
