"""What is killed, how often, in which order, and how much of it at once: all of it follows from a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

from tests.chaos.events import Share, drawn, shuffled

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence


class ConnectorEvent(StrEnum):
    """One kind of event. Whatever is killed is killed with -9."""

    PRODUCER = "a producer"
    LISTENER = "the listener"
    SERVER = "an SOS server, its unsynced bytes lost"
    QUORUM = "two of three SOS servers"
    SERVICE = "the journal service"
    RELAY = "the relay"
    SINK = "a sink"
    SINKS = "all sinks, for several seconds"
    EXECUTOR = "an executor"
    DRIVER = "the driver and its executors"
    MACHINE = "the machine: driver, executors, journal service, relay, their disk"
    ZOMBIE = "nobody: the driver sleeps while another takes over, then wakes up"
    BLACKOUT = "all but the sinks: listener, machine, and all servers lose power"


SHARES: Final[dict[ConnectorEvent, Share]] = {
    ConnectorEvent.PRODUCER: Share(weight=32, minimum=1),
    ConnectorEvent.LISTENER: Share(weight=32, minimum=2),
    ConnectorEvent.SERVER: Share(weight=32, minimum=1),
    ConnectorEvent.QUORUM: Share(weight=6, minimum=0),
    ConnectorEvent.SERVICE: Share(weight=28, minimum=1),
    ConnectorEvent.RELAY: Share(weight=48, minimum=3),
    ConnectorEvent.SINK: Share(weight=48, minimum=3),
    ConnectorEvent.SINKS: Share(weight=2, minimum=0),
    ConnectorEvent.EXECUTOR: Share(weight=5, minimum=1),
    ConnectorEvent.DRIVER: Share(weight=3, minimum=1),
    ConnectorEvent.MACHINE: Share(weight=2, minimum=0),
    ConnectorEvent.ZOMBIE: Share(weight=1, minimum=0),
    ConnectorEvent.BLACKOUT: Share(weight=1, minimum=0),
}
EVENTS_IN_CI: Final = 14
assert sum(share.minimum for share in SHARES.values()) <= EVENTS_IN_CI

WITH_SPARK: Final = frozenset(
    {ConnectorEvent.EXECUTOR, ConnectorEvent.DRIVER, ConnectorEvent.MACHINE, ConnectorEvent.ZOMBIE}
    | {ConnectorEvent.BLACKOUT}
)
"""It takes Spark many seconds to come back from these."""
ROUND_EVENTS: Final = (4, 10)
MORE_EVENTS: Final = 6
"""A round in which Spark has to come back has so many more, which hit it meanwhile."""
SPARK_FIRST_SHARE: Final = 0.5
"""Of those rounds: so many begin with that, and all others hit it while it comes back."""
PAUSE_SECONDS_MAX: Final = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """One event of a round. Those of a round do not wait for each other, unless they are about the same process."""

    kind: ConnectorEvent
    pause_seconds: float
    """Between the beginning of the one before and this one."""
    seed: int
    """Of what else is left to chance: which of several, for how long."""


def plan(chance: random.Random) -> list[ConnectorEvent]:
    """As many events as CI wants."""
    return shuffled(chance, SHARES, EVENTS_IN_CI)


def rounds(chance: random.Random) -> Iterator[list[Blow]]:
    """Without end. First what the plan has, so that a short run has something of everything."""
    kinds = _kinds(chance)
    while True:
        some = list(islice(kinds, chance.randint(*ROUND_EVENTS)))
        if WITH_SPARK.intersection(some):
            some += islice(kinds, MORE_EVENTS)
            if chance.random() < SPARK_FIRST_SHARE:
                some.sort(key=lambda kind: kind not in WITH_SPARK)
        yield [_blow(chance, kind) for kind in some]


def rounds_of_one(chance: random.Random, kinds: Sequence[ConnectorEvent]) -> Iterator[list[Blow]]:
    """These kinds, over and over, one at a time."""
    while True:
        for kind in kinds:
            yield [_blow(chance, kind)]


def _kinds(chance: random.Random) -> Iterator[ConnectorEvent]:
    yield from plan(chance)
    while True:
        yield from drawn(chance, SHARES)


def _blow(chance: random.Random, kind: ConnectorEvent) -> Blow:
    pause_seconds = chance.uniform(0.0, PAUSE_SECONDS_MAX)
    return Blow(kind=kind, pause_seconds=pause_seconds, seed=chance.randrange(2**32))
