"""The table of docs/testing.md that says how much was simulated so far: each soak adds to it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.runner import Summary

BEGIN: Final = '<!-- soaked: written by `make soak ARGS="--write"` -->'
END: Final = "<!-- end of soaked -->"
SHOWN: Final = (
    *("took over", "kill", "power cut", "members changed", "taken away", "pin", "moments audited", "wipe", "rot"),
    *("partition", "cut", "sleep", "clock jump", "repair", "operations audited", "judged twice"),
)
"""What happened, of all that is counted: what the promises are about."""
_ROW: Final = re.compile(r"^\| (\w+) \| (\d+) \| (\d+) \| (.*) \|$", re.MULTILINE)


@dataclass(slots=True)
class Soaked:
    """All runs of one half."""

    runs: int = 0
    violations: int = 0
    events: Counter[str] = field(default_factory=Counter)


def soaked_in(document: str) -> dict[str, Soaked]:
    """What the table says."""
    table = document.partition(BEGIN)[2].partition(END)[0]
    found: dict[str, Soaked] = {}
    for half, runs, violations, events in _ROW.findall(table):
        pairs = (event.rpartition(" ") for event in events.split(", ") if event)
        found[half] = Soaked(int(runs), int(violations), Counter({name: int(count) for name, _, count in pairs}))
    return found


def with_run(document: str, half: str, summary: Summary) -> str:
    """The document, this summary added."""
    found = soaked_in(document)
    total = found.setdefault(half, Soaked())
    total.runs += summary.runs
    total.violations += len(summary.violations)
    total.events.update({name: summary.counts[name] for name in SHOWN if summary.counts[name]})
    lines = ["| half | seeds | with a violation | what happened |", "|---|---|---|---|"]
    for name, one in sorted(found.items()):
        events = ", ".join(f"{event} {one.events[event]}" for event in SHOWN if one.events[event])
        lines.append(f"| {name} | {one.runs} | {one.violations} | {events} |")
    head, _, rest = document.partition(BEGIN)
    tail = rest.partition(END)[2]
    return "\n".join([f"{head}{BEGIN}", *lines, f"{END}{tail}"])
