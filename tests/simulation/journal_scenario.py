"""What a run of the journal half is made of: how many members, how long the past is kept, what goes wrong. From a seed.

A profile says what goes wrong; the rest is drawn beside it, so that every mixture comes by sooner or later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

SHAPES: Final = {(3, 2): 12, (1, 1): 1, (2, 2): 1, (3, 3): 1, (4, 3): 1, (5, 3): 2}
"""Members and acknowledgements, and how often."""
RETENTIONS: Final = {(0, 0): 4, (0, 20_000): 3, (3, 0): 2, (60, 0): 2, (6, 60_000): 1}
"""Seconds and bytes for which the past is kept (0, 0: all of it), and how often."""
SPARES: Final = ("p", "q")
SEGMENT_BYTES_MAX: Final = 12_000
"""Small, so that a short run rolls many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What goes wrong in a run."""

    name: str
    events: dict[str, int]
    seconds: float = 5.0
    event_seconds: float = 0.4
    disk_errors: dict[str, float] = field(default_factory=dict)
    cut_rate: float = 0.0
    ghost_rate: float = 0.0
    stall_rate: float = 0.0
    services: int = 2
    three_of_two: bool = False
    """Whether it is about three members of which two acknowledge."""
    retains: bool = False
    """Whether it needs a volume that forgets."""
    few_answers: bool = False
    """Whether clients ask more than the window of answers holds."""
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    growers: int = 0
    """How many of the clients append to files; files of a few pieces are joined then."""
    takes_rights: bool = False
    """Whether clients need tokens, whose rights are taken away and given back."""
    unacknowledged_bytes_max: int = 32 << 20
    """What waits for members at most, before changes have to wait for room."""
    gives_up: bool = False
    """Whether it ends with a loss that an operator accepts: nothing is left but a member that was away at the end."""
    stays_hurt: bool = False
    """Whether servers that are away stay away after the last event, and the volume must take writes all the same."""


MEMBERS: Final = {"replace a member": 4, "add a member": 2, "remove a member": 2, "repair": 1}
OWNERS: Final = {"kill service": 4, "start service": 4, "stop service": 1, "partition": 1}

PROFILES: Final = (
    Profile(name="owners", events={**OWNERS, "sleep": 2, "stray fence": 1}),
    Profile(
        name="servers",
        services=1,
        seconds=15.0,
        events={"kill server": 4, "power cut": 5, "kill service": 2, "too few members": 3},
        three_of_two=True,
    ),
    Profile(
        name="network",
        events={"partition": 3, "one-way partition": 5, "cut": 6, "lose replies": 6, "start service": 1},
        cut_rate=0.003,
        ghost_rate=0.05,
    ),
    Profile(
        name="turns",
        stall_rate=0.05,
        events={"leave one behind": 3, "take turns": 3, "blackout": 4},
        services=1,
        seconds=7.0,
        event_seconds=0.2,
        three_of_two=True,
    ),
    Profile(
        name="a lost member",
        events={"lose a member": 2, "power cut": 2, "kill service": 3, "start service": 1, "cut": 1, "stray fence": 1},
    ),
    Profile(
        name="everything",
        events={
            "kill service": 3,
            "start service": 3,
            "power cut": 3,
            "kill server": 1,
            "cut": 2,
            "lose replies": 2,
            "one-way partition": 2,
            "lose a member": 1,
            "driver crash": 1,
            "clock jump": 1,
            "fail a sync": 2,
        },
        disk_errors={"sync": 0.001},
        cut_rate=0.001,
    ),
    Profile(
        name="the past",
        events={"kill service": 2, "start service": 1, "power cut": 1, "clock jump": 4, "kill server": 1, "sleep": 1},
        seconds=8.0,
        event_seconds=0.8,
        retains=True,
    ),
    Profile(
        name="members",
        events={**MEMBERS, "lose a member": 3, "kill service": 1},
        seconds=7.0,
        event_seconds=0.2,
        retains=True,
    ),
    Profile(
        name="members and owners",
        events={**MEMBERS, **OWNERS, "lose a member": 2, "stray fence": 2, "sleep": 1, "fill a disk": 1, "repair": 2},
        cut_rate=0.001,
    ),
    Profile(
        name="full disks",
        events={"fill a disk": 4, "kill server": 1, "power cut": 1, "kill service": 1, "start service": 1},
        retains=True,
    ),
    Profile(
        name="few answers",
        events={"kill service": 2, "start service": 1, "lose replies": 4, "cut": 2},
        few_answers=True,
    ),
)

IN_DOUBT: Final = Profile(
    name="owners in doubt",
    events={"leave in doubt": 2, "cut": 1},
    services=1,
    three_of_two=True,
    stays_hurt=True,
)
LOSSES: Final = Profile(
    name="accepted losses",
    events={"stay away": 3, "kill service": 1},
    services=1,
    seconds=8.0,
    event_seconds=2.0,
    three_of_two=True,
    gives_up=True,
)
ROLLS: Final = Profile(
    name="a segment for each record",
    events={"take over": 1},
    event_seconds=0.3,
    segment_bytes_max=500,
    three_of_two=True,
)
"""What an owner that was replaced may still send comes between two segments."""
RIGHTS: Final = Profile(
    name="rights",
    events={"take a right away": 12, "kill service": 1, "start service": 1, "stop service": 1},
    seconds=8.0,
    event_seconds=0.1,
    takes_rights=True,
    growers=2,
    unacknowledged_bytes_max=1_000,
    three_of_two=True,
)
ACCEPTED_DAMAGE: Final = Profile(
    name="log damage that is accepted",
    event_seconds=0.2,
    events={"accept log damage": 4, "lose a claim": 6, "replace a member": 3, "repair": 1, "kill service": 1},
    seconds=8.0,
    segment_bytes_max=4_000,
    three_of_two=True,
)
ROTTEN_CACHE: Final = Profile(
    name="a local copy that rots",
    events={"harm the local copy": 1},
    services=1,
    event_seconds=0.5,
)
"""Few reads are of the local copy, so most of it is harmed, again and again."""


def _growing(name: str) -> Profile:
    (profile,) = (one for one in PROFILES if one.name == name)
    return replace(profile, name=f"{name}, files that grow", growers=3)


APART_EVERY: Final = 40
APART: Final = {
    13: ROLLS,
    23: LOSSES,
    29: IN_DOUBT,
    33: ROLLS,
    37: ROTTEN_CACHE,
    3: ACCEPTED_DAMAGE,
    27: ACCEPTED_DAMAGE,
    9: RIGHTS,
    19: RIGHTS,
    39: RIGHTS,
    5: _growing("owners"),
    15: _growing("network"),
    25: _growing("the past"),
    35: _growing("everything"),
}
"""Played for themselves, by what is left of the seed: in each something holds from beginning to end."""
GOES_ON_RATE: Final = 0.25
"""How often a run must take writes after its last event. The others end amid their faults, since members that catch up
hide what was missing on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run's plan."""

    profile: Profile
    members: tuple[str, ...]
    acknowledgements: int
    retention_seconds: int
    retention_bytes: int
    standby: bool
    goes_on: bool
    """Whether the volume must take writes after the last event, with nothing started again but what had ended."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Everybody who is a member or may become one."""
        return (*self.members, *SPARES) if "replace a member" in self.profile.events else self.members

    @property
    def forgets(self) -> bool:
        return bool(self.retention_seconds or self.retention_bytes)

    @property
    def name(self) -> str:
        """For reports."""
        past = f", keeps {self.retention_seconds} s {self.retention_bytes} bytes" if self.forgets else ""
        waiting = ", standby" if self.standby else ""
        return f"{self.profile.name}, {self.acknowledgements} of {len(self.members)}{past}{waiting}"


def draw_scenario(seed: int, chance: random.Random) -> Scenario:
    """The profile follows from the seed, all else is drawn."""
    profile = profile_of(seed)
    (count, acknowledgements) = (3, 2) if profile.three_of_two else _draw(chance, SHAPES)
    retention = _draw(chance, {one: weight for one, weight in RETENTIONS.items() if _fits(profile, any(one))})
    return Scenario(
        profile=profile,
        members=tuple("abcde"[:count]),
        acknowledgements=acknowledgements,
        retention_seconds=retention[0],
        retention_bytes=retention[1],
        standby=profile.services > 1 and chance.random() < 0.4,
        goes_on=chance.random() < GOES_ON_RATE or profile.stays_hurt,
    )


def profile_of(seed: int) -> Profile:
    """What goes wrong in the run of a seed."""
    return APART.get(seed % APART_EVERY, PROFILES[seed % len(PROFILES)])


def _fits(profile: Profile, forgets: bool) -> bool:  # noqa: FBT001
    return forgets or not profile.retains if not profile.gives_up else not forgets


def _draw(chance: random.Random, weights: dict[tuple[int, int], int]) -> tuple[int, int]:
    (drawn,) = chance.choices(list(weights), list(weights.values()))
    return drawn
