"""What is killed, how often, and in which order: all of it follows from a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random


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
    """One round: as many events as CI wants, each kind as often as it must come at least, shuffled."""
    kinds = [kind for kind in Kind for _ in range(SHARES[kind].minimum)]
    weights = [SHARES[kind].weight for kind in Kind]
    kinds += chance.choices(list(Kind), weights, k=EVENTS_IN_CI - len(kinds))
    chance.shuffle(kinds)
    return kinds
