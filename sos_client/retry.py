"""Whether to try again after an error, and how long to pause before. Pure: no clock, no chance of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sos_client.wire.errors import (
    ConnectionLostError,
    DeadlineError,
    ErrorCode,
    ProtocolError,
    RefusedError,
    SosError,
)

_PASSING_REFUSALS: Final = frozenset({ErrorCode.LIMIT, ErrorCode.TOO_SLOW, ErrorCode.SHUTTING_DOWN, ErrorCode.PROTOCOL})
"""Those that say something about this connection, or this minute, and nothing about the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential pauses with jitter, so that clients which lost the same server do not come back in step."""

    first_seconds: float = 0.05
    factor: float = 2.0
    pause_seconds_max: float = 2.0

    def __post_init__(self) -> None:
        assert 0 < self.first_seconds <= self.pause_seconds_max
        assert self.factor >= 1

    def pause_seconds(self, failures: int, chance: float) -> float:
        """How long to wait after this many failures in a row (1 or more); `chance` is a random number from 0 to 1.

        Between half of the full pause and all of it: some jitter, but never a second try at once.
        """
        grown = self.first_seconds
        for _ in range(failures - 1):
            grown *= self.factor
            if grown >= self.pause_seconds_max:
                break
        return min(grown, self.pause_seconds_max) * (0.5 + chance / 2)


def is_passing(error: SosError) -> bool:
    """Whether the same thing, asked again on another connection, may well go better.

    A broken protocol counts: bytes do get damaged on their way, and a new connection then helps.
    """
    if isinstance(error, RefusedError):
        return error.code in _PASSING_REFUSALS
    return isinstance(error, ConnectionLostError | DeadlineError | ProtocolError)
