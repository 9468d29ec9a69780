"""Follows what sinks have committed: their files, as far as their logs of transactions say, judged row by row.

`look` reads what is new, as often as anybody likes. `look_again` reads everything that is committed from its
beginning, through the filter that users have, and compares it with what was seen before.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Protocol

from connectors.sink.file_sink import committed_pieces
from connectors.sink.sink_history import SinkHistory, SinkLogError, read_line

if TYPE_CHECKING:
    from pathlib import Path


class RowJudge(Protocol):
    """Says of each row whether it may come next."""

    def take(self, row: str) -> str | None: ...

    def position(self) -> int: ...


class Verdicts:
    """How each transaction ended, at all sinks that had it."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self._ends: dict[str, tuple[str, str]] = {}

    def take(self, sink: str, transaction: str, end: str) -> None:
        """One sink's log says `committed` or `aborted`."""
        before, other = self._ends.setdefault(transaction, (end, sink))
        if before != end:
            self.findings.append(f"transaction {transaction}: {end} at {sink}, and {before} at {other}")


class SinkFollower:
    """One sink. What was committed must stay as it was."""

    def __init__(self, out: Path, log: Path, judge: RowJudge, verdicts: Verdicts) -> None:
        self.findings: list[str] = []
        self.rows = 0
        self._out = out
        self._log = log
        self._judge = judge
        self._verdicts = verdicts
        self._history = SinkHistory()
        self._log_file = 0  # its number on the disk: a sink may write its log again
        self._log_lines = 0
        self._log_size = 0
        self._size = 0
        self._checksum = 0
        self._rest = b""

    def look(self) -> int:
        """How far the sink has come, rightly."""
        if self._out.exists() and self._log.exists() and not self.findings:
            try:
                self._read_log()
            except SinkLogError as error:
                self.findings.append(str(error))
            else:
                self._read_rows()
        return self._judge.position()

    def look_again(self) -> None:
        """Everything once more."""
        self.look()
        if self.findings or not self._size:
            return
        seen, checksum = 0, 0
        for piece in committed_pieces(self._out, self._log):
            known = max(0, min(len(piece), self._size - seen))  # more may have been committed meanwhile
            checksum = zlib.crc32(piece[:known], checksum)
            seen += known
        if seen < self._size:
            self.findings.append(f"{self._out.name}: {self._size} bytes were committed, and now {seen} are")
        elif checksum != self._checksum:
            self.findings.append(f"{self._out.name}: what was committed has changed")

    def _read_log(self) -> None:
        with self._log.open("rb") as log:
            status = os.fstat(log.fileno())
            if status.st_ino != self._log_file or status.st_size < self._log_size:
                self._log_file, self._log_lines, self._log_size = status.st_ino, 0, 0
                self._history = SinkHistory()
            log.seek(self._log_size)
            for text in log:
                if not text.endswith(b"\n"):
                    break  # it is being written, or a crash has cut it off
                self._log_lines += 1
                self._log_size += len(text)
                read_line(text, self._history, number=self._log_lines, what=str(self._log))
                line = json.loads(text)
                if line["kind"] in ("committed", "aborted"):
                    self._verdicts.take(self._log.name, line["transaction"], line["kind"])

    def _read_rows(self) -> None:
        committed = self._history.end + self._history.rows  # each row is followed by a newline
        if committed < self._size:
            self.findings.append(f"{self._out.name}: {self._size} bytes were committed, and now {committed} are")
            return
        with self._out.open("rb") as out:
            out.seek(self._size)
            piece = out.read(committed - self._size)
        if len(piece) < committed - self._size:
            self.findings.append(f"{self._out.name}: {committed} bytes are committed, and it has fewer")
            return
        self._size = committed
        self._checksum = zlib.crc32(piece, self._checksum)
        self._take(piece)

    def _take(self, piece: bytes) -> None:
        *rows, self._rest = (self._rest + piece).split(b"\n")
        for row in rows:
            wrong = self._judge.take(row.decode())
            if wrong is not None:
                self.findings.append(f"{self._out.name}: row {self.rows}: {wrong}")
                return
            self.rows += 1
