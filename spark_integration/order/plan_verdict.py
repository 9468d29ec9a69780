"""Whether a plan keeps the order of rows, per key or per partition, judged from its text. Pure.

Goes through the plan from the source upwards with two facts: whether the rows of a key (or of a source's partition)
are in order inside each task, and how they lie in tasks. Whatever is not known to keep a fact loses it; a later
exchange by key and a sort that names the sequence give it back.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from spark_integration.order.plan_nodes import NODES, WITHOUT_PREFERRED_HOSTS, Effect
from spark_integration.order.plan_text import (
    NEW_COLUMNS,
    PlanNode,
    attribute,
    lists_in,
    output_of,
    parse_plan,
    projected,
    split_list,
)

Source = Literal["ranges", "keys"]
IN_SEQUENCE: Final = "in_sequence_"
"""How the names of wrapped functions begin (by_key.in_sequence)."""
_FUNCTION: Final = re.compile(r"^!?[A-Za-z]\w*(?: \[[^\]]*\],)? (?P<name>[\w<>]+)\(")


class OrderVerdict(enum.Enum):
    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Layout(enum.Enum):
    """How the rows of one key lie in tasks."""

    RANGES = "in several tasks, one after the other"
    TOGETHER = "in one task"
    SCATTERED = "in several tasks, in no order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What is known of the rows on one edge of the plan."""

    in_order: bool
    """Inside each task."""
    layout: Layout
    movable: bool = True
    """No task prefers a host, so that coalesce takes them one after the other."""

    @property
    def is_ordered(self) -> bool:
        return self.in_order and self.layout is not Layout.SCATTERED


LOST: Final = Rows(in_order=False, layout=Layout.SCATTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """What one node does, and whether the rows are in order after it."""

    line: int
    depth: int
    text: str
    verdict: OrderVerdict
    reason: str
    ordered_after: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVerdict:
    """Of the whole plan; nodes in the order of the text."""

    rows: Rows
    """Those that the plan gives out."""
    nodes: tuple[NodeVerdict, ...]

    @property
    def is_kept(self) -> bool:
        return self.rows.is_ordered

    @property
    def culprit(self) -> NodeVerdict | None:
        """The node after which the rows are out of order for good."""
        if self.is_kept:
            return None
        bad = [node for node in self.nodes if node.verdict is not OrderVerdict.KEPT]
        return bad[0] if bad else self.nodes[0]

    def as_dict(self) -> dict[str, Any]:
        nodes = [
            {
                "line": node.line,
                "depth": node.depth,
                "text": node.text,
                "verdict": node.verdict.value,
                "reason": node.reason,
                "ordered_after": node.ordered_after,
            }
            for node in self.nodes
        ]
        return {"order": "kept" if self.is_kept else "refused", "nodes": nodes}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The sequence and the keys as this part of the plan numbers them; a number is missing where it is computed
    above."""

    sequence: int | None
    keys: frozenset[int]
    has_keys: bool
    """Whether order is per key at all."""


def verdict_of(
    plan: str,
    *,
    sequence: str,
    keys: tuple[str, ...] = (),
    source: Source = "ranges",
    in_sequence: tuple[str, ...] = (),
    scanned: Rows | None = None,
) -> PlanVerdict:
    """Judges a plan. Without keys: the order of each partition of the source. ValueError if this is not a plan's text.

    `source` is how the source lays out its rows: "ranges" of the sequence, one partition after the other, or "keys",
    each in one partition. `in_sequence` names functions that sort what they get by the sequence themselves. `scanned`
    is what is known of rows that another plan has made, which this one only shows as a scan of an RDD.
    """
    root = parse_plan(plan)
    numbers = _numbers_of(root)
    columns = _Columns(
        sequence=numbers.get(sequence),
        keys=frozenset(numbers[key] for key in keys if key in numbers),
        has_keys=bool(keys),
    )
    layout = Layout.TOGETHER if source == "keys" else Layout.RANGES
    judge = _Judge(layout=layout, in_sequence=in_sequence, scanned=scanned, found=[])
    rows = judge.rows_after(root, columns)
    return PlanVerdict(rows=rows, nodes=tuple(sorted(judge.found, key=lambda node: node.line)))


def _numbers_of(node: PlanNode) -> dict[str, int]:
    """The columns of a node by name; those whose name is there twice are left out."""
    columns = output_of(node)
    names = [one.name for one in columns]
    return {one.name: one.number for one in columns if names.count(one.name) == 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    layout: Layout
    in_sequence: tuple[str, ...]
    scanned: Rows | None
    found: list[NodeVerdict]

    def rows_after(self, node: PlanNode, columns: _Columns) -> Rows:
        rule = NODES.get(node.name)
        if rule is None:
            return self._note(node, LOST, OrderVerdict.UNKNOWN, "no rule says what this node does to order")
        below = [self.rows_after(child, _below(node, child, columns)) for child in _inputs(node)]
        reason = rule.reason
        match rule.effect:
            case Effect.SOURCE:
                return self._after_source(node, reason)
            case Effect.BREAKS:
                return self._note(node, LOST, OrderVerdict.BROKEN, reason)
            case _ if not below:
                return self._note(node, LOST, OrderVerdict.UNKNOWN, "nothing is known of what it reads")
            case Effect.EXCHANGE:
                rows, reason = _after_exchange(node, columns, below[0])
            case Effect.READ:
                rows, reason = _after_read(node, below[0], reason)
            case Effect.SORT:
                rows, reason = _after_sort(node, columns, below[0])
            case Effect.COALESCE:
                rows = below[0]
                if rows.layout is Layout.RANGES and not rows.movable:
                    rows, reason = LOST, "puts the partitions of one host together, whatever their order"
            case Effect.UNION:
                rows = Rows(
                    in_order=all(one.in_order for one in below),
                    layout=max((one.layout for one in below), key=list(Layout).index),
                    movable=all(one.movable for one in below),
                )
            case Effect.GROUPS:
                rows, reason = self._after_groups(node, columns, below[0], reason)
            case _:
                rows = below[0]
        loses = (below[0].is_ordered and not rows.is_ordered) or (below[0].in_order and not rows.in_order)
        needs = rule.effect is Effect.GROUPS and not rows.in_order
        return self._note(node, rows, OrderVerdict.BROKEN if loses or needs else OrderVerdict.KEPT, reason)

    def _after_source(self, node: PlanNode, reason: str) -> Rows:
        if node.name == "Scan":
            if self.scanned is None:
                return self._note(node, LOST, OrderVerdict.UNKNOWN, "nothing is known of the plan that made these rows")
            return self._note(node, self.scanned, OrderVerdict.KEPT, "rows of the plan that was judged before this one")
        if node.children:
            return self._note(node, LOST, OrderVerdict.UNKNOWN, "nothing is known of what it reads")
        movable = any(word in node.text for word in WITHOUT_PREFERRED_HOSTS)
        return self._note(node, Rows(in_order=True, layout=self.layout, movable=movable), OrderVerdict.KEPT, reason)

    def _after_groups(self, node: PlanNode, columns: _Columns, rows: Rows, reason: str) -> tuple[Rows, str]:
        if rows.in_order:
            return rows, "its input is in order by the key and the sequence"
        called = _FUNCTION.match(node.text)
        name = called["name"] if called else ""
        if not (name.startswith(IN_SEQUENCE) or name in self.in_sequence):
            return LOST, reason
        if not columns.has_keys:
            return LOST, "order is asked for per partition, and this works per key: name the key"
        return Rows(
            in_order=True, layout=rows.layout
        ), f"{name} gathers the rows of a key and sorts them by the sequence"

    def _note(self, node: PlanNode, rows: Rows, verdict: OrderVerdict, reason: str) -> Rows:
        self.found.append(
            NodeVerdict(
                line=node.line,
                depth=node.depth,
                text=node.text,
                verdict=verdict,
                reason=reason,
                ordered_after=rows.is_ordered,
            )
        )
        return rows


def _inputs(node: PlanNode) -> list[PlanNode]:
    """Of a join, the side whose rows pass; of everything else, all."""
    if NODES[node.name].effect is not Effect.JOIN:
        return node.children
    kind = re.search(r"\b(Inner|Cross|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti|ExistenceJoin)\b", node.text)
    if kind is None or kind[1] == "FullOuter" or len(node.children) != 2:
        return []
    right = "BuildLeft" in node.text or (node.name == "SortMergeJoin" and kind[1] == "RightOuter")
    return [node.children[1 if right else 0]]


def _below(node: PlanNode, child: PlanNode, columns: _Columns) -> _Columns:
    """The same columns, as this input of the node numbers them."""
    numbers: dict[int, int] = {}
    if node.name == "Project":
        numbers = {given.number: taken.number for given, taken in projected(node).items() if taken is not None}
    elif node.name in NEW_COLUMNS:
        by_name = _numbers_of(child)
        numbers = {one.number: by_name[one.name] for one in output_of(node) if one.name in by_name}
    elif node.name == "Union":
        given, taken = output_of(node), output_of(child)
        if len(given) == len(taken):
            numbers = {one.number: other.number for one, other in zip(given, taken, strict=True)}
    else:
        return columns
    keys = frozenset(numbers[key] for key in columns.keys if key in numbers)
    sequence = numbers.get(columns.sequence) if columns.sequence is not None else None
    return replace(columns, sequence=sequence, keys=keys)


def _after_exchange(node: PlanNode, columns: _Columns, rows: Rows) -> tuple[Rows, str]:
    how = node.text.partition(" ")[2]
    kind, _, rest = how.partition("(")
    moved = rows.in_order and rows.layout is Layout.TOGETHER
    if how.startswith("SinglePartition"):
        why = "one task reads all blocks" if moved else "the blocks of several tasks come in any order"
        return Rows(in_order=moved and columns.has_keys, layout=Layout.TOGETHER), why
    if kind == "RoundRobinPartitioning":
        return LOST, "repartition(n) sorts rows by their hash and deals them out"
    arguments = split_list(_inside(rest))[:-1]
    named = [attribute(re.sub(r" (ASC|DESC) NULLS (FIRST|LAST)$", "", one)) for one in arguments]
    numbers = {one.number for one in named if one is not None}
    if kind == "hashpartitioning" and columns.has_keys:
        if not numbers or None in named or not numbers <= columns.keys:
            return LOST, "spreads the rows of a key over several tasks: it does not go by the key alone"
        if moved:
            return Rows(in_order=True, layout=Layout.TOGETHER), "each key comes from one task in one block"
        return Rows(in_order=False, layout=Layout.TOGETHER), "the blocks of several tasks come in any order"
    if kind == "rangepartitioning" and arguments and numbers == {columns.sequence} and " DESC " not in arguments[0]:
        in_order = moved and columns.has_keys
        return Rows(
            in_order=in_order, layout=Layout.RANGES, movable=False
        ), "ranges of the sequence, one after the other"
    return LOST, "rows of one partition go to several tasks" if not columns.has_keys else "does not go by the key"


def _inside(text: str) -> str:
    """Up to the bracket that closes what is open."""
    depth = 1
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            return text[:place]
    return text


def _after_read(node: PlanNode, rows: Rows, reason: str) -> tuple[Rows, str]:
    how = node.text.partition(" ")[2]
    if how in {"", "coalesced"}:
        return rows, reason
    return LOST, f"adaptive execution reads this exchange in another way ({how})"


def _after_sort(node: PlanNode, columns: _Columns, rows: Rows) -> tuple[Rows, str]:
    lists = lists_in(node.text)
    for item in lists[0] if lists else []:
        name, ascending, _ = item.partition(" ASC")
        column = attribute(name)
        if column is not None and column.number == columns.sequence and ascending:
            return replace(rows, in_order=True), "sorts by the sequence"
        if column is None or column.number not in columns.keys:
            break
    return replace(rows, in_order=False), "sorts by other columns than the sequence: stable only until it spills"
