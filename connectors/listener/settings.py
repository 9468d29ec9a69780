"""What a listener asks of its peers, and allows them. Values only.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connectors.wire.limits import MESSAGE_FRAME_BYTES_MAX, STREAMS_MAX, U32_MAX

SOURCE_VERSION: Final = "0.0.1"
"""What Wallaroo's source workers want in HELLO; its sinks want another."""
CREDITS: Final = 4096
"""Messages that one connection may have on their way. At 100 bytes each that is a third of a megabyte, and at 50 ms to
be durable 80,000 messages a second."""
HELLO_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """For all connections of a listener."""

    version: str = SOURCE_VERSION
    cookie: bytes = b""
    credits: int = CREDITS
    streams_max: int = STREAMS_MAX
    frame_bytes_max: int = MESSAGE_FRAME_BYTES_MAX
    hello_seconds: float = HELLO_SECONDS

    def __post_init__(self) -> None:
        assert 0 < self.credits <= U32_MAX
