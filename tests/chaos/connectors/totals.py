"""The table of docs/effectively-once.md that adds up all runs: each run with --report adds to it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN: Final = "<!-- all runs: written by `python -m tests.chaos.connectors --report` -->"
END: Final = "<!-- end of all runs -->"
_ALL: Final = "all of them"
_SUMMARY: Final = re.compile(
    r"^(?P<runs>\d+) runs, (?P<found>\d+) with a finding; (?P<minutes>[\d.]+) minutes, (?P<lines>\d+) lines\.$",
    re.MULTILINE,
)
_ROW: Final = re.compile(r"^\| (?P<kind>[^|]+) \| (?P<count>\d+) \|$", re.MULTILINE)


def with_run_added(document: str, counts: Mapping[str, int], *, minutes: float, lines: int, found: bool) -> str:
    """The document, one run added. `counts`: events by kind. Without the table it gets none."""
    head, begin, rest = document.partition(BEGIN)
    table, end, tail = rest.partition(END)
    if not (begin and end):
        return document
    runs, findings = 1, int(found)
    if before := _SUMMARY.search(table):
        runs += int(before["runs"])
        findings += int(before["found"])
        minutes += float(before["minutes"])
        lines += int(before["lines"])
    total = {row["kind"]: int(row["count"]) for row in _ROW.finditer(table) if row["kind"] != _ALL}
    for kind, count in counts.items():
        total[kind] = total.get(kind, 0) + count
    rows = [f"| {kind} | {count} |" for kind, count in total.items() if count]
    text = [
        f"{runs} runs, {findings} with a finding; {minutes:.1f} minutes, {lines} lines.",
        "",
        "| killed with -9, in all runs together | events |",
        "|---|---|",
        *rows,
        f"| {_ALL} | {sum(total.values())} |",
    ]
    return "\n".join([f"{head}{BEGIN}", *text, f"{END}{tail}"])
