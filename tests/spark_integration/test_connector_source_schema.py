"""`option("schema", …)`: values are decoded by Spark's own from_json and from_csv, in a stream and in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.errors import PySparkException

from tests.spark_integration.ingest_service import listeners, send
from tests.spark_integration.own_jvm import session_with_jar
from tests.spark_integration.test_connector_source import failure, stream, table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.connectors.test_listen_process import Process

pytestmark = pytest.mark.spark
JSON_LINES: Final = [
    b'{"user":"ann","n":1,"at":"2026-11-19"}',
    b'{"n":2}',
    b"not json",
    b'{"user":"b\xc3\xa4r","n":3,"more":[]}',
]
CSV_LINES: Final = [b"ann\t1", b"'a\tb'\t2", b"bob\tmany"]
COLUMNS: Final = "user STRING, n INT"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    with listeners(tmp_path_factory.mktemp("ingest"), "clicks", "orders") as started:
        clicks, orders = started
        send(clicks, {1: JSON_LINES})
        send(orders, {1: CSV_LINES})
        yield started


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session_with_jar(tmp_path_factory.mktemp("spark")) as session:
        yield session


def decoded(rows: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows.select("value.*").collect()]


def test_lines_of_json(spark: SparkSession, running: list[Process]) -> None:
    rows = table(spark, running[0], schema=f"{COLUMNS}, at DATE, _corrupt_record STRING")
    assert rows.schema["value"].dataType.simpleString() == "struct<user:string,n:int,at:date,_corrupt_record:string>"
    values = [(row.sequence, row.stream_name, row.value) for row in rows.orderBy("sequence").collect()]
    assert [(sequence, name) for sequence, name, _ in values] == [(n, "stream-1") for n in range(4)]
    assert [(value.user, value.n, value._corrupt_record) for _, _, value in values] == [
        ("ann", 1, None),
        (None, 2, None),
        (None, None, "not json"),
        ("bär", 3, None),
    ]
    assert str(values[0][2]["at"]) == "2026-11-19"


def test_it_is_what_from_json_gives(spark: SparkSession, running: list[Process]) -> None:
    plain = table(spark, running[0]).selectExpr(f"from_json(cast(value as string), '{COLUMNS}') value")
    assert decoded(table(spark, running[0], schema=COLUMNS)) == decoded(plain)


def test_lines_of_csv(spark: SparkSession, running: list[Process]) -> None:
    told = {"valueFormat": "csv", "csv.sep": "\t", "CSV.quote": "'", "volume": "orders"}
    assert decoded(table(spark, running[1], schema=COLUMNS, **told)) == [("ann", 1), ("a\tb", 2), ("bob", None)]


def test_a_stream_of_them(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    rows = stream(spark, running[0], schema=COLUMNS, maxRowsPerBatch=3)
    found = []

    def keep(batch: Any, _number: int) -> None:
        found.append(decoded(batch))

    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert found == [[("ann", 1), (None, 2), (None, None)], [("bär", 3)]]


def test_lines_that_must_be_right(spark: SparkSession, running: list[Process], tmp_path: Path) -> None:
    told = {"schema": COLUMNS, "json.mode": "FAILFAST"}
    assert "MALFORMED_RECORD" in failure(stream(spark, running[0], **told).select("value.*"), tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"schema": "user STRUNG"}, "option schema: 'user STRUNG' is not accepted by Spark"),
        ({"schema": COLUMNS, "valueFormat": "xml"}, "'xml' is neither json nor csv"),
        ({"schema": COLUMNS, "csv.sep": ";"}, "the option csv.sep is for valueFormat csv"),
        ({"schema": COLUMNS, "json.separator": ";"}, "Spark has no option 'separator' for JSON"),
        ({"valueFormat": "csv"}, 'values are decoded only with option\\("schema"'),
    ],
)
def test_what_is_wrong_is_said_at_once(
    spark: SparkSession, running: list[Process], options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        table(spark, running[0], **options)
