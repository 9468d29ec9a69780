"""Spark's batches as the log tells them: when each was planned and committed, what it read, what state it wrote. Pure.

Unlike the checkpoint directory, which Spark purges, the log knows every batch inside retention.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.checkpoint.layout import batch_of, state_file_of
from journal.records.change import content_path
from journal.records.record import Kind

if TYPE_CHECKING:
    from journal.records.change import Change
    from journal.records.record import Lsn, RecordHeader


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch of one query. A batch that was planned and not committed is running, or will be run again.

    In real-time mode the plan is written when the batch is done, after its state: nobody knows before where it ends.
    """

    query: str
    number: int
    planned_ms: int | None = None
    planned_lsn: Lsn | None = None
    plan: RecordHeader | None = None  # the record that has offsets/N as its payload, if it was put in one piece
    committed_ms: int | None = None
    committed_lsn: Lsn | None = None  # after it: what `batch:N` means
    is_real_time: bool = False  # seen by its state; without any, it looks like a batch that took no time
    began_ms: int | None = None  # when it was planned; in real-time mode when the one before it was committed
    state_files: int = 0  # written for version number + 1
    state_versions: int | None = None  # that version, if any state was written

    @property
    def duration_ms(self) -> int | None:
        """From its beginning to its commit."""
        if self.began_ms is None or self.committed_ms is None:
            return None
        return self.committed_ms - self.began_ms


@dataclass(slots=True)
class BatchHistory:
    """Collects batches from records in order."""

    batches: dict[tuple[str, int], Batch] = field(default_factory=dict)
    _state: dict[tuple[str, int], int] = field(default_factory=dict)

    def note(self, header: RecordHeader, change: Change) -> None:
        """Take one record into account."""
        path = content_path(change)
        if path is not None:
            self._note_path(header, path)

    def _note_path(self, header: RecordHeader, path: str) -> None:
        found = batch_of(path)
        if found is None:
            self._note_state(path)
            return
        query, log, number = found
        batch = self.batches.setdefault((query, number), Batch(query=query, number=number))
        if log == "offsets":
            batch.planned_ms, batch.planned_lsn = header.time_ms, header.end_lsn
            batch.plan = header if header.kind == Kind.PUT else None
            batch.is_real_time = (query, number + 1) in self._state
            batch.began_ms = self._committed_ms(query, number - 1) if batch.is_real_time else header.time_ms
            return
        batch.committed_ms, batch.committed_lsn = header.time_ms, header.end_lsn
        files = self._state.pop((query, number + 1), 0)
        if files:
            batch.state_files, batch.state_versions = files, number + 1

    def _committed_ms(self, query: str, number: int) -> int | None:
        batch = self.batches.get((query, number))
        return None if batch is None else batch.committed_ms

    def _note_state(self, path: str) -> None:
        query, separator, rest = path.rpartition("/state/") if "/state/" in path else ("", "", path)
        state = state_file_of(f"state/{rest}" if separator else rest)
        if state is not None:
            key = (query, state.version)
            self._state[key] = self._state.get(key, 0) + 1

    def of(self, path: str, *, last: int | None = None) -> list[Batch]:
        """The last batches (None: all) of each query at or below the path, one query after the other, by number."""
        queries: dict[str, list[Batch]] = {}
        for batch in sorted(self.batches.values(), key=lambda one: one.number):
            if not path or f"{batch.query}/".startswith(f"{path}/"):
                queries.setdefault(batch.query, []).append(batch)
        return [batch for query in sorted(queries) for batch in queries[query][-(last or 0) :]]
