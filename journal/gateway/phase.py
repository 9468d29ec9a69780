"""What a connection is doing, which decides how long nothing may happen on it (watch.py)."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConnectionPhase(Enum):
    GREETING = "greeting"
    IDLE = "idle"
    RECEIVING = "receiving"
    WRITING = "writing"
    WORKING = "working"
    SENDING = "sending"


WAITED_FOR: Final = (ConnectionPhase.WORKING, ConnectionPhase.RECEIVING)
"""A client may be waiting for the answer: what it has sent may still lie in the buffers of TCP, or be on its way."""
