"""What a sink's log of transactions says: lines, and what they come to. SINK_LOG.md has the format.

Pure. The log is what a sink answers for after a crash: what it has prepared, how it voted, where the committed ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from sos_client.wire.errors import SosError

FORMAT: Final = 2
"""1 had no line `state`: nothing was ever taken out of a log."""
FORMATS_READ: Final = (1, 2)


class SinkLogError(SosError):
    """The log of transactions cannot be believed: damaged, or of another program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTransaction:
    """Rows that are committed together. Offsets count the bytes of all rows, without what a sink puts between them."""

    id: str
    """"": rows that no phase 1 named."""
    first: int
    after: int
    first_row: int
    rows: int


@dataclass(slots=True)
class SinkHistory:
    """The state after all lines so far."""

    id: str = ""
    """By chance, of this log: what a sink prepares elsewhere is known by it, whatever the sink is called."""
    instance: str = ""
    """Whose rows these are: a query's id."""
    end: int = 0
    """Where what is committed ends."""
    rows: int = 0
    last: str = ""
    """The transaction that was committed last."""
    prepared: dict[str, tuple[SinkTransaction, bool]] = field(default_factory=dict)  # with the vote

    @property
    def held(self) -> SinkTransaction | None:
        """What is prepared and was voted to commit."""
        return next((transaction for transaction, vote in self.prepared.values() if vote), None)

    def apply(self, line: dict[str, Any]) -> SinkTransaction | None:
        """One line; the transaction that it commits. KeyError, TypeError, ValueError when it is not one."""
        match line["kind"]:
            case "sink":
                if line["format"] not in FORMATS_READ:
                    raise ValueError(f"format {line['format']!r} is not known")
                self.id = str(line["id"])
            case "state":
                return self._begin(line)
            case "instance":
                self.instance = str(line["instance"])
            case "prepared":
                transaction = SinkTransaction(
                    id=str(line["transaction"]),
                    first=int(line["first"]),
                    after=int(line["after"]),
                    first_row=self.rows,
                    rows=int(line["rows"]),
                )
                self.prepared[transaction.id] = transaction, bool(line["vote"])
            case "aborted":
                del self.prepared[str(line["transaction"])]
            case "committed":
                return self._commit(str(line["transaction"]))
            case "note":
                pass
            case unknown:
                raise ValueError(f"unknown kind {unknown!r}")
        return None

    def _begin(self, line: dict[str, Any]) -> SinkTransaction:
        """All that was committed before, as if it had been one transaction."""
        if self.last or self.prepared or self.instance:
            raise ValueError("a state is the second line, or none")
        self.instance, self.last = str(line["instance"]), str(line["last"])
        self.end, self.rows = int(line["end"]), int(line["rows"])
        return SinkTransaction(id=self.last, first=0, after=self.end, first_row=0, rows=self.rows)

    def _commit(self, name: str) -> SinkTransaction:
        transaction, vote = self.prepared.pop(name)
        if not vote or transaction.first != self.end:
            raise ValueError(f"{name} cannot have been committed")
        self.end = transaction.after
        self.rows += transaction.rows
        self.last = name
        return transaction


def shortened(history: SinkHistory) -> bytes:
    """A log that says no more than must be known: what is committed is one line, what is prepared stays as it was."""
    state = log_line("state", instance=history.instance, last=history.last, end=history.end, rows=history.rows)
    prepared = [
        log_line(
            "prepared",
            transaction=transaction.id,
            vote=vote,
            first=transaction.first,
            after=transaction.after,
            rows=transaction.rows,
        )
        for transaction, vote in history.prepared.values()
    ]
    return b"".join([first_line(history.id), state, *prepared])


def read_line(text: bytes, history: SinkHistory, *, number: int, what: str) -> SinkTransaction | None:
    """Apply a line of a log. SinkLogError if it is not one."""
    try:
        line = json.loads(text)
        if number == 1 and line["kind"] != "sink":
            raise ValueError("it is not the log of a sink")  # noqa: TRY301
        return history.apply(line)
    except (KeyError, TypeError, ValueError) as error:
        raise SinkLogError(f"{what}: line {number} cannot be read: {error}") from None


def log_line(kind: str, **fields: Any) -> bytes:
    """A line of a log."""
    return json.dumps({"kind": kind, **fields}, ensure_ascii=True).encode() + b"\n"


def first_line(identity: str) -> bytes:
    """With which each log begins."""
    return log_line("sink", format=FORMAT, id=identity)
