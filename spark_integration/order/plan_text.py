"""Reads the text that Spark prints of a physical plan: a tree of nodes, with their columns. Pure.

The text is the one form of a plan that all of Spark 3.5 to 4.3 have in common. What this module does not understand
becomes a node that no rule knows, and such a plan is refused (plan_verdict).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_PREFIX: Final = re.compile(r"^(?P<indent>(?:[: ]  )*)(?P<branch>[+:]- )?(?P<text>.*)$")
_NAME: Final = re.compile(r"^(?:[!~*]*(?:\(\d+\) )?)(?: )?(?P<name>[A-Za-z]\w*)")
_ATTRIBUTE: Final = re.compile(r"^`?(?P<name>[^#`]+?)`?#(?P<id>\d+)L?(?:-T\d+ms)?$")
_ALIAS: Final = re.compile(r"^(?P<from>.*) AS (?P<to>[^ ]+#\d+L?(?:-T\d+ms)?)$")
_LABEL: Final = re.compile(r"^== (?P<which>.+?) ==$")  # of a plan, such as Physical, Final or Initial
_PHYSICAL: Final = "== Physical Plan =="
"""Logical plans may stand before it."""
_DETAIL: Final = re.compile(r"^\(\d+\) [A-Za-z]")  # what the formatted mode says of a node, below the tree
_NOT_RUN: Final = "Initial Plan"
"""What adaptive execution began with; the plan that runs is printed before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A column as plans name it. Its number stays the same wherever it is handed on."""

    name: str
    number: int


@dataclass(slots=True, kw_only=True)
class PlanNode:
    """One line of a plan and what lies below it."""

    line: int
    """Of the text, from 1."""
    depth: int
    name: str
    text: str
    children: list[PlanNode] = field(default_factory=list)


def parse_plan(text: str) -> PlanNode:
    """The root of the plan that runs. ValueError if this is not the text of a plan."""
    root: PlanNode | None = None
    path: list[PlanNode] = []
    left_out: int | None = None
    lines = text.splitlines()
    if any(_DETAIL.match(line) for line in lines):
        raise ValueError(
            "this is a plan in Spark's formatted mode, whose lines do not say what their nodes do: give what explain() "
            "prints; the UI shows that with spark.sql.ui.explainMode=simple"
        )
    begin = lines.index(_PHYSICAL) if _PHYSICAL in lines else 0
    for number, line in enumerate(lines[begin:], start=begin + 1):
        found = _PREFIX.match(line)
        assert found is not None
        depth = len(found["indent"]) // 3 + (1 if found["branch"] else 0)
        words = found["text"].strip()
        label = _LABEL.match(words)
        if left_out is not None and (not words or depth > left_out or not found["branch"]):
            continue
        left_out = depth if label and label["which"] == _NOT_RUN else None
        if not words or label:
            continue
        node = PlanNode(line=number, depth=depth, name=_name_of(words), text=words)
        del path[depth:]
        if root is None:
            root = node
        elif not path:
            raise ValueError(f"line {number} of the plan has no line above it that it belongs to: {words[:80]}")
        else:
            path[-1].children.append(node)
        path += [node] * (depth + 1 - len(path))
    if root is None:
        raise ValueError("there is no plan in this text")
    return root


def _name_of(words: str) -> str:
    found = _NAME.match(words)
    return found["name"] if found else ""


def split_list(text: str) -> list[str]:
    """`a, f(b, c), [d, e]` at its commas outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def lists_in(text: str) -> list[list[str]]:
    """What stands in square brackets, bracket by bracket, outside any others."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "([{":
            if letter == "[" and depth == 0:
                start = place + 1
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if letter == "]" and depth == 0:
                found.append(split_list(text[start:place]))
    return found


def attribute(text: str) -> Attribute | None:
    """`key#12L` as a column; None for anything else, such as an expression."""
    found = _ATTRIBUTE.match(text)
    return Attribute(name=found["name"], number=int(found["id"])) if found else None


def projected(node: PlanNode) -> dict[Attribute, Attribute | None]:
    """What a Project gives out, and the column each comes from; None: it is computed."""
    columns: dict[Attribute, Attribute | None] = {}
    for item in lists_in(node.text)[0] if lists_in(node.text) else []:
        alias = _ALIAS.match(item)
        given = attribute(alias["to"] if alias else item)
        if given is not None:
            columns[given] = attribute(alias["from"]) if alias else given
    return columns


def output_of(node: PlanNode) -> list[Attribute]:
    """The columns of the rows that a node gives out, as far as the text tells."""
    if node.name == "Project":
        return list(projected(node))
    lists = lists_in(node.text)
    if node.name in NEW_COLUMNS:
        return _columns_of(_last_columns(lists))
    if node.name == "Union" and node.children:
        return output_of(node.children[0])
    own = [one for items in lists for one in _columns_of(items)]
    below = [one for child in node.children for one in output_of(child)]
    if node.children and node.name not in MORE_COLUMNS:
        return below
    return below + [one for one in own if one not in below]


def _columns_of(items: list[str]) -> list[Attribute]:
    return [one for one in (attribute(item) for item in items) if one is not None]


def _last_columns(lists: list[list[str]]) -> list[str]:
    """The output of a function's node: its last list in which all are columns."""
    full = [items for items in lists if items and all(attribute(item) for item in items)]
    return full[-1] if full else []


NEW_COLUMNS: Final = frozenset(
    {
        "MapInPandas",
        "MapInArrow",
        "PythonMapInArrow",
        "FlatMapGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandasWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }
)
"""Nodes whose rows are made by a function: their columns are new, and are taken for those below with the same name."""
MORE_COLUMNS: Final = frozenset({"Generate", "BatchEvalPython", "ArrowEvalPython", "Window", "Expand"})
