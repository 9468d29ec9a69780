"""The log of a query's decisions, as text: one JSON object a line. DECISIONS.md says what each is.

Pure. Reading gives what a relay has to know when it takes the decisions over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from journal.errors import JournalCode, damaged, refused

FORMAT: Final = 1
COMMITS_REMEMBERED: Final = 200
"""A sink can have prepared the last one only; the others show one that was put back to an older state."""


@dataclass(slots=True, kw_only=True)
class DecisionHistory:
    """What the log says so far. `lines_read` of the present file."""

    query: str = ""
    """What it is called at its sinks."""
    generation: int = 0
    ends: tuple[int, ...] = ()
    commits: dict[str, int] = field(default_factory=dict)  # transaction → batch, oldest first
    next_file: int | None = None
    rows: int = 0
    plan: str = ""
    """Of the last batch; empty: it was not said."""
    sinks: tuple[str, ...] = ()
    """Where they were when the decisions were taken over last; empty: it was not said."""

    @property
    def last_batch(self) -> int | None:
        return next(reversed(self.commits.values()), None)

    def begin(self, *, query: str, sinks: int) -> None:
        """A query that nobody has committed anything of."""
        self.query = query
        self.ends = (0,) * sinks

    def apply(self, line: dict[str, Any]) -> None:
        """One line. KeyError, TypeError, ValueError when it is not one."""
        match line["kind"]:
            case "state":
                self.query = str(line["query"])
                self.generation = int(line["generation"])
                self.ends = tuple(int(end) for end in line["ends"])
                self.commits = {str(name): int(batch) for name, batch in line["commits"]}
                self.rows = int(line["rows"])
                self.plan = str(line.get("plan", ""))
                self.sinks = tuple(str(sink) for sink in line.get("sinks", ()))
            case "opened":
                self.generation = int(line["generation"])
                self.sinks = tuple(str(sink) for sink in line.get("sinks", ()))
            case "commit":
                self.ends = tuple(int(end) for end in line["ends"])
                self.rows += int(line["rows"])
                self.plan = str(line.get("plan", ""))
                self.remember(str(line["transaction"]), int(line["batch"]))
            case "continued":
                self.next_file = int(line["file"])
            case unknown:
                raise ValueError(f"unknown kind {unknown!r}")

    def remember(self, transaction: str, batch: int) -> None:
        """This was committed, after all others."""
        self.commits.pop(transaction, None)
        self.commits[transaction] = batch
        while len(self.commits) > COMMITS_REMEMBERED:
            del self.commits[next(iter(self.commits))]


def state_line(history: DecisionHistory) -> bytes:
    """The first line of a file: everything that came before it."""
    return encode_line(
        {
            "kind": "state",
            "format": FORMAT,
            "query": history.query,
            "generation": history.generation,
            "ends": list(history.ends),
            "commits": [[transaction, batch] for transaction, batch in history.commits.items()],
            "rows": history.rows,
            "plan": history.plan,
            "sinks": list(history.sinks),
        }
    )


def encode_line(line: dict[str, Any]) -> bytes:
    """A line of the log."""
    return json.dumps(line, ensure_ascii=False, separators=(", ", ": ")).encode() + b"\n"


def read_lines(data: bytes, path: str) -> DecisionHistory:
    """A whole file. DAMAGED if it is not one, TOO_NEW."""
    history = DecisionHistory()
    lines = data.split(b"\n")
    if lines.pop():
        raise damaged(f"{path} ends in the middle of a line", path=path)
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            if number == 1 and (line["kind"] != "state" or line["format"] != FORMAT):
                raise refused(
                    JournalCode.BAD_REQUEST, f"{path} was written by another version of sos-connector: use that one"
                )
            history.apply(line)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(f"{path}: line {number} is not a decision: {error}", path=path) from None
    if not lines:
        raise damaged(f"{path} is empty", path=path)
    return history
