"""What is killed, how often, and in which order: all of it follows from a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

Event = TypeVar("Event", bound=StrEnum)


class Kind(StrEnum):
    """One kind of event. Whatever is killed is killed with -9."""

    SERVER = "an SOS server, its unsynced bytes lost"
    QUORUM = "two of three SOS servers"
    SERVICE = "the journal service"
    EXECUTOR = "an executor"
    DRIVER = "the driver and its executors"
    MACHINE = "the machine: driver, executors, service, local disk"
    ZOMBIE = "nobody: the driver sleeps while another takes over, then wakes up"
    BLACKOUT = "all of it: all servers lose power, and the machine is lost"
    OUTAGE = "the journal service, for several seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often a kind comes, and how often at least in a round."""

    weight: int
    minimum: int


SHARES: Final[dict[Kind, Share]] = {
    Kind.SERVER: Share(weight=40, minimum=9),
    Kind.QUORUM: Share(weight=6, minimum=2),
    Kind.SERVICE: Share(weight=38, minimum=9),
    Kind.EXECUTOR: Share(weight=8, minimum=3),
    Kind.DRIVER: Share(weight=5, minimum=2),
    Kind.MACHINE: Share(weight=4, minimum=2),
    Kind.ZOMBIE: Share(weight=1, minimum=1),
    Kind.BLACKOUT: Share(weight=1, minimum=1),
    Kind.OUTAGE: Share(weight=1, minimum=1),
}
EVENTS_IN_CI: Final = 40
assert sum(share.minimum for share in SHARES.values()) <= EVENTS_IN_CI


def plan(chance: random.Random) -> list[Kind]:
    """One round: as many events as CI wants."""
    return shuffled(chance, SHARES, EVENTS_IN_CI)


def shuffled(chance: random.Random, shares: Mapping[Event, Share], count: int) -> list[Event]:
    """So many, each kind as often as it must come at least, the rest by weight."""
    kinds = [kind for kind, share in shares.items() for _ in range(share.minimum)]
    kinds += drawn(chance, shares, count - len(kinds))
    chance.shuffle(kinds)
    return kinds


def drawn(chance: random.Random, shares: Mapping[Event, Share], count: int = 1) -> list[Event]:
    """So many by weight."""
    return chance.choices(list(shares), [share.weight for share in shares.values()], k=count)
