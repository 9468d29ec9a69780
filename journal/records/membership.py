"""Who keeps a volume: members, configurations, and how many of them make a quorum.

Belongs here: the values that a segment header records about the members, and every rule that counts members. Pure.
Does not belong here: when members are asked (takeover.py) or how far each has come (replica_progress.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMBERS_MAX = 15  # a header names each member in its record, and each costs the writer a task and its buffers


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Member:
    """One namespace on one server. The address says where it was last seen; it is not part of who the member is."""

    identity: bytes  # 16 bytes, made at the server's first start
    incarnation: bytes  # 16 bytes, made when the namespace was made: a wiped member comes back as somebody else
    address: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.address or self.identity.hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A set of members and how many of them must hold a record before it is acknowledged."""

    members: tuple[Member, ...]
    acknowledgements: int

    def __post_init__(self) -> None:
        n, k = len(self.members), self.acknowledgements
        if not 1 <= n <= MEMBERS_MAX:
            raise ValueError(f"a volume has 1 to {MEMBERS_MAX} members, not {n}")
        if not n < 2 * k <= 2 * n:
            raise ValueError(f"acknowledgements must be a majority of the {n} members, not {k}")
        if len({member.identity for member in self.members}) != n:
            raise ValueError("two members are on the same server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a header says about members: the configuration, and while a change is not proven also the one it replaces.

    Until the new configuration's header is known to be durable in both, nothing may rest on one of the two alone.
    """

    configuration: Configuration
    replaces: Configuration | None = None

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Every configuration that has a say."""
        return (self.configuration,) if self.replaces is None else (self.configuration, self.replaces)

    @property
    def members(self) -> tuple[Member, ...]:
        """Every member that has a say, once each, in a fixed order."""
        return tuple(sorted({member for one in self.configurations for member in one.members}))


def majority(member_count: int) -> int:
    """The default number of acknowledgements."""
    return member_count // 2 + 1


def fence_quorum(configuration: Configuration) -> int:
    """This many members share at least one with every set that acknowledged a record."""
    return len(configuration.members) - configuration.acknowledgements + 1


def is_fenced(membership: Membership, granted: Iterable[Member]) -> bool:
    """Whether no older claim can acknowledge any more, and every acknowledged record is on one of `granted`."""
    present = set(granted)
    return all(len(present.intersection(c.members)) >= fence_quorum(c) for c in membership.configurations)


def is_durable(membership: Membership, holding: Iterable[Member]) -> bool:
    """Whether what `holding` hold survives every later takeover."""
    present = set(holding)
    return all(len(present.intersection(c.members)) >= c.acknowledgements for c in membership.configurations)


def can_change(old: Configuration, new: Configuration) -> bool:
    """One member at a time: it joins, leaves, or takes another's place."""
    joining = set(new.members) - set(old.members)
    leaving = set(old.members) - set(new.members)
    return len(joining) <= 1 and len(leaving) <= 1 and bool(joining or leaving)


def with_member(old: Configuration, member: Member) -> Configuration:
    """`old` and one more member; the number of acknowledgements follows the majority if it did before."""
    return _resized(old, (*old.members, member))


def without_member(old: Configuration, member: Member) -> Configuration:
    """`old` less one member. ValueError if it is not one, or the last."""
    if member not in old.members:
        raise ValueError(f"{member} is not a member")
    return _resized(old, tuple(one for one in old.members if one != member))


def with_member_replaced(old: Configuration, leaving: Member, joining: Member) -> Configuration:
    """`old` with `joining` where `leaving` was. ValueError if `leaving` is not a member."""
    if leaving not in old.members:
        raise ValueError(f"{leaving} is not a member")
    members = tuple(joining if one == leaving else one for one in old.members)
    return Configuration(members=members, acknowledgements=old.acknowledgements)


def _resized(old: Configuration, members: tuple[Member, ...]) -> Configuration:
    default = old.acknowledgements == majority(len(old.members))
    count = majority(len(members)) if default else max(majority(len(members)), min(old.acknowledgements, len(members)))
    return Configuration(members=members, acknowledgements=count)
