"""What Spark does to order, each shown without the switch, and its cure. docs/order.md names these tests.

On executors in processes of their own, with sorts that are forced to spill, adaptive execution, and speculation.
`collected` is what a sink sees: partition after partition.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from spark_integration.order.by_key import in_sequence
from spark_integration.order.errors import OrderError
from spark_integration.order.ordered import OrderedWriter
from spark_integration.order.preserve import preserve_order
from spark_integration.order.violations import count_violations
from tests.spark_integration.order.conftest import new_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS: Final = 20_000
ATTEMPTS: Final = 8
"""The order in which blocks arrive is chance; so often it is looked for."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = new_session(
            tmp_path_factory.mktemp("spark"),
            "local-cluster[2,1,1024]",
            spark__shuffle__spill__numElementsForceSpillThreshold="500",
            spark__speculation="true",
            spark__speculation__quantile="0.5",
            spark__speculation__multiplier="1.2",
        )
        yield session
        session.stop()


def rows_of(spark: SparkSession, partitions: int = 8, rows: int = ROWS) -> DataFrame:
    return spark.range(0, rows, 1, partitions).selectExpr("id AS sequence", "id % 5 AS key")


def falls(frame: DataFrame, key: str | None = None) -> int:
    return count_violations(frame.toPandas(), key=key)


def in_total_order(frame: DataFrame) -> list[int]:
    seen: list[int] = []

    def write(batches: Iterator[Any], _: int) -> None:
        for batch in batches:
            seen.extend(batch.column("sequence").to_pylist())

    OrderedWriter(write, ("sequence",))(frame, 0)
    return seen


def refused(frame: DataFrame, **more: Any) -> str:
    with pytest.raises(OrderError) as error:
        preserve_order(frame, key="key", **more)
    return str(error.value)


def test_narrow_operators_keep_order(spark: SparkSession) -> None:
    """map, filter, flatMap, coalesce: kept, and collect() gives partitions in their order."""
    frame = rows_of(spark).filter("key != 3").coalesce(3)
    assert falls(frame) == 0
    assert preserve_order(frame) is frame


def test_an_exchange_by_key_mixes_the_blocks_of_tasks(spark: SparkSession) -> None:
    """Each block is in order; the order of blocks differs, and looks right in local[*]."""
    frame = rows_of(spark, 16).repartition(4, "key")
    assert max(falls(frame, "key") for _ in range(ATTEMPTS)) > 0
    assert "the blocks of several tasks come in any order" in refused(frame)
    cure = frame.sortWithinPartitions("key", "sequence")
    assert falls(preserve_order(cure, key="key"), "key") == 0
    assert in_total_order(frame) == list(range(ROWS))


def test_an_exchange_by_key_keeps_keys_that_come_from_one_task(spark: SparkSession) -> None:
    """A source with each key in one partition (splitBy=stream), with adaptive execution putting partitions together."""
    frame = spark.range(0, 4000, 4, 1).selectExpr("id AS sequence", "id % 4 AS key")
    for key in (1, 2, 3):
        frame = frame.union(spark.range(key, 4000, 4, 1).selectExpr("id AS sequence", "id % 4 AS key"))
    moved = frame.repartition("key")
    assert [falls(moved, "key") for _ in range(ATTEMPTS)] == [0] * ATTEMPTS
    assert preserve_order(moved, key="key", source="keys") is moved


def test_repartition_without_a_key_shuffles_rows(spark: SparkSession) -> None:
    """Rows are sorted by their hash first: about half of the rows of a block are below the one before them."""
    frame = rows_of(spark, 1).repartition(2)
    assert falls(frame) > ROWS * 0.4
    assert "repartition(n) sorts rows by their hash" in refused(frame)
    assert in_total_order(frame) == list(range(ROWS))


def test_a_sort_on_a_key_alone_is_stable_only_until_it_spills(spark: SparkSession) -> None:
    """So are applyInPandas and every stateful function of a key, which Spark feeds from such a sort."""
    frame = rows_of(spark, 1).sortWithinPartitions("key")
    assert falls(frame, "key") > 0
    assert "stable only until it spills" in refused(frame)

    def count_falls(group: Any) -> Any:
        import pandas as pd

        return pd.DataFrame({"falls": [int((group["sequence"].diff() < 0).sum())]})

    grouped = rows_of(spark, 1).groupBy("key")
    assert sum(row.falls for row in grouped.applyInPandas(count_falls, "falls long").collect()) > 0
    assert sum(row.falls for row in grouped.applyInPandas(in_sequence(count_falls), "falls long").collect()) == 0


def test_orderby_runs_twice_what_is_before_it(spark: SparkSession) -> None:
    """Its range exchange samples first. The ordered sink runs it once."""
    ran = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            ran.add(batch.num_rows)
            yield batch

    frame = rows_of(spark, 2, rows=1000).mapInArrow(counted, "sequence long, key long")
    assert falls(frame.orderBy("sequence")) == 0
    assert ran.value >= 2000
    ran.value = 0
    assert in_total_order(frame) == list(range(1000))
    assert ran.value == 1000


def test_a_union_appends(spark: SparkSession) -> None:
    """Each input stays in its order; one against the other has none."""
    early, late = (
        rows_of(spark, 2, rows=100),
        rows_of(spark, 2, rows=100).selectExpr("sequence + 100 AS sequence", "key"),
    )
    both = late.union(early)
    assert falls(both) == 1
    assert in_total_order(both) == list(range(200))


def test_a_join_keeps_its_streamed_side(spark: SparkSession) -> None:
    names = spark.range(5).selectExpr("id AS key", "'n' || id AS name").hint("broadcast")
    joined = rows_of(spark).join(names, "key").select("sequence", "key", "name")
    assert falls(joined) == 0
    assert preserve_order(joined, key="key") is joined


def test_streams_cannot_be_sorted_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate").load().sortWithinPartitions("value")
    with pytest.raises(Exception, match=r"(?i)sort"):
        frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()


def broken_once(where: Path, how: Callable[[], None]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for the tasks that read an exchange: the first one to come here breaks, once."""
    name = str(where)

    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            how()
        yield from batches

    return passing


def _fail() -> None:
    raise RuntimeError("this attempt fails")


def _kill_the_executor() -> None:
    """The worker's parent is Python's daemon, whose parent is the executor."""
    with open(f"/proc/{os.getppid()}/stat", encoding="ascii") as status:
        executor = int(status.read().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    os._exit(1)


def _dawdle() -> None:
    import time

    time.sleep(8)


@pytest.mark.parametrize(
    "how", [_fail, _kill_the_executor, _dawdle], ids=["a task fails", "an executor is lost", "a task is run twice"]
)
def test_what_is_run_again_is_in_the_same_order(spark: SparkSession, tmp_path: Path, how: Callable[[], None]) -> None:
    """Between the writing of an exchange and its reading: the blocks of the lost executor are made again."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    frame = rows_of(spark, 6).repartition(4).mapInArrow(broken_once(tmp_path / "once", how), "sequence long, key long")
    assert in_total_order(frame) == list(range(ROWS))
    assert (tmp_path / "once").exists()


def test_keys_stay_in_order_when_an_executor_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """What the switch passes, with blocks that are made again on another executor while they are read."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    one_key = [spark.range(key, ROWS, 4, 1).selectExpr("id AS sequence", "id % 4 AS key") for key in range(4)]
    moved = functools.reduce(lambda one, other: one.union(other), one_key).repartition(3, "key")
    broken = broken_once(tmp_path / "once", _kill_the_executor)
    frame = preserve_order(moved.mapInArrow(broken, "sequence long, key long"), key="key", source="keys")
    rows = frame.toPandas()
    assert (tmp_path / "once").exists()
    assert sorted(rows["sequence"]) == list(range(ROWS))
    assert count_violations(rows, key="key") == 0
