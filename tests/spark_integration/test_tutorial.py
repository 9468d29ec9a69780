"""docs/tutorial.ipynb, run as it stands: what it says happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_integration.pipelines.driver_process import QUICK_START

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


def test_it_is_kept_without_what_a_kernel_adds() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert json.dumps(notebook, indent=1, ensure_ascii=False) + "\n" == NOTEBOOK.read_text(encoding="utf-8")


@pytest.mark.spark
def test_it_runs(tmp_path: Path) -> None:
    commands = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SOS_")}
    environment |= QUICK_START | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"TMPDIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_integration.run_notebook", str(NOTEBOOK)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, said
    for words in (
        "a write is acknowledged when 2 of 3 have synced it",
        "sos: the checkpoints of volume 'shop' are kept on 127.0.0.1:",
        "batch 1: {'apples': 5, 'pears': 1}",
        "SILENT",
        "goes back to batch 2",
        "batch 3: {'apples': 5, 'pears': 405}",
        "batch 3: {'apples': 5, 'pears': 9}",
    ):
        assert words in said, f"{words!r} is missing in\n{said}"
    assert not list(tmp_path.glob("sos-tutorial-*")), "it clears up"
