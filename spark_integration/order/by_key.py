"""in_sequence: a function for the groups of a key that gets their rows in order, however Spark hands them over.

What goes to the executors are closures that need nothing of this package there.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from spark_integration.order.errors import OrderError
from spark_integration.order.plan_verdict import IN_SEQUENCE
from spark_integration.order.sequence import column_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def in_sequence(function: Any, sequence: str | Sequence[str] = "sequence") -> Any:
    """The same function, or StatefulProcessor, which gets all rows of a key in one piece, sorted by the sequence.

    For `applyInPandas` (one or two arguments), `applyInPandasWithState` (three), and `transformWithState` and
    `transformWithStateInPandas` (a StatefulProcessor). The rows of one key in one micro-batch must fit into the memory
    of a Python worker. OrderError for anything else.
    """
    columns = list(column_names(sequence))
    if hasattr(function, "handleInputRows"):
        return _processor_in_sequence(function, columns)
    arguments = inspect.getfullargspec(function).args[1 if inspect.ismethod(function) else 0 :]
    wrap: Any = {1: _group, 2: _group_with_key, 3: _group_with_state}.get(len(arguments))
    if wrap is None:
        raise OrderError(f"in_sequence() takes functions of one to three arguments, not of {len(arguments)}")
    wrapped = wrap(function, columns)
    wrapped.__name__ = f"{IN_SEQUENCE}{getattr(function, '__name__', 'function')}"
    return wrapped


def _group(function: Callable[[Any], Any], columns: list[str]) -> Any:
    def ordered_group(rows: Any) -> Any:
        return function(rows.sort_values(columns, kind="stable", ignore_index=True))

    return ordered_group


def _group_with_key(function: Callable[[Any, Any], Any], columns: list[str]) -> Any:
    def ordered_group(key: Any, rows: Any) -> Any:
        return function(key, rows.sort_values(columns, kind="stable", ignore_index=True))

    return ordered_group


def _group_with_state(function: Callable[[Any, Any, Any], Any], columns: list[str]) -> Any:
    def ordered_group(key: Any, chunks: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        gathered = list(chunks)
        if not gathered:  # a timeout
            yield from function(key, iter(()), state)
            return
        rows = pd.concat(gathered, ignore_index=True).sort_values(columns, kind="stable", ignore_index=True)
        yield from function(key, iter((rows,)), state)

    return ordered_group


def _processor_in_sequence(processor: Any, columns: list[str]) -> Any:
    from pyspark.sql.streaming import StatefulProcessor

    class InSequence(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            processor.init(handle)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's
            gathered = list(rows)
            if gathered and hasattr(gathered[0], "sort_values"):
                import pandas as pd

                whole = pd.concat(gathered, ignore_index=True)
                gathered = [whole.sort_values(columns, kind="stable", ignore_index=True)]
            else:
                gathered.sort(key=lambda row: tuple(row[column] for column in columns))
            return processor.handleInputRows(key, iter(gathered), timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            return processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
            processor.handleInitialState(key, initialState, timerValues)

        def close(self) -> None:
            processor.close()

    return InSequence()
