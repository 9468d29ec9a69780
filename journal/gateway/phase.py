"""What a connection is doing, which decides how long nothing may happen on it (watch.py)."""

from __future__ import annotations

from enum import Enum


class ConnectionPhase(Enum):
    GREETING = "greeting"
    IDLE = "idle"
    RECEIVING = "receiving"
    WRITING = "writing"
    WORKING = "working"
    SENDING = "sending"
