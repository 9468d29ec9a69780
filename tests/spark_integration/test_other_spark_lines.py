"""Smoke tests on the other Spark lines that the README names: a RocksDB aggregation loses its machine and goes on; rows
go to connector sinks by way of a relay; a driver reads what a listener takes, is killed, and reads on.

`make check-sparks` installs all of them beside the project's own Spark and runs this; what is not there is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.spark_integration.sink_place import check_with_relay_beside_driver
from tests.spark_integration.test_connector_source_kills import play
from tests.spark_integration.two_lives import QUERIES, two_lives

pytestmark = pytest.mark.spark
_ROOT: Final = Path(__file__).parents[2]
_LINES: Final = tuple(sorted(path.stem.removeprefix("spark-") for path in _ROOT.glob("requirements/spark-*.txt")))
"""Those that `tools/lock.py` names; it writes a file of versions for each."""
_WITHOUT_STATE_READER: Final = ("3.5",)
_INSTALLED: Final = Path(__file__).parents[2] / "build" / "sparks"
_QUERIES: Final = ("passthrough", "totals", "dedup")


def _environment(line: str) -> dict[str, str]:
    folder = _INSTALLED / line
    if not (folder / "installed.txt").exists():
        pytest.skip(f"tools/spark_lines has not installed Spark {line}")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


@pytest.mark.parametrize("line", _LINES)
def test_rows_go_to_connector_sinks(tmp_path: Path, line: str) -> None:
    check_with_relay_beside_driver(tmp_path, _environment(line))


@pytest.mark.parametrize("line", _LINES)
def test_source_of_connectors(tmp_path: Path, line: str) -> None:
    play(tmp_path, "local[2]", ["driver"], seed=1, environment=_environment(line))


@pytest.mark.parametrize("line", _LINES)
def test_aggregation_with_restart(tmp_path: Path, line: str) -> None:
    environment = _environment(line)
    reads_state = line not in _WITHOUT_STATE_READER
    queries = [*_QUERIES, "files", *(["state"] if reads_state else [])]
    lives = two_lives(
        tmp_path / "stage", master="local[2]", providers=["rocksdb"], queries=queries, environment=environment
    )
    for life in lives:
        assert life.report["version"].startswith(f"{line}.")
        assert life.conflicts == []
        for query in _QUERIES:
            assert life.shown["rocksdb", query] == QUERIES[query].answer(life.records)
        if reads_state:
            totals = life.report["state"]["rocksdb"]["totals"]
            assert {int(key): total for key, total in totals.items()} == QUERIES["totals"].answer(life.records)
        ids = sorted(record.id for record in life.records)
        assert life.report["files"] == {"data": ids, "again": ids}
