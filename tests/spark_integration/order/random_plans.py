"""Random chains of operators, on Spark and as a sequential run of the same."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from pyspark.sql import functions as sql

from spark_integration.order.by_key import in_sequence
from spark_integration.order.ordered import OrderedWriter
from spark_integration.order.preserve import OrderCheck
from spark_integration.order.violations import count_violations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 300
KEYS: Final = 7
Row = tuple[int, int, int]
"""Sequence, part, key."""
BY: Final = ("sequence", "part")
JOINS: Final = ("broadcast", "merge", "shuffle_hash")
"""How the rows meet a table."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One of a chain; `number` is what it needs, such as how many partitions."""

    name: str
    number: int

    def on_spark(self, rows: DataFrame) -> DataFrame:
        match self.name:
            case "map":
                return rows.selectExpr("sequence", "part", f"(key * 3 + {self.number}) % {KEYS} AS key")
            case "rename":
                return rows.selectExpr("key AS k", "sequence", "part").selectExpr("sequence", "part", "k AS key")
            case "filter":
                return rows.filter(f"(sequence + key) % {self.number + 1} != 0")
            case "flatMap":
                two = sql.posexplode(sql.array(sql.lit(0), sql.lit(1)))
                return rows.select("sequence", "part", "key", two).selectExpr(
                    "sequence", "part * 2 + pos AS part", "key"
                )
            case "repartition":
                return rows.repartition(self.number)
            case "by key":
                return rows.repartition(self.number, "key")
            case "by sequence":
                return rows.repartition(self.number, "sequence")
            case "by range":
                return rows.repartitionByRange(self.number, "sequence")
            case "coalesce":
                return rows.coalesce(self.number)
            case "union":
                return rows.filter("key < 3").union(rows.filter("key >= 3"))
            case "join":
                table = rows.sparkSession.range(1, KEYS).selectExpr("id AS key")
                return rows.join(table.hint(JOINS[self.number % len(JOINS)]), "key").select("sequence", "part", "key")
            case "sort by key":
                return rows.sortWithinPartitions("key")
            case "sort":
                return rows.sortWithinPartitions("key", "sequence", "part")
            case _:
                return rows.groupBy("key").applyInPandas(in_sequence(_as_they_come, BY), rows.schema)

    def sequentially(self, rows: list[Row]) -> list[Row]:
        match self.name:
            case "map":
                return [(sequence, part, (key * 3 + self.number) % KEYS) for sequence, part, key in rows]
            case "filter":
                return [row for row in rows if (row[0] + row[2]) % (self.number + 1)]
            case "join":
                return [row for row in rows if row[2]]
            case "flatMap":
                return [(sequence, part * 2 + pos, key) for sequence, part, key in rows for pos in (0, 1)]
            case _:
                return rows


def _as_they_come(group: Any) -> Any:
    return group


QUICK: Final = ("map", "rename", "filter", "flatMap", "repartition", "by key", "by sequence", "by range", "coalesce")
OPERATORS: Final = (*QUICK, "union", "join", "sort by key", "sort", "per key")
chains = st.lists(
    st.builds(Operator, st.sampled_from([*QUICK, *OPERATORS]), st.integers(1, 5)), min_size=1, max_size=5
).filter(lambda chain: sum(one.name in {"per key", "union"} for one in chain) <= 1)


def source(spark: SparkSession, partitions: int, *, keys_together: bool) -> DataFrame:
    """Rows whose partitions are ranges of the sequence, or each have keys of their own."""
    if not keys_together:
        return spark.range(0, ROWS, 1, partitions).selectExpr("id AS sequence", "0 AS part", f"id % {KEYS} AS key")
    one_key = [
        spark.range(key, ROWS, KEYS, 1).selectExpr("id AS sequence", "0 AS part", f"{key} AS key")
        for key in range(KEYS)
    ]
    return functools.reduce(lambda one, other: one.union(other), one_key)


def check(spark: SparkSession, chain: Sequence[Operator], partitions: int, *, keys_together: bool) -> bool:
    """The ordered sink gives what the sequential run gives; what the switch passes is in order. Whether it passed."""
    frame = source(spark, partitions, keys_together=keys_together)
    expected: list[Row] = [(number, 0, number % KEYS) for number in range(ROWS)]
    for operator in chain:
        frame, expected = operator.on_spark(frame), operator.sequentially(expected)
    assert in_total_order(frame) == expected
    check = OrderCheck("sequence", ("key",), "keys" if keys_together else "ranges", ())
    kept = check.verdict(frame).is_kept  # of the plan as it has just been executed
    if kept:
        assert count_violations(frame.toPandas(), sequence=BY, key="key") == 0
        assert check.verdict(frame).is_kept
    return kept


def in_total_order(frame: DataFrame) -> list[Row]:
    """What the writer of ordered() gets of a batch."""
    seen: list[Row] = []

    def write(batches: Iterator[Any], _: int) -> None:
        for batch in batches:
            seen.extend(zip(*(batch.column(name).to_pylist() for name in ("sequence", "part", "key")), strict=True))

    OrderedWriter(write, BY)(frame, 0)
    return seen
