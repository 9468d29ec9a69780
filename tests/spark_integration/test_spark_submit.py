"""spark-submit with the settings that the tool prints, TLS and a token; a checkpoint that moves in, and out again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from spark_integration.jar import jar_path
from spark_integration.pipelines.batch_folder import conflicts, stored_batches
from spark_integration.pipelines.driver_process import QUICK_START
from spark_integration.pipelines.queries import TOTALS
from spark_integration.pipelines.records import all_records
from spark_integration.pipelines.service_process import ServiceProcess, journal_command, start_server
from spark_integration.run_credentials import make_run_credentials
from tests.spark_integration.java_checks import spark_jars

pytestmark = pytest.mark.spark
_PER_FILE: Final = 30
_ROOT: Final = Path(__file__).parents[2]


def _guarded_service(folder: Path, stack: ExitStack) -> list[str]:
    """Options that lead any of the tool's commands to a journal service with TLS and a token."""
    server = start_server(folder, "server")
    stack.callback(server.stop)
    credentials = make_run_credentials(folder, volume="payments", certified_host="127.0.0.1")
    certificate = credentials.certificate
    assert certificate is not None
    command = journal_command([server.address], folder / "journal", "payments")
    command += ["--tls-cert", str(certificate.file), "--tls-key", str(certificate.key_file)]
    command += ["--tokens", str(credentials.tokens_file)]
    service = ServiceProcess.start(command, folder / "journal.log")
    stack.callback(service.stop)
    return [
        *("--service", service.address),
        *("--token-file", str(credentials.token_file)),
        *("--tls-ca", str(certificate.file)),
    ]


def _journal(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "journal", *arguments]


def _submit(folder: Path, printed: str, specification: dict[str, object]) -> None:
    """As the tool's own help says: what it prints goes between spark-submit and the program, read by a shell."""
    (folder / "specification.json").write_text(json.dumps(specification))
    program = shlex.join([str(Path(__file__).parent / "drive_migration.py"), str(folder / "specification.json")])
    own = f"--master local[2] --conf spark.ui.enabled=false --conf spark.local.dir={folder}"
    own += " --conf spark.sql.shuffle.partitions=2"
    finished = subprocess.run(
        ["bash", "-c", f"{spark_jars().parent}/bin/spark-submit {own} {printed} {program}"],
        env=os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-5000:]


def test_printed_settings_serve_and_a_checkpoint_moves_in_and_out(tmp_path: Path) -> None:
    for name in ("input", "output"):
        (tmp_path / name).mkdir()
    old, new, inside = tmp_path / "old", tmp_path / "new", "sos://payments/moved/q"
    with ExitStack() as stack:
        where = _guarded_service(tmp_path, stack)
        printing = _journal("spark-conf", "payments", *where, "--jar", str(jar_path()), "--format", "submit")
        printed = subprocess.run(printing, capture_output=True, text=True, check=True).stdout
        steps = [
            (f"file://{old}", _journal("import", str(old), inside, *where)),
            (inside, None),
            (inside, _journal("export", inside, str(new), *where)),
            (f"file://{new}", None),
        ]
        _submit(
            tmp_path,
            printed.strip(),
            {
                "input": str(tmp_path / "input"),
                "output": str(tmp_path / "output"),
                "per_file": _PER_FILE,
                "steps": steps,
            },
        )
    assert conflicts(tmp_path / "output") == []
    batches = stored_batches(tmp_path / "output")
    assert list(batches) == list(range(len(steps)))
    assert TOTALS.shown(batches) == TOTALS.answer(all_records(len(steps), per_file=_PER_FILE))
    for folder, last in ((old, 0), (new, 3)):
        commits = [int(path.name) for path in (folder / "commits").iterdir() if path.name.isdigit()]
        assert sorted(commits) == list(range(last + 1))
