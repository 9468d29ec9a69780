"""The answers that a volume in memory gave: as many as PROTOCOL.md promises, so that who needs more is found out."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, JournalError, SupersededError, journal_error
from journal.volume import FileStatus, OperationId

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = FileStatus | bool | JournalError | None

ANSWERS_OF_A_CLIENT: Final = 16


@dataclass
class MemoryAnswers:
    """By operation; `runs`: how many changes were really run, repetitions not counted."""

    outcomes: dict[OperationId, Outcome] = field(default_factory=dict)
    oldest_kept: dict[bytes, int] = field(default_factory=dict)
    runs: int = 0
    _of_client: dict[bytes, deque[OperationId]] = field(default_factory=lambda: defaultdict(deque))

    def once(self, operation: OperationId, run: Callable[[], Outcome], *, answers: type) -> Outcome:
        """The first answer, or what comes of running it now."""
        if operation in self.outcomes:
            outcome = self.outcomes[operation]
            if isinstance(outcome, (answers, JournalError)):
                return outcome
            return journal_error(JournalCode.BAD_REQUEST, "this operation id was used for another kind of change")
        if operation.sequence < self.oldest_kept.get(operation.client, 0):
            raise SupersededError(JournalCode.EXPIRED, "the operation is older than what is remembered")
        self.runs += 1
        try:
            outcome = run()
        except JournalError as error:
            outcome = error
        self._keep(operation, outcome)
        return outcome

    def _keep(self, operation: OperationId, outcome: Outcome) -> None:
        self.outcomes[operation] = outcome
        kept = self._of_client[operation.client]
        kept.append(operation)
        if len(kept) > ANSWERS_OF_A_CLIENT:
            gone = kept.popleft()
            del self.outcomes[gone]
            self.oldest_kept[gone.client] = max(self.oldest_kept.get(gone.client, 0), gone.sequence + 1)
