"""preserve_order and explain_order: what the check of plans (plan_verdict) says of a DataFrame or a running query."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_integration.order.errors import OrderError
from spark_integration.order.plan_verdict import NodeVerdict, PlanVerdict, Rows, Source, verdict_of
from spark_integration.order.running_query import running_query
from spark_integration.order.verdict_text import as_text
from spark_integration.pyspark_private import (
    execution_of,
    explained,
    is_frame,
    is_query,
    last_execution,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_log = logging.getLogger(__name__)
_FIELDS_SETTING: Final = "spark.sql.debug.maxToStringFields"
_FIELDS_MAX: Final = "10000"
_SORT_SETTING: Final = "spark.sql.execution.sortBeforeRepartition"
Checked = TypeVar("Checked")


def key_names(key: str | Sequence[str] | None) -> tuple[str, ...]:
    if key is None:
        return ()
    return (key,) if isinstance(key, str) else tuple(key)


def preserve_order(
    query_or_frame: Checked,
    *,
    sequence: str = "sequence",
    key: str | Sequence[str] | None = None,
    source: Source = "ranges",
    in_sequence: Sequence[str] = (),
) -> Checked:
    """Returns what it was given, if its plan keeps the rows of each key (of each partition, without a key) in order.

    A streaming DataFrame: the plan that it would start with. The DataFrame of foreachBatch: the plan of this batch as
    it was executed, before anything is written. A StreamingQuery: the executed plan of each batch; a batch whose plan
    does not keep the order stops the query.

    `source` says how the source lays out its rows: "ranges", each partition of a batch a range of the sequence, in
    order; or "keys", each key in one partition. `in_sequence` names functions that sort the rows of a key themselves;
    those that in_sequence() has wrapped are known, but for transformWithState, whose function is always called
    "transformWithStateUDF".

    OrderError says which line of the plan breaks the order, or is not known, and what to do.
    """
    check = OrderCheck(sequence, key_names(key), source, tuple(in_sequence))
    if is_query(query_or_frame):
        check.follow(query_or_frame)
    else:
        check.refuse_unless_kept(check.verdict(query_or_frame))
    return query_or_frame


def explain_order(
    query_or_frame: Any,
    *,
    sequence: str = "sequence",
    key: str | Sequence[str] | None = None,
    source: Source = "ranges",
    in_sequence: Sequence[str] = (),
    as_json: bool = False,
) -> None:
    """Prints the plan with a verdict for each line; with `as_json` for programs."""
    found = OrderCheck(sequence, key_names(key), source, tuple(in_sequence)).verdict(query_or_frame)
    sys.stdout.write((json.dumps(found.as_dict(), indent=2) if as_json else as_text(found)) + "\n")


class OrderCheck:
    """What is asked of plans, and of which rows."""

    def __init__(self, sequence: str, keys: tuple[str, ...], source: Source, in_sequence: tuple[str, ...]) -> None:
        if source not in ("ranges", "keys"):
            raise OrderError(f'source is "ranges" or "keys", not {source!r}')
        if source == "keys" and not keys:
            raise OrderError('source="keys" needs key=')
        self.sequence, self.keys, self.source, self.in_sequence = sequence, keys, source, in_sequence

    def verdict(self, query_or_frame: Any) -> PlanVerdict:
        """Of a DataFrame, or of the last batch of a query. OrderError if there is no plan to judge."""
        if is_query(query_or_frame):
            execution = last_execution(query_or_frame)
            if execution is None:
                raise OrderError(
                    "the query has not planned a batch yet: give the DataFrame, or wait for its first batch"
                )
            return self._of_text(execution.executedPlan().toString())
        if not is_frame(query_or_frame):
            raise OrderError("order is checked where the driver runs, not through Spark Connect")
        return self._of_frame(query_or_frame)

    def _of_frame(self, frame: Any) -> PlanVerdict:
        missing = [name for name in (self.sequence, *self.keys) if name not in frame.columns]
        if missing:
            raise OrderError(f"there is no column {missing[0]!r} in what leaves; there are {', '.join(frame.columns)}")
        session: SparkSession = frame.sparkSession
        execution = execution_of(frame)
        with _all_columns_shown(session):
            if frame.isStreaming:
                found = self._of_text(explained(session, execution))
            else:
                running = running_query(session)
                batch = running.lastExecution() if running is not None else None
                before = self._of_text(batch.executedPlan().toString()) if batch is not None else None
                if before is not None and not before.is_kept:
                    return before
                found = self._of_text(execution.executedPlan().toString(), before.rows if before else None)
        self._check_retries(session, found)
        return found

    def _of_text(self, plan: str, scanned: Rows | None = None) -> PlanVerdict:
        return verdict_of(
            plan,
            sequence=self.sequence,
            keys=self.keys,
            source=self.source,
            in_sequence=self.in_sequence,
            scanned=scanned,
        )

    def _check_retries(self, session: SparkSession, found: PlanVerdict) -> None:
        deals_out = any("RoundRobinPartitioning" in node.text for node in found.nodes)
        if deals_out and session.conf.get(_SORT_SETTING, "true") == "false":
            raise OrderError(
                f"{_SORT_SETTING}=false and repartition(n): a stage that is run again may deal its rows out otherwise, "
                "which loses and doubles rows. Leave the setting as it is."
            )

    def refuse_unless_kept(self, found: PlanVerdict) -> None:
        if (culprit := found.culprit) is not None:
            raise OrderError(self._refusal(culprit))

    def _refusal(self, node: NodeVerdict) -> str:
        key = ", ".join(repr(key) for key in self.keys) or "key"
        return (
            f"order is not kept: line {node.line} of the plan, {node.text[:120]!r}, is {node.verdict.value}: "
            f"{node.reason}. "
            f"Three ways out: repartition by the key alone, repartition(n, {key}), of a source that has each key "
            "in one "
            "partition (source='keys'), and wrap functions of a key with in_sequence(); or coalesce(n) instead of "
            f"repartition, or neither; or let order be made at the end, whatever the plan: "
            f"foreachBatch(ordered(write, by={self.sequence!r})). explain_order() shows every line."
        )

    def follow(self, query: StreamingQuery) -> None:
        """Look at each batch's plan from now on."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        run = str(query.runId)
        check = self

        class PlanListener(StreamingQueryListener):  # type: ignore[misc]
            def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
                pass

            def onQueryProgress(self, event: Any) -> None:  # noqa: N802
                if str(event.progress.runId) == run:
                    check.stop_unless_kept(query)

            def onQueryIdle(self, event: Any) -> None:  # noqa: N802
                pass

            def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
                pass

        session = _session_of(query)
        session.streams.addListener(PlanListener())
        if last_execution(query) is not None:
            self.refuse_unless_kept(self.verdict(query))

    def stop_unless_kept(self, query: StreamingQuery) -> None:
        try:
            self.refuse_unless_kept(self.verdict(query))
        except OrderError as refused:
            _log.error("query %s is stopped: %s", query.name or query.id, refused)
            threading.Thread(target=query.stop, daemon=True).start()  # this thread is the one that tells of its end


def _session_of(query: StreamingQuery) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise OrderError(f"no session is active in this thread: preserve_order(query {query.id}) needs one")
    return session


@contextlib.contextmanager
def _all_columns_shown(session: SparkSession) -> Iterator[None]:
    """A plan's text leaves out columns beyond the 25th, which may be the key."""
    before = session.conf.get(_FIELDS_SETTING, None)
    session.conf.set(_FIELDS_SETTING, _FIELDS_MAX)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_FIELDS_SETTING)
        else:
            session.conf.set(_FIELDS_SETTING, before)
