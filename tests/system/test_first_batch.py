"""docs/first-batch.md, typed into an empty environment: first batch, loss of a server, in less than five minutes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.system.ports import free_port
from tests.system.released import ROOT, built

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark
DOCUMENT: Final = ROOT / "docs" / "first-batch.md"
FIRST_BATCH_SECONDS_MAX: Final = 300.0


def _typed() -> str:
    """What the document has people copy, on ports that are free here, with shorter queries."""
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), flags=re.MULTILINE | re.DOTALL))
    ports = {f"740{number}": str(free_port()) for number in (1, 2, 3)}
    for old, new in ports.items():
        script = script.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    case = " ".join(f"{number}) port={ports[f'740{number}']};;" for number in (1, 2, 3))
    assert "127.0.0.1:740$n" in script
    script = script.replace("    sos-server --root", f"    case $n in {case} esac\n    sos-server --root")
    script = script.replace("127.0.0.1:740$n", "127.0.0.1:$port").replace("awaitTermination(15)", "awaitTermination(6)")
    return script.replace("$(ls dist/sos_checkpoints-*.whl)", f"$(ls {built()[0]})")


def test_first_batch_by_copy_and_paste(tmp_path: Path, tell: Callable[[str], None]) -> None:
    script, began, first_batch = _typed(), time.monotonic(), 0.0
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SOS_", "PYTHON", "VIRTUAL"))
    }
    environment |= {"XDG_DATA_HOME": str(tmp_path / "data"), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        with (tmp_path / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                ["bash", "-eu"],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(script)
            process.stdin.close()
            said = []
            for line in process.stdout:
                said.append(line)
                if line.strip() == "Batch: 0":
                    first_batch = time.monotonic() - began
            code = process.wait(60)
            process.stdout.close()
    finally:
        for pid in (tmp_path / "sos-first").glob("server-*.pid"):
            if (Path("/proc") / pid.read_text().strip()).exists():
                subprocess.run(["kill", "-9", pid.read_text().strip()], check=False)
    output = "".join(said)
    assert code == 0, output + (tmp_path / "stderr").read_text()
    assert output.count("Batch: 0\n") == 1, "the second query began from the beginning"
    assert "q1: OK" in output
    assert 0 < first_batch < FIRST_BATCH_SECONDS_MAX
    tell(f"first batch after {first_batch:.0f} s, from an empty virtual environment")
    shutil.rmtree(tmp_path / "sos-first")
