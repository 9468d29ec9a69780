"""The README's streaming query, as it stands there, by somebody who has copied it into a file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_integration.pipelines.driver_process import QUICK_START, wait_until

pytestmark = pytest.mark.spark
_ROOT = Path(__file__).parents[2]


def _example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (_ROOT / "README.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "with_sos_checkpoints" in block]
    return str(example)


def _run_until(place: Path, batch: int) -> str:
    """What it said until this batch was out; then Ctrl-C, as its user would."""
    environment = os.environ | QUICK_START | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_ROOT)}
    environment |= {"XDG_DATA_HOME": str(place / "data"), "SPARK_LOCAL_IP": "127.0.0.1"}
    process = subprocess.Popen(
        [sys.executable, str(place / "payments.py")],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.strip() == f"Batch: {batch}":
            break
    os.killpg(process.pid, signal.SIGINT)
    said += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return "".join(said)


def test_example_runs_and_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "payments.py").write_text(_example())
    first = _run_until(tmp_path, 1)
    assert "Batch: 0" in first, first
    assert "They do not survive the loss of this machine" in first
    assert re.search(
        r"a journal service runs here at 127.0.0.1:\d+; .*export SOS_PROFILES=\S+/profiles.toml; "
        "sos-journal batches sos://payments",
        first,
    )
    again = _run_until(tmp_path, 2)
    assert "Batch: 0" not in again, again
    assert "Batch: 2" in again, again
    wait_until(lambda: not _is_served(tmp_path), seconds=600, what="the end of server and service")


def _is_served(place: Path) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(place / "data").encode() in path.read_bytes():
                return True
        except OSError:  # it has ended meanwhile
            continue
    return False
