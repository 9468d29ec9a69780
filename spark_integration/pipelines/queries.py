"""The queries themselves, each with the answer that its input must give.

A query takes the input as a stream and gives a stream; its answer is computed from the records in plain Python, which
shares nothing with Spark.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from spark_integration.pipelines.records import SCHEMA, SentRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    Batches = dict[int, list[dict[str, Any]]]

WATERMARK_SECONDS = 20
WINDOW_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A streaming query and how to tell whether its output is right."""

    name: str
    output_mode: str
    build: Callable[[DataFrame], DataFrame]
    answer: Callable[[list[SentRecord]], object]
    shown: Callable[[Batches], object]
    """What the sink's batches amount to, to be compared with the answer."""


def records_stream(spark: SparkSession, folder: Path | str, *, files_per_batch: int = 1) -> DataFrame:
    """The files of a folder as a stream, in order."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_batch)
    return reader.json(str(folder))


# ── what batches amount to ────────────────────────────────────────────────────────────────────────────────────────────


def _every_row(*columns: str) -> Callable[[Batches], object]:
    def shown(batches: Batches) -> object:
        return sorted(tuple(row[column] for column in columns) for rows in batches.values() for row in rows)

    return shown


def _last_by_key(column: str) -> Callable[[Batches], object]:
    def shown(batches: Batches) -> object:
        return {row["key"]: row[column] for _, rows in sorted(batches.items()) for row in rows}

    return shown


def _totals(records: list[SentRecord]) -> object:
    totals: Counter[int] = Counter()
    for record in records:
        totals[record.key] += record.value
    return dict(totals)


def _counts(records: list[SentRecord]) -> object:
    return dict(Counter(record.key for record in records))


def _distinct_ids(records: list[SentRecord]) -> object:
    return sorted({(record.id,) for record in records})


def _closed_windows(records: list[SentRecord]) -> object:
    closed_until = max(record.at for record in records) - WATERMARK_SECONDS
    starts = Counter(record.at - record.at % WINDOW_SECONDS for record in records)
    return sorted((start, count) for start, count in starts.items() if start + WINDOW_SECONDS <= closed_until)


def _pairs(records: list[SentRecord]) -> object:
    seen = Counter(record.id for record in records)
    return sorted(
        (number,) for number, times in seen.items() if SentRecord.of(number).key == 0 for _ in range(times**2)
    )


# ── the queries ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _running_totals(stream: DataFrame) -> DataFrame:
    return stream.groupBy("key").agg(F.sum("value").alias("total"))


def _windows(stream: DataFrame) -> DataFrame:
    windows = stream.withWatermark("at", f"{WATERMARK_SECONDS} seconds").groupBy(
        F.window("at", f"{WINDOW_SECONDS} seconds")
    )
    return windows.count().select(F.col("window.start").cast("long").alias("start"), "count")


def _dedup_within_watermark(stream: DataFrame) -> DataFrame:
    return stream.withWatermark("at", f"{WATERMARK_SECONDS} seconds").dropDuplicatesWithinWatermark(["id"]).select("id")


def _self_join(stream: DataFrame) -> DataFrame:
    left = stream.select(F.col("id"))
    right = stream.where("key = 0").select(F.col("id").alias("other"))
    return left.join(right, F.expr("id = other")).select("id")


def _count_in_pandas(stream: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    return stream.groupBy("key").applyInPandasWithState(
        _counted, "key int, number long", "number long", "Update", GroupStateTimeout.NoTimeout
    )


def _counted(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    import pandas as pd

    number = state.get[0] if state.exists else 0
    number += sum(len(frame) for frame in frames)
    state.update((number,))
    yield pd.DataFrame({"key": [key[0]], "number": [number]})


def _total_with_state(stream: DataFrame) -> DataFrame:
    return stream.groupBy("key").transformWithStateInPandas(
        statefulProcessor=_total_processor(),
        outputStructType="key int, total long",
        outputMode="Update",
        timeMode="None",
    )


def _total_processor() -> Any:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class TotalProcessor(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._total = handle.getValueState("total", "total long")

        def handleInputRows(self, key: Any, rows: Iterable[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:  # noqa: N802
            total = self._total.get()[0] if self._total.exists() else 0
            total += sum(int(frame["value"].sum()) for frame in rows)
            self._total.update((total,))
            yield pd.DataFrame({"key": [key[0]], "total": [total]})

        def close(self) -> None:
            pass

    return TotalProcessor()


PASSTHROUGH = Query(
    name="passthrough",
    output_mode="append",
    build=lambda stream: stream.select("id", "key", "value"),
    answer=lambda records: sorted((r.id, r.key, r.value) for r in records),
    shown=_every_row("id", "key", "value"),
)
TOTALS = Query(name="totals", output_mode="update", build=_running_totals, answer=_totals, shown=_last_by_key("total"))
EVERYWHERE = (
    PASSTHROUGH,
    TOTALS,
    Query(
        name="dedup",
        output_mode="append",
        build=lambda stream: stream.dropDuplicates(["id"]).select("id"),
        answer=_distinct_ids,
        shown=_every_row("id"),
    ),
    Query(
        name="dedup_within_watermark",
        output_mode="append",
        build=_dedup_within_watermark,
        answer=_distinct_ids,
        shown=_every_row("id"),
    ),
    Query(
        name="windows",
        output_mode="append",
        build=_windows,
        answer=_closed_windows,
        shown=_every_row("start", "count"),
    ),
    Query(name="join", output_mode="append", build=_self_join, answer=_pairs, shown=_every_row("id")),
    Query(
        name="pandas_state",
        output_mode="update",
        build=_count_in_pandas,
        answer=_counts,
        shown=_last_by_key("number"),
    ),
)
"""For every state store provider."""
ON_ROCKSDB = Query(
    name="transform_with_state",
    output_mode="update",
    build=_total_with_state,
    answer=_totals,
    shown=_last_by_key("total"),
)
"""transformWithState is there for RocksDB only."""
