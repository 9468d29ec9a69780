"""Whether a machine may be lost now, in one sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

GOOD: Final = "good"
DOUBTFUL: Final = "warning"
BAD: Final = "bad"
STUCK_SECONDS: Final = 2.0
"""A write that waits for this long is not explained by a slow disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """One configuration: how many members it has, how many must sync, and how many are in sync now."""

    members: int
    needed: int
    in_sync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`may_lose`: how many more machines may go before writes stop; negative if they have stopped."""

    level: str
    sentence: str
    may_lose: int

    def as_json(self) -> dict[str, object]:
        return {"level": self.level, "sentence": self.sentence, "may_lose": self.may_lose}


def unknown(why: str, level: str = BAD) -> Outlook:
    """Nobody here can tell."""
    return Outlook(level=level, sentence=why, may_lose=-1)


def outlook(quorums: Sequence[Quorum], *, stuck_seconds: float = 0.0) -> Outlook:
    """Of the volume's configuration; of both while one replaces the other: the worse one counts.

    `stuck_seconds`: for how long what was written has waited without anything being acknowledged.
    """
    worst = min(quorums, key=lambda one: one.in_sync - one.needed)
    spare = worst.in_sync - worst.needed
    if spare < 0:
        lost = f"No: batches wait. {worst.in_sync} of {worst.members} machines {_are(worst.in_sync)} in sync"
        return Outlook(level=BAD, sentence=f"{lost}, and {worst.needed} must be.", may_lose=spare)
    if stuck_seconds >= STUCK_SECONDS:
        sentence = f"No: batches wait. What was written {stuck_seconds:.0f} s ago is not acknowledged yet."
        return Outlook(level=BAD, sentence=sentence, may_lose=-1)
    if worst.members == 1:
        sentence = "No: there is only one copy. Whoever loses this machine or its disk loses the volume."
        return Outlook(level=DOUBTFUL, sentence=sentence, may_lose=0)
    if spare == 0 and worst.in_sync > 1:
        sentence = (
            f"Not without a pause: {worst.in_sync} of {worst.members} machines are in sync and {worst.needed} must be. "
            "If one more goes, batches wait; nothing acknowledged is lost."
        )
        return Outlook(level=DOUBTFUL, sentence=sentence, may_lose=0)
    if spare == 0:
        sentence = (
            f"No: one of {worst.members} machines is in sync, and nothing else is asked for. What is acknowledged now "
            "is on that one alone."
        )
        return Outlook(level=DOUBTFUL, sentence=sentence, may_lose=0)
    more = "one more machine" if spare == 1 else f"{spare} more machines"
    sentence = f"Yes: {more} may be lost, and batches go on."
    if worst.in_sync < worst.members:
        away = worst.members - worst.in_sync
        sentence += f" {away} of {worst.members} {_are(away)} not in sync now."
        return Outlook(level=DOUBTFUL, sentence=sentence, may_lose=spare)
    return Outlook(level=GOOD, sentence=sentence, may_lose=spare)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
