"""Follows what a sink has committed: its file, filtered by its log of transactions as any reader would filter it."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Protocol

from connectors.sink.file_sink import committed_pieces
from connectors.sink.sink_history import SinkLogError

if TYPE_CHECKING:
    from pathlib import Path


class RowJudge(Protocol):
    """Says of each row whether it may come next."""

    def take(self, row: str) -> str | None: ...

    def position(self) -> int: ...


class SinkFollower:
    """`look` judges what is new. What was committed must stay as it was."""

    def __init__(self, out: Path, log: Path, judge: RowJudge) -> None:
        self.findings: list[str] = []
        self.rows = 0
        self._out = out
        self._log = log
        self._judge = judge
        self._size = 0
        self._checksum = 0
        self._rest = b""

    def look(self) -> int:
        """How far the sink has come, rightly."""
        if self._out.exists() and self._log.exists() and not self.findings:
            try:
                self._read()
            except SinkLogError as error:
                self.findings.append(str(error))
        return self._judge.position()

    def _read(self) -> None:
        seen, checksum = 0, 0
        for piece in committed_pieces(self._out, self._log):
            known = max(0, min(len(piece), self._size - seen))
            checksum = zlib.crc32(piece[:known], checksum)
            seen += known
            if known and seen == self._size and checksum != self._checksum:
                self.findings.append(f"{self._out.name}: what was committed has changed")
                return
            if known < len(piece):
                self._take(piece[known:])
                self._checksum = checksum = zlib.crc32(piece[known:], self._checksum)
                self._size = seen = seen + len(piece) - known
        if seen < self._size:
            self.findings.append(f"{self._out.name}: {self._size} bytes were committed, and now {seen} are")

    def _take(self, piece: bytes) -> None:
        *rows, self._rest = (self._rest + piece).split(b"\n")
        for row in rows:
            wrong = self._judge.take(row.decode())
            if wrong is not None:
                self.findings.append(f"{self._out.name}: row {self.rows}: {wrong}")
                return
            self.rows += 1


def decided(log: Path) -> dict[str, str]:
    """By transaction: committed or aborted, as the sink's log has it. What it has not ended is not here."""
    ends = {}
    for text in log.read_text().splitlines():
        try:
            entry = json.loads(text)
        except ValueError:
            break  # the last line, cut off by a crash
        if entry.get("kind") in ("committed", "aborted"):
            ends[entry["transaction"]] = entry["kind"]
    return ends


def disagreements(logs: list[Path]) -> list[str]:
    """Transactions that one sink has committed and another one has aborted."""
    verdicts: dict[str, dict[str, str]] = {}
    for log in logs:
        if log.exists():
            for transaction, end in decided(log).items():
                verdicts.setdefault(transaction, {})[log.name] = end
    return [
        f"transaction {transaction}: {ends}" for transaction, ends in verdicts.items() if len(set(ends.values())) > 1
    ]
