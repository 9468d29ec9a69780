"""order_violations: counts, in the data itself, the rows that come after one with a higher sequence.

The tests are judged by the same counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_integration.order.preserve import key_names
from spark_integration.order.sequence import column_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame


def order_violations(
    frame: DataFrame,
    *,
    sequence: str | Sequence[str] = "sequence",
    key: str | Sequence[str] | None = None,
    name: str = "order_violations",
) -> DataFrame:
    """The same rows, with a metric that each batch's progress shows: `query.lastProgress["observedMetrics"][name]`.

    Counts what each task of a batch sees pass: rows whose sequence is below that of the row before, of the same key if
    there is one. Costs a round through a Python worker, and 24 bytes or so for each key that a task sees in a batch.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import LongType, StructType

    columns = list(column_names(sequence))
    keys = list(key_names(key))
    flag = f"__{name}"

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        falls = violation_counter(columns, keys)
        for batch in batches:
            found = falls(batch.select([*keys, *columns]).to_pandas())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(found, pa.int64())], names=[*batch.schema.names, flag]
            )

    schema = StructType([*frame.schema.fields]).add(flag, LongType())
    observed = frame.mapInArrow(_by_value(counted), schema).observe(name, functions.sum(flag).alias("violations"))
    return observed.drop(flag)


def violation_counter(sequence: Sequence[str], keys: Sequence[str]) -> Callable[[Any], Any]:
    """A function that takes pandas frames one after the other, and says of each row whether it breaks the order."""
    columns, by = list(sequence), list(keys)
    before: list[Any] = []

    def falls(rows: Any) -> Any:
        import numpy as np
        import pandas as pd

        if not len(rows):
            return np.zeros(0, dtype=np.int64)
        joined = pd.concat([*before, rows[[*by, *columns]]], ignore_index=True)
        last = joined.groupby(by, dropna=False, sort=False) if by else joined
        previous = last[columns].shift(1)
        breaks = np.zeros(len(joined), dtype=bool)
        same = np.ones(len(joined), dtype=bool)
        for column in columns:
            breaks |= same & (joined[column] < previous[column]).to_numpy()
            same &= (joined[column] == previous[column]).to_numpy()
        before[:] = [last.tail(1)[[*by, *columns]]]
        return breaks[len(joined) - len(rows) :].astype(np.int64)

    return falls


def count_violations(rows: Any, *, sequence: str | Sequence[str] = "sequence", key: Any = None) -> int:
    """Of a pandas frame."""
    return int(violation_counter(column_names(sequence), key_names(key))(rows).sum())


def _by_value(function: Any) -> Any:
    """Executors need not have this package: what the function uses of this module goes with it."""
    import sys

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return function
