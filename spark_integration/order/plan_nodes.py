"""The nodes of Spark's physical plans, and what each does to the order of rows. Pure.

The table that the check goes by, and that docs/order.md shows: a node that is not in it is refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Effect(enum.Enum):
    """What a kind of node does to the order of the rows that pass it."""

    SOURCE = "source"
    KEEPS = "kept"
    COALESCE = "kept, if its input has no preferred hosts"
    EXCHANGE = "by its partitioning"
    READ = "kept, unless skewed or local"
    SORT = "by its columns"
    JOIN = "kept for the primary side"
    UNION = "kept for each source"
    GROUPS = "kept with in_sequence(), else broken"
    BREAKS = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRule:
    """One row of the table."""

    effect: Effect
    reason: str


def _rules(effect: Effect, reason: str, *names: str) -> dict[str, NodeRule]:
    return {name: NodeRule(effect=effect, reason=reason) for name in names}


WITHOUT_PREFERRED_HOSTS: Final = (
    "rate-micro-batch",
    "RatePerMicroBatch",
    "sos-connector",
    "io.sos.",
    "Range (",
    "LocalTableScan",
)
"""Words in the line of a source whose partitions may be read anywhere, so that coalesce takes them in their order."""

NODES: Final[dict[str, NodeRule]] = {
    **_rules(
        Effect.SOURCE,
        "a source: its partitions are in order, as told to preserve_order",
        "MicroBatchScan",
        "StreamingRelation",
        "BatchScan",
        "Range",
        "LocalTableScan",
        "Scan",
    ),
    **_rules(
        Effect.KEEPS,
        "row by row, in the order in which they come",
        "Project",
        "Filter",
        "Generate",
        "Expand",
        "Sample",
        "CollectMetrics",
        "EventTimeWatermark",
        "UpdateEventTimeColumn",
        "ColumnarToRow",
        "RowToColumnar",
        "InputAdapter",
        "DeserializeToObject",
        "SerializeFromObject",
        "MapElements",
        "MapPartitions",
        "AppendColumns",
        "BatchEvalPython",
        "ArrowEvalPython",
        "MapInPandas",
        "MapInArrow",
        "PythonMapInArrow",
    ),
    **_rules(
        Effect.KEEPS,
        "the first rows, as they come",
        "LocalLimit",
        "StreamingLocalLimit",
    ),
    **_rules(
        Effect.KEEPS,
        "what it lets through stays in its order",
        "StreamingDeduplicate",
        "StreamingDeduplicateWithinWatermark",
    ),
    **_rules(Effect.KEEPS, "gives out rows as the sort below it has put them", "Window"),
    **_rules(
        Effect.KEEPS,
        "part of how Spark runs a plan, not of what it does",
        "AdaptiveSparkPlan",
        "ResultQueryStage",
        "ShuffleQueryStage",
        "TableCacheQueryStage",
        "WholeStageCodegen",
        "WriteToDataSourceV2",
        "WriteToMicroBatchDataSource",
    ),
    **_rules(Effect.COALESCE, "puts partitions one after the other, those on one host first", "Coalesce"),
    **_rules(Effect.EXCHANGE, "moves rows to other tasks; see below", "Exchange"),
    **_rules(Effect.READ, "reads whole blocks, several partitions after each other", "AQEShuffleRead"),
    **_rules(Effect.SORT, "right if it names the sequence; see below", "Sort"),
    **_rules(
        Effect.JOIN,
        "the rows of the streamed side pass in their order",
        "BroadcastHashJoin",
        "BroadcastNestedLoopJoin",
        "ShuffledHashJoin",
        "SortMergeJoin",
    ),
    **_rules(Effect.UNION, "appends the partitions of its inputs; says nothing of one against the other", "Union"),
    **_rules(
        Effect.GROUPS,
        "the sort by key below it is stable only until it spills, and a group may come in several chunks",
        "FlatMapGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandasWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    ),
    **_rules(
        Effect.BREAKS,
        "gives out one row for a group, in no order",
        "HashAggregate",
        "ObjectHashAggregate",
        "SortAggregate",
        "StateStoreSave",
        "StateStoreRestore",
        "SessionWindowStateStoreSave",
        "SessionWindowStateStoreRestore",
        "MergingSessions",
        "UpdatingSessions",
    ),
    **_rules(
        Effect.BREAKS,
        "the left side's rows first, then the right side's, each with older ones of the other",
        "StreamingSymmetricHashJoin",
    ),
    **_rules(Effect.BREAKS, "reads the largest files first", "FileScan", "FileSourceScan"),
    **_rules(
        Effect.BREAKS,
        "takes rows of partitions as they come",
        "GlobalLimit",
        "StreamingGlobalLimit",
        "CollectLimit",
    ),
    **_rules(
        Effect.BREAKS,
        "its sort by key is stable only until it spills, and its function cannot be wrapped from Python",
        "FlatMapGroupsWithState",
        "TransformWithState",
        "FlatMapCoGroupsInPandas",
        "FlatMapCoGroupsInArrow",
        "MapGroups",
        "CoGroup",
    ),
    **_rules(
        Effect.BREAKS,
        "continuous and real-time mode have no end of a batch at which order could be made",
        "ContinuousScan",
        "RealTimeStreamScan",
        "WriteToContinuousDataSource",
    ),
}

EXCHANGES: Final = (
    (
        "hashpartitioning(key)",
        "kept",
        "if each key lives in one partition above it (source='keys'), or a sort by key and sequence follows",
    ),
    ("hashpartitioning(anything else)", "broken", "spreads the rows of a key over tasks"),
    ("SinglePartition", "kept", "as hashpartitioning(key): blocks of tasks come in any order"),
    ("rangepartitioning(sequence)", "kept", "if a sort by the sequence follows, as in orderBy"),
    ("RoundRobinPartitioning", "broken", "repartition(n) sorts rows by their hash, then deals them out"),
    ("any other", "refused", "unknown"),
)
SORTS: Final = (
    ("Sort [key, sequence] or [sequence]", "kept", "brings the rows of each key into order, whatever was before"),
    ("Sort [anything else]", "broken", "stable only until it spills"),
)


def table_of_nodes() -> str:
    """In Markdown, for docs/order.md."""
    lines = ["| node | order is | because |", "|---|---|---|"]
    grouped: dict[NodeRule, list[str]] = {}
    for name, rule in NODES.items():
        grouped.setdefault(rule, []).append(f"`{name}`")
    lines += [f"| {', '.join(names)} | {rule.effect.value} | {rule.reason} |" for rule, names in grouped.items()]
    lines += [f"| `Exchange {name}` | {verdict} | {reason} |" for name, verdict, reason in EXCHANGES]
    lines += [f"| `{name}` | {verdict} | {reason} |" for name, verdict, reason in SORTS]
    lines.append("| anything else | refused | unknown nodes may do anything |")
    return "\n".join(lines)
