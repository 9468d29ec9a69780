"""Lines to standard error that never wait: what nobody reads is dropped, and whoever writes is told.

A pipe whose reader has stopped, a terminal at Ctrl-S, a collector that hangs: a write that waits for them would stop
the whole server. So the system is asked first whether there is room, and lines go out in pieces that then fit.
"""

from __future__ import annotations

import os
import select
from typing import Final

PIECE_BYTES: Final = select.PIPE_BUF
"""A pipe that says it has room takes this much without waiting."""
STDERR: Final = 2


class StderrLines:
    """Call it with a line; False when it was dropped. The rest of a line that was begun comes before the next one."""

    def __init__(self, handle: int = STDERR) -> None:
        self._handle = handle
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(handle, select.POLLOUT)

    def __call__(self, line: str) -> bool:
        if not self._send_rest():
            return False
        self._rest = line.encode("utf-8", "backslashreplace")
        return self._send_rest() or bool(self._rest)

    def _send_rest(self) -> bool:
        while self._rest:
            if not any(events & select.POLLOUT for _, events in self._poll.poll(0)):
                return False
            try:
                sent = os.write(self._handle, self._rest[:PIECE_BYTES])
            except OSError:  # nobody will ever read it, or a full disk below the log: it must not stop a server
                self._rest = b""
                return False
            self._rest = self._rest[sent:]
        return True
