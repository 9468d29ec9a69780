"""A sink's log of transactions on disk: read at the start; each line is durable before anybody hears of it.

It is shortened when it is long, so that neither the disk nor a start pays for what was years ago.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from connectors.sink.durable_file import DurableFile
from connectors.sink.sink_history import SinkHistory, SinkTransaction, first_line, log_line, read_line, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES_MAX: Final = 4 * 1024 * 1024
"""Some 13,000 transactions, for people to read; then it begins again with what they came to."""


class SinkLog:
    """`history` is what is in it. Calls block. A line that a crash cut off was never answered for: it is removed."""

    def __init__(self, path: Path, *, bytes_max: int = BYTES_MAX) -> None:
        """OSError, SinkLogError."""
        self._bytes_max = self._shorten_at = bytes_max
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
        if self._file.size > self._shorten_at:
            self._shorten()

    def _shorten(self) -> None:
        with contextlib.suppress(OSError):  # the line is durable, and a log that stays long is right, too
            self._file.replace(shortened(self.history))
        self._shorten_at = max(self._bytes_max, 2 * self._file.size)

    def close(self) -> None:
        self._file.close()


def read_log(path: Path, history: SinkHistory) -> Iterator[tuple[int, SinkTransaction | None]]:
    """Each whole line: its size, and what it commits. SinkLogError for one that cannot be read."""
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n"):
                return
            yield len(text), read_line(text, history, number=number, what=str(path))
