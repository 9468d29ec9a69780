"""A sink's log of transactions on disk: read at the start; each line is durable before anybody hears of it."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from connectors.sink.durable_file import DurableFile
from connectors.sink.sink_history import SinkHistory, SinkTransaction, first_line, log_line, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class SinkLog:
    """`history` is what is in it. Calls block. A line that a crash cut off was never answered for: it is removed."""

    def __init__(self, path: Path) -> None:
        """OSError, SinkLogError."""
        self.history = SinkHistory()
        whole = sum(size for size, _ in read_log(path, self.history)) if path.exists() else 0
        self._file = DurableFile(path)
        if whole < self._file.size:
            self._file.cut(whole)
        if not whole:
            line = first_line(secrets.token_hex(8))
            self._file.append(line)
            self._file.sync()
            self.history.apply(json.loads(line))

    def write(self, kind: str, **fields: Any) -> None:
        """A line, durable when this returns."""
        line = log_line(kind, **fields, at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self._file.append(line)
        self._file.sync()
        self.history.apply(json.loads(line))

    def close(self) -> None:
        self._file.close()


def read_log(path: Path, history: SinkHistory) -> Iterator[tuple[int, SinkTransaction | None]]:
    """Each whole line: its size, and what it commits. SinkLogError for one that cannot be read."""
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n"):
                return
            yield len(text), read_line(text, history, number=number, what=str(path))
