"""Stateful functions of a key on a stream: in chunks and out of order as Spark gives them, whole and in order
wrapped."""

from __future__ import annotations

import collections
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupStateTimeout

from spark_integration import OrderError, in_sequence, preserve_order
from tests.spark_integration.order.conftest import run_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Stream = Callable[..., DataFrame]

pytestmark = pytest.mark.spark

SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
RESULT = "sequence long, key long, chunks long, falls long, count long"


@pytest.fixture(autouse=True)
def small_chunks(spark: SparkSession) -> Iterator[None]:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in SETTINGS:
        spark.conf.unset(name)


def judged(key: Any, sequences: list[int], chunks: int) -> pd.DataFrame:
    falls = sum(after < before for before, after in pairwise(sequences))
    row = {"sequence": sequences[0], "key": key[0], "chunks": chunks, "falls": falls, "count": len(sequences)}
    return pd.DataFrame([row])


def with_state(key: Any, chunks: Iterator[Any], _: Any) -> Iterator[Any]:
    frames = list(chunks)
    yield judged(key, [int(one) for frame in frames for one in frame["sequence"]], len(frames))


class InPandas(StatefulProcessor):  # type: ignore[misc]
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        return with_state(key, rows, None)

    def close(self) -> None:
        pass


class InRows(InPandas):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        from pyspark.sql import Row

        frame = judged(key, [row["sequence"] for row in rows], 1)
        return iter([Row(**{name: int(frame[name].iloc[0]) for name in frame.columns})])


def apply(frame: DataFrame, way: str, wrap: Callable[[Any], Any]) -> DataFrame:
    grouped = frame.groupBy("key")
    if way == "applyInPandasWithState":
        return grouped.applyInPandasWithState(wrap(with_state), RESULT, "n long", "append", GroupStateTimeout.NoTimeout)
    if way == "transformWithStateInPandas":
        return grouped.transformWithStateInPandas(wrap(InPandas()), RESULT, "append", "none")
    return grouped.transformWithState(wrap(InRows()), RESULT, "append", "none")


@pytest.mark.parametrize("way", ["applyInPandasWithState", "transformWithStateInPandas", "transformWithState"])
def test_functions_with_state(stream: Stream, way: str) -> None:
    from pyspark import cloudpickle

    import tests.spark_integration.order.test_stateful_functions as this

    cloudpickle.register_pickle_by_value(this)
    shuffled = stream(rows=300, keys=3).repartition(4)
    seen: dict[str, list[Any]] = collections.defaultdict(list)
    for name, wrap in {"as Spark does": lambda one: one, "in sequence": in_sequence}.items():
        frame = apply(shuffled, way, wrap)
        run_batches(frame, lambda rows, _, name=name: seen[name].extend(rows.collect()), batches=1)  # type: ignore[misc]
    assert {row["count"] for row in seen["in sequence"]} == {100}
    assert sum(row.falls for row in seen["as Spark does"]) > 0
    assert {(row.chunks, row.falls) for row in seen["in sequence"]} == {(1, 0)}
    if way == "applyInPandasWithState":
        assert max(row.chunks for row in seen["as Spark does"]) > 1


def test_the_switch_knows_who_sorts(stream: Stream) -> None:
    frame = stream(keys=3)
    plain, wrapped = (apply(frame, "applyInPandasWithState", wrap) for wrap in (lambda one: one, in_sequence))
    assert preserve_order(wrapped, key="key") is wrapped
    with pytest.raises(OrderError, match="stable only until it spills"):
        preserve_order(plain, key="key")
    processor = apply(frame, "transformWithState", in_sequence)
    with pytest.raises(OrderError, match="TransformWithState"):
        preserve_order(processor, key="key")
    assert preserve_order(processor, key="key", in_sequence=["transformWithStateUDF"]) is processor
