"""`format("sos-connector")` reads what a listener has taken: as a stream, as a table; and says what is wrong."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.errors import PySparkException

from spark_integration.pipelines.batch_folder import batch_writer, conflicts, stored_batches
from spark_integration.pipelines.driver_process import wait_until
from tests.connectors.test_tools_process import status
from tests.spark_integration.ingest_service import listeners, send
from tests.spark_integration.own_jvm import session_with_jar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.connectors.test_listen_process import Process

pytestmark = pytest.mark.spark
STREAMS: Final = 3
PER_STREAM: Final = 40
ROWS: Final = STREAMS * PER_STREAM


def payloads(streams: int = STREAMS, per_stream: int = PER_STREAM) -> dict[int, list[bytes]]:
    return {stream: [b"%d-%d" % (stream, number) for number in range(per_stream)] for stream in range(streams)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    with listeners(tmp_path_factory.mktemp("ingest"), "clicks", "orders") as started:
        clicks, orders = started
        send(clicks, payloads(), at_once=7)
        send(orders, payloads(streams=1, per_stream=10))
        yield started


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session_with_jar(tmp_path_factory.mktemp("spark")) as session:
        yield session


def table(spark: SparkSession, listener: Process, **options: object) -> DataFrame:
    told = {"volume": "clicks", "service": listener.addresses["files"]} | options
    return spark.read.format("sos-connector").options(**told).load()


def stream(spark: SparkSession, listener: Process, **options: object) -> DataFrame:
    told = {"volume": "clicks", "service": listener.addresses["files"]} | options
    return spark.readStream.format("sos-connector").options(**told).load()


def available_now(rows: DataFrame, folder: Path) -> StreamingQuery:
    """Runs until everything that was there is stored by batch."""
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    query = (
        rows.selectExpr("sequence", "stream_name", "message_id", "cast(value as string) value")
        .writeStream.foreachBatch(batch_writer(folder / "batches"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return query


def failure(rows: DataFrame, folder: Path) -> str:
    query = rows.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(60)
    return str(caught.value)


def reports(query: StreamingQuery) -> list[dict[str, Any]]:
    """What each batch's progress says of the source."""
    return [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]


def rewind(checkpoint: Path, batch: int, *, planned: bool = False) -> None:
    """As it was before this batch; `planned`: and after Spark had decided what is in it."""
    for kind in ("offsets", "commits"):
        for file in (checkpoint / kind).iterdir():
            number = int(file.name.strip(".").removesuffix(".crc"))
            if number > batch or (number == batch and not (planned and kind == "offsets")):
                file.unlink()


def batches(folder: Path) -> dict[int, list[dict[str, Any]]]:
    return stored_batches(folder / "batches")


def sequences(folder: Path) -> list[list[int]]:
    return [sorted(row["sequence"] for row in rows) for _, rows in sorted(batches(folder).items())]


def test_rows_are_what_was_sent(spark: SparkSession, running: list[Process]) -> None:
    began = datetime.now(UTC)
    rows = table(spark, running[0]).collect()
    assert [row.sequence for row in rows] == list(range(ROWS))
    assert {row.key for row in rows} == {None}
    assert {row.event_time for row in rows} == {0}
    for number in range(STREAMS):
        own = [row for row in rows if row.stream_id == number]
        assert {row.stream_name for row in own} == {f"stream-{number}"}
        assert [(row.message_id, bytes(row.value)) for row in own] == list(enumerate(payloads()[number]))
    received = [row.received.replace(tzinfo=UTC) for row in rows]
    assert received == sorted(received)
    assert began - timedelta(hours=5) < received[0] <= received[-1] < began + timedelta(seconds=5)


def test_parts_of_it_as_a_table(spark: SparkSession, running: list[Process]) -> None:
    whole = table(spark, running[0]).collect()
    part = table(spark, running[0], fromSequence=17, toSequence=23, minPartitions=3)
    assert part.rdd.getNumPartitions() == 3
    assert part.collect() == whole[17:23]
    first_of_later = next(row for row in whole if row.received > whole[0].received)
    instant = first_of_later.received.replace(tzinfo=UTC).isoformat()
    later = table(spark, running[0], fromTime=instant).collect()
    earlier = table(spark, running[0], toTime=str(first_of_later.received)).collect()
    assert earlier + later == whole
    assert later[0].sequence == first_of_later.sequence
    assert table(spark, running[0], fromTime="2099-01-01").count() == 0


def test_batches_are_ranges_in_order_and_available_now_ends(
    spark: SparkSession, running: list[Process], tmp_path: Path
) -> None:
    query = available_now(stream(spark, running[0], maxRowsPerBatch=50), tmp_path)
    assert sequences(tmp_path) == [list(range(50)), list(range(50, 100)), list(range(100, ROWS))]
    first, *_, last = reports(query)
    assert (last["metrics"]["lagMessages"], last["metrics"]["lagBytes"]) == ("0", "0")
    assert first["endOffset"] == {"clicks": 50}
    assert first["metrics"]["lagMessages"] == str(ROWS - 50)
    assert int(first["metrics"]["lagBytes"]) > 30 * (ROWS - 50)


def test_a_limit_in_bytes(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    available_now(stream(spark, running[0], maxBytesPerBatch="2k"), tmp_path)
    found = sequences(tmp_path)
    assert [number for batch in found for number in batch] == list(range(ROWS))
    assert 2 <= len(found) <= 8  # about 37 bytes each, and heads


def test_a_rewound_checkpoint_reads_the_same_again(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    available_now(stream(spark, running[0], maxRowsPerBatch=5), tmp_path)
    before = batches(tmp_path)
    assert len(before) == 24
    rewind(tmp_path / "checkpoint", 4)
    available_now(
        stream(spark, running[0], maxRowsPerBatch=7), tmp_path / "other"
    )  # somebody else, with a mind of its own
    available_now(stream(spark, running[0], maxRowsPerBatch=5, minPartitions=2), tmp_path)
    assert batches(tmp_path) == before
    assert conflicts(tmp_path / "batches") == []


def test_latest_is_where_the_query_began_also_after_a_crash(
    spark: SparkSession, running: list[Process], tmp_path: Path
) -> None:
    with listeners(tmp_path, "clicks") as (listener,):
        send(listener, {1: [b"before"]})
        available_now(stream(spark, listener, startingOffsets="latest"), tmp_path)
        assert sequences(tmp_path) == [[]]
        rewind(tmp_path / "checkpoint", 0)
        send(listener, {1: [b"before", b"after", b"and after"]})
        available_now(stream(spark, listener, startingOffsets="latest"), tmp_path / "new")
        (tmp_path / "batches" / "000000.batch").unlink()
        available_now(stream(spark, listener, startingOffsets="latest"), tmp_path)
        assert sequences(tmp_path / "new") == [[]]
        assert sequences(tmp_path) == [[1, 2]]
        rewind(tmp_path / "checkpoint", 0, planned=True)
        send(listener, {1: [b"before", b"after", b"and after", b"last"]})
        available_now(stream(spark, listener, startingOffsets="latest"), tmp_path)
        assert sequences(tmp_path) == [[1, 2], [3]]
        assert conflicts(tmp_path / "batches") == []


def test_streams_stay_together(spark: SparkSession, running: list[Process]) -> None:
    rows = table(spark, running[0], splitBy="stream", minPartitions=2)
    parts = rows.selectExpr("spark_partition_id() part", "stream_id", "message_id").collect()
    parts_of = {stream_id: {row.part for row in parts if row.stream_id == stream_id} for stream_id in range(STREAMS)}
    assert all(len(found) == 1 for found in parts_of.values())
    assert len(parts) == ROWS
    for stream_id in range(STREAMS):
        assert [row.message_id for row in parts if row.stream_id == stream_id] == list(range(PER_STREAM))


def test_two_listeners_are_one_source(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    addresses = ",".join(listener.addresses["files"] for listener in running)
    available_now(stream(spark, running[0], service=addresses), tmp_path)
    both = stream(spark, running[0], volume="clicks,orders", service=addresses, maxRowsPerBatch=30)
    query = available_now(both, tmp_path)
    assert reports(query)[-1]["endOffset"] == {"clicks": ROWS, "orders": 10}
    values = [row["value"] for rows in batches(tmp_path).values() for row in rows]
    said = [text.decode() for one in (*payloads().values(), *payloads(1, 10).values()) for text in one]
    assert sorted(values) == sorted(said)
    new = available_now(stream(spark, running[0], volume="clicks,orders", service=addresses), tmp_path / "new")
    assert reports(new)[-1]["numInputRows"] == ROWS + 10


def test_a_query_is_a_reader_of_the_volume(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    query = stream(spark, running[0], lagByStream=True, maxRowsPerBatch=100).writeStream.format("noop")
    query = query.option("checkpointLocation", str(tmp_path)).start()
    query.processAllAvailable()
    rest = table(spark, running[0], fromSequence=100).groupBy("stream_name").count().collect()
    lags = {row.stream_name: row["count"] for row in rest}
    assert sum(lags.values()) == ROWS - 100
    assert json.loads(reports(query)[0]["metrics"]["lagByStream"]) == lags
    query.stop()

    def needs() -> list[int]:
        readers = status("--service", running[0].addresses["files"])["readers"]
        own = [reader for reader in readers if reader["name"].startswith(f"{query.id}-0-")]
        assert [reader["remarks"]["checkpoint"] for reader in own] == [f"file:{tmp_path}"]
        return [reader["next_sequence"] for reader in own]

    wait_until(lambda: needs() == [ROWS], seconds=600, what="the end of the last batch that is committed")


def test_who_caught_up_holds_nobody_back(spark: SparkSession, tmp_path: Path) -> None:
    """One batch has all there is; the next one needs a message, which needs credits."""
    with listeners(tmp_path, "clicks", options=("--reader-lag-max", "4096")) as (listener,):

        def waits() -> list[dict[str, str]]:
            found: list[dict[str, str]] = status("--service", listener.addresses["files"])["waits"]
            return found

        said = [b"first", bytes(100_000)]
        send(listener, {1: said[:1]})
        available_now(stream(spark, listener), tmp_path)
        send(listener, {1: said})
        wait_until(lambda: bool(waits()), seconds=600, what="sources that wait for the query that is away")
        query = stream(spark, listener).selectExpr("sequence", "stream_name", "message_id", "1 value").writeStream
        query = query.foreachBatch(batch_writer(tmp_path / "batches"))
        running = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            wait_until(lambda: not waits(), seconds=600, what="sources that go on")
            send(listener, {1: [*said, b"more"]})
            running.processAllAvailable()
        finally:
            running.stop()
        assert sequences(tmp_path) == [[0], [1], [2]]


def test_with_asynchronous_progress_what_the_checkpoint_has_not_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Spark says that a batch is committed before it is written down: after a crash the query reads it again."""
    checkpoint = tmp_path / "checkpoint"
    with listeners(tmp_path, "clicks") as (listener,):
        said = [b"0"]
        send(listener, {1: said})
        writer = stream(spark, listener).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        query = writer.option("asyncProgressTrackingCheckpointIntervalMs", "3600000").start()
        for number in range(1, 6):
            query.processAllAvailable()
            said.append(b"%d" % number)
            send(listener, {1: said})
            time.sleep(1.1)  # a reader says how far it is once a second
        query.processAllAvailable()
        query.stop()
        committed = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
        entry = (checkpoint / "offsets" / str(committed)).read_text()
        durable = json.loads(entry.splitlines()[-1])["clicks"]
        assert durable < len(said), "Spark has written all of it: this tests nothing"
        (reader,) = status("--service", listener.addresses["files"])["readers"]
        assert reader["next_sequence"] <= durable


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maxRowPerBatch": "1"}, "has no option 'maxRowPerBatch'"),
        ({"service": "nowhere"}, "'nowhere' is not HOST:PORT"),
        ({"volume": "a/b"}, "'a/b' is not the name of a volume"),
    ],
)
def test_options_that_are_wrong_at_once(
    spark: SparkSession, running: list[Process], tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        table(spark, running[0], **options).count()


def test_what_is_wrong_with_a_stream(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    listener = running[0]
    said = failure(stream(spark, listener, fromTime="2026-01-01"), tmp_path / "1")
    assert "the option fromTime is for spark.read" in said
    said = failure(stream(spark, listener, startingSequence=1_000_000), tmp_path / "2")
    assert "has no message 1000000 to start with yet" in said
    nobody = {"service": "127.0.0.1:9", "fs.sos.deadline.seconds": "1"}
    said = failure(stream(spark, listener, **nobody), tmp_path / "3")
    assert "No listener was reached: is `sos-connector listen` running there" in said
    said = failure(stream(spark, listener, volume="other"), tmp_path / "4")
    assert "other" in said
    assert "VOLUME_NOT_FOUND" in said
