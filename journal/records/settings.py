"""What can be set about a volume's writer: sizes and waits, each with its reason."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import trio

from journal.kept_past import Retention
from sos_client.attempts import Deadlines
from sos_client.client import open_client
from sos_client.declarations import Form, Setting
from sos_client.serving.event_log import EventLog, Level

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from sos_client.client import SosClient
    from sos_client.net.dialing import Dial

CLIENT_DEADLINE_SECONDS: Final = 120.0
"""How long a client of the service keeps asking with the same operation id."""
MEMBER_DEADLINES: Final = Deadlines(connect_seconds=3.0, answer_seconds=10.0, retry_seconds=0.0)
"""A member outside the quorum slows nothing, and replication has pauses of its own: nothing is tried twice in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Of one writer. Waits are ordered: member failover < quorum wait < client deadline < operation window."""

    segment_bytes_max: int = 32 << 20
    """A new owner reads the last segment from its beginning: a quarter of a second of work. Smaller: more names."""
    unacknowledged_bytes_max: int = 32 << 20
    """What is written and not yet acknowledged lies in memory; beyond it, writes wait."""
    tail_bytes_max: int = 16 << 20
    """Acknowledged bytes kept in memory for members that are a little behind; others catch up from the log."""
    tree_bytes_max: Annotated[
        int,
        Setting(
            "memory for the files, directories and claims of each volume, about 500 bytes each",
            flag="--tree-bytes-max",
            form=Form.SIZE,
        ),
    ] = 64 << 20
    """Beyond it no more are made."""
    quorum_seconds: float = 60.0
    """How long a write waits for k members before its outcome is called unknown."""
    pause_seconds_max: float = 2.0
    """Between attempts to reach a member that does not answer."""
    retention: Retention = Retention()  # noqa: RUF009 (frozen)
    """Without any limit: as the volume was made; if that has none either, nothing is ever forgotten."""

    def __post_init__(self) -> None:
        assert MEMBER_DEADLINES.connect_seconds + self.pause_seconds_max < CLIENT_DEADLINE_SECONDS
        if not 0 < self.quorum_seconds < CLIENT_DEADLINE_SECONDS:
            raise ValueError(f"a write must wait less than its client: {CLIENT_DEADLINE_SECONDS:g} s")


def monotonic_ms() -> int:
    """A clock that nobody sets, of this process alone; it stands while the machine sleeps."""
    return int(trio.current_time() * 1000)


def _asleep_seconds() -> float:
    """Zero where the system does not tell: then a sleep looks like a clock that was set."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a writer takes from outside: connections, clocks, chance, a log. The simulator brings its own."""

    token: bytes | None = None
    tls: ssl.SSLContext | None = None
    insecure: bool = False  # the token may go to other hosts without TLS
    dial: Dial | None = None
    deadlines: Deadlines = MEMBER_DEADLINES
    chance: random.Random = field(default_factory=random.SystemRandom)
    wall_clock: Callable[[], float] = time.time
    asleep_clock: Callable[[], float] = _asleep_seconds
    log: EventLog = field(default_factory=lambda: EventLog(least=Level.WARNING))

    def open_member(self, address: str) -> AbstractAsyncContextManager[SosClient]:
        """A client of the SOS server at this address."""
        return open_client(
            address,
            token=self.token,
            tls=self.tls,
            insecure=self.insecure,
            dial=self.dial,
            client_name="sos-journal",
            deadlines=self.deadlines,
            chance=self.chance,
        )

    def wall_ms(self) -> int:
        """The wall clock in milliseconds."""
        return int(self.wall_clock() * 1000)

    def asleep_ms(self) -> int:
        """How long this machine has been suspended since it started, in milliseconds."""
        return int(self.asleep_clock() * 1000)
