"""Which listener has which stream, and how far each stream is that nobody has: the state that the registry's log makes.

Pure. A record that is not allowed changes nothing, so whoever reads the log to the same place knows the same. The
argument why no stream has two listeners is in decision 1013.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, damaged, journal_error

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_LINE: Final = "sos-stream-registry 1"
FULL: Final = "full"
NOTHING: Final = -1
"""The point of a stream of which nothing is known to have come."""


@dataclass(slots=True)
class StreamClaims:
    """`owners`: streams that a listener has; `points`: how far a stream was when it was last given up."""

    epochs: dict[str, int] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    points: dict[int, int] = field(default_factory=dict)
    full: bool = False

    def apply(self, lines: Iterable[str]) -> None:
        """What these lines of the log say. DAMAGED for what is not a line of it."""
        for line in lines:
            word, *rest = line.split(" ")
            if self.full:
                raise damaged(f"the stream registry goes on after its end: {line[:100]!r}")
            try:
                self._apply(word, rest)
            except (ValueError, KeyError) as error:
                raise damaged(f"the stream registry has the line {line[:100]!r}") from error

    def streams_of(self, listener: str) -> list[int]:
        """All that it has."""
        return [stream_id for stream_id, owner in self.owners.items() if owner == listener]

    def snapshot(self) -> list[str]:
        """Lines that make this state."""
        lines = [f"join {listener} {epoch}" for listener, epoch in self.epochs.items()]
        lines += [f"point {stream_id} {point}" for stream_id, point in self.points.items()]
        lines += [f"owner {stream_id} {owner}" for stream_id, owner in self.owners.items()]
        return lines

    def _apply(self, word: str, rest: list[str]) -> None:
        match word, rest:
            case "join", [listener, epoch]:
                self.epochs[listener] = max(int(epoch), self.epochs.get(listener, 0))
            case "hold", [listener, epoch, stream]:
                if self.epochs.get(listener) == int(epoch):
                    self.owners.setdefault(int(stream), listener)
            case "free", [listener, epoch, stream, point]:
                stream_id = int(stream)
                if self.epochs.get(listener) == int(epoch) and self.owners.get(stream_id) == listener:
                    del self.owners[stream_id]
                    self.points[stream_id] = max(int(point), self.points.get(stream_id, NOTHING))
            case "point", [stream, point]:
                self.points[int(stream)] = int(point)
            case "owner", [stream, listener]:
                self.owners[int(stream)] = listener
            case "full", []:
                self.full = True
            case _:
                raise ValueError(word)


def join_line(listener: str, epoch: int) -> str:
    """The volume of a listener has an owner with this epoch: those before it say nothing more."""
    return f"join {listener} {epoch}"


def hold_line(listener: str, epoch: int, stream_id: int) -> str:
    """A listener wants a stream. It has it if nobody else had."""
    return f"hold {listener} {epoch} {stream_id}"


def free_line(listener: str, epoch: int, stream_id: int, point: int) -> str:
    """A listener gives a stream up, of which it has all up to this message."""
    return f"free {listener} {epoch} {stream_id} {point}"


def check_first_line(line: str) -> None:
    """TOO_NEW when another version begins like this."""
    if line != FIRST_LINE:
        raise journal_error(
            JournalCode.TOO_NEW,
            f"a stream registry begins with {line[:100]!r}: a newer sos-connector wrote it; use that",
        )
