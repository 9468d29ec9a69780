"""What is killed, how often, and in which order: all of it follows from a seed. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.chaos.events import Share

if TYPE_CHECKING:
    import random


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
    ConnectorEvent.PRODUCER: Share(weight=14, minimum=1),
    ConnectorEvent.LISTENER: Share(weight=14, minimum=2),
    ConnectorEvent.SERVER: Share(weight=14, minimum=1),
    ConnectorEvent.QUORUM: Share(weight=3, minimum=0),
    ConnectorEvent.SERVICE: Share(weight=12, minimum=1),
    ConnectorEvent.RELAY: Share(weight=20, minimum=3),
    ConnectorEvent.SINK: Share(weight=20, minimum=3),
    ConnectorEvent.SINKS: Share(weight=1, minimum=0),
    ConnectorEvent.EXECUTOR: Share(weight=5, minimum=1),
    ConnectorEvent.DRIVER: Share(weight=4, minimum=1),
    ConnectorEvent.MACHINE: Share(weight=2, minimum=0),
    ConnectorEvent.ZOMBIE: Share(weight=1, minimum=0),
    ConnectorEvent.BLACKOUT: Share(weight=1, minimum=0),
}
EVENTS_IN_CI: Final = 14
assert sum(share.minimum for share in SHARES.values()) <= EVENTS_IN_CI


def plan(chance: random.Random) -> list[ConnectorEvent]:
    """One round: as many events as CI wants, each kind as often as it must come at least, shuffled."""
    kinds = [kind for kind in ConnectorEvent for _ in range(SHARES[kind].minimum)]
    weights = [SHARES[kind].weight for kind in ConnectorEvent]
    kinds += chance.choices(list(ConnectorEvent), weights, k=EVENTS_IN_CI - len(kinds))
    chance.shuffle(kinds)
    return kinds
