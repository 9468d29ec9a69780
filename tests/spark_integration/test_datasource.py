"""The journal as a DataFrame, against what was written to it; and the example that uses it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from pyspark.sql import SparkSession

from journal.gateway.client.client import open_volume
from spark_integration.datasource import JournalReader, _Question, register
from spark_integration.pipelines.service_process import RealService, real_service

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark


async def _write_checkpoint(service: str) -> None:
    """Three batches as Spark writes them, one of them purged, the last not committed."""
    async with open_volume([service], "payments") as volume:

        async def put(path: str, payload: bytes) -> None:
            await volume.put(path, payload, overwrite=False, operation=volume.new_operation())

        for batch in range(3):
            await put(f"q/offsets/{batch}", b"v1\n{}\n" + b"x" * batch)
            await put(f"q/state/0/0/{batch + 1}.delta", bytes(100 * (batch + 1)))
            if batch < 2:
                await put(f"q/commits/{batch}", b"v1\n{}")
        await volume.delete("q/offsets/0", recursive=False, operation=volume.new_operation())
        await put("other/file", b"elsewhere")
        await put("other/file2", b"a record behind it, so that the one before is known to be acknowledged")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    folder = tmp_path_factory.mktemp("journal")
    with real_service(folder, server_count=3) as service:
        trio.run(_write_checkpoint, service.address)
        service.journal.kill()
        service.journal.start_again()  # a second segment
        yield service


@pytest.fixture(scope="module")
def servers(service: RealService) -> str:
    return ",".join(server.address for server in service.servers)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark"))).getOrCreate()
        register(session)
        yield session
        session.stop()


def _read(spark: SparkSession, servers: str, path: str, **options: str) -> list[Any]:
    return spark.read.format("sos-journal").options(servers=servers, **options).load(path).collect()  # type: ignore[no-any-return]


def test_records(spark: SparkSession, servers: str) -> None:
    rows = _read(spark, servers, "sos://payments/q", table="records")
    assert [row.path for row in rows if row.kind == "put"][:3] == ["q/offsets/0", "q/state/0/0/1.delta", "q/commits/0"]
    assert [row.payload_bytes for row in rows if row.path.endswith(".delta")] == [100, 200, 300]
    assert [row.path for row in rows if row.kind == "delete"] == ["q/offsets/0"]
    assert all(row.end_lsn == row.lsn + row.record_bytes for row in rows)
    assert {row.path for row in _read(spark, servers, "sos://payments/", table="records")} > {"other/file"}


def test_records_are_read_by_segment(servers: str) -> None:
    options = {"path": "sos://payments/", "servers": servers, "table": "records"}
    reader = JournalReader(_Question.of(options))
    parts = reader.partitions()
    assert len(parts) >= 2
    lsns = [row[0] for part in parts for row in reader.read(part)]
    assert lsns == sorted(set(lsns))


def test_what_comes_after_the_planning_is_not_in_it(service: RealService, servers: str) -> None:
    options = {"path": "sos://payments/later", "servers": servers, "table": "records"}
    reader = JournalReader(_Question.of(options))
    before = reader.partitions()
    trio.run(_write_later, service.address)
    assert [row for part in before for row in reader.read(part)] == []
    assert [row[4] for part in reader.partitions() for row in reader.read(part)] == ["later/file"]


async def _write_later(service: str) -> None:
    async with open_volume([service], "payments") as volume:
        for path in ("later/file", "other/file3"):  # what is behind a record shows that it is acknowledged
            await volume.put(path, b"x", overwrite=False, operation=volume.new_operation())


def test_files_of_now_and_of_an_earlier_batch(spark: SparkSession, servers: str) -> None:
    now = {
        row.path: row.size for row in _read(spark, servers, "sos://payments/q", table="files") if not row.is_directory
    }
    assert "q/offsets/0" not in now
    assert now["q/state/0/0/3.delta"] == 300
    then = {row.path for row in _read(spark, servers, "sos://payments/q", table="files", at="batch:0")}
    assert "q/offsets/0" in then
    assert "q/state/0/0/2.delta" not in then


def test_batches(spark: SparkSession, servers: str) -> None:
    rows = _read(spark, servers, "sos://payments/q", table="batches")
    assert [(row.query, row.batch, row.committed is not None) for row in rows] == [
        ("q", 0, True),
        ("q", 1, True),
        ("q", 2, False),
    ]
    assert [row.state_files for row in rows] == [1, 1, 0]
    assert all(row.duration_ms >= 0 for row in rows[:2])


def test_wrong_options_are_told(spark: SparkSession, servers: str) -> None:
    with pytest.raises(Exception, match="table is one of"):
        _read(spark, servers, "sos://payments/q", table="nothing")
    with pytest.raises(Exception, match="servers or dir"):
        spark.read.format("sos-journal").load("sos://payments/q").collect()


def test_example_finds_slow_batches_and_growing_state(spark: SparkSession, servers: str) -> None:
    path = Path(__file__).parents[2] / "examples" / "slowest_batches.py"
    spec = importlib.util.spec_from_file_location("slowest_batches", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    journal = spark.read.format("sos-journal").option("servers", servers)
    slowest = example.slowest_batches(journal.option("table", "batches").load("sos://payments/q"), 10).collect()
    assert sorted(row.batch for row in slowest) == [0, 1]
    growth = example.state_growth(journal.option("table", "records").load("sos://payments/q")).collect()
    assert growth[-1].bytes_in_all == 600
