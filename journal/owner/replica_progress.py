"""How far each member has come, what that acknowledges, and when an owner must stop. Pure.

Belongs here: the states of a member (`Standing`) and the rule of what counts towards k.
Does not belong here: the connection and the bytes (replica.py).

A member counts only while it holds all that a takeover from it alone would need: the whole retained chain, and the
index snapshots that stand for what was trimmed. A copy that begins after the last acknowledged trim, that lacks a
snapshot, or that is still being filled, might be the only one that answers the next takeover.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from journal.records.membership import Configuration, is_durable

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from journal.image.index_snapshot import SnapshotObject
    from journal.records.membership import Member, Membership


class Standing(Enum):
    """What the owner knows of a member, and what the page calls it."""

    DISCOVERING = "not connected"  # or not yet asked what it holds
    CATCHING_UP = "being filled"  # from the log, oldest segment first
    IN_SYNC = "in sync"  # holds the whole retained chain up to `synced`, and follows
    REMOVED = "has a newer owner"  # claimed by somebody newer: of no more use to this one


@dataclass(slots=True, kw_only=True)
class Progress:
    """One member. `synced` is meaningful while it counts: everything from `held_from` up to it is durable there."""

    member: Member
    standing: Standing = Standing.DISCOVERING
    held_from: int = 0
    synced: int = 0
    snapshots: frozenset[str] = frozenset()  # names of those that it holds, sealed
    holder: bytes = b""  # of the newer claim, once removed
    epoch: int = 0


class ReplicaProgress:
    """All members of one configuration, for one owner. LSNs only grow."""

    def __init__(self, membership: Membership, *, trim: int) -> None:
        self.membership = membership
        self.trim = trim
        self.acknowledged = trim
        self.snapshots: dict[str, SnapshotObject] = {}  # by name: what each member must hold beside the log
        self.members = {member: Progress(member=member) for member in membership.members}

    # ---- what happens to a member

    def lost_contact(self, member: Member) -> None:
        """The connection is gone: the member no longer counts until it is discovered again."""
        self._set(member, Standing.DISCOVERING)

    def found(self, member: Member) -> None:
        """It answers, and it is filled from now on."""
        self._set(member, Standing.CATCHING_UP)

    def caught_up(
        self, member: Member, *, held_from: int, synced: int, snapshots: frozenset[str] = frozenset()
    ) -> None:
        """It holds everything from `held_from` to `synced`, and these snapshots, and follows.

        `synced` may be less than it was: a disk that has lost its end counts for what it has now.
        """
        progress = self.members[member]
        if progress.standing is not Standing.REMOVED:
            progress.standing = Standing.IN_SYNC
            progress.held_from, progress.synced, progress.snapshots = held_from, synced, snapshots
            self._acknowledge()

    def advanced(self, member: Member, synced: int) -> bool:
        """It has synced up to here. Whether this acknowledges anything new."""
        progress = self.members[member]
        progress.synced = max(progress.synced, synced)
        return self._acknowledge()

    def fenced(self, member: Member, *, epoch: int, holder: bytes) -> None:
        """It has granted a newer claim: it is no longer ours, for good."""
        progress = self.members[member]
        progress.standing, progress.epoch, progress.holder = Standing.REMOVED, epoch, holder

    def trimmed(self, lsn: int) -> None:
        """A trim is acknowledged: nothing before `lsn` need be held."""
        assert lsn <= self.acknowledged, "a trim counts once it is acknowledged, and never concerns what is not"
        self.trim = max(self.trim, lsn)

    # ---- index snapshots

    def keep(self, snapshot: SnapshotObject, holding: Iterable[Member]) -> None:
        """From now on a member counts only if it holds this snapshot, as `holding` do."""
        self.snapshots[snapshot.name] = snapshot
        for member in holding:
            self.members[member].snapshots |= {snapshot.name}

    def keep_only(self, names: Iterable[str]) -> None:
        """The other snapshots need not be held any more."""
        self.snapshots = {name: self.snapshots[name] for name in names if name in self.snapshots}

    def drop(self, name: str, *, trim: int) -> bool:
        """Do without a snapshot that is whole nowhere, if another one stands for what is trimmed; whether it does."""
        others = [one for one in self.snapshots.values() if one.name != name]
        if trim and not any(one.lsn >= trim for one in others):
            return False
        self.keep_only([one.name for one in others])
        return True

    def missing_snapshots(self, member: Member) -> list[str]:
        """What this member must be given before it counts again."""
        return sorted(self.snapshots.keys() - self.members[member].snapshots)

    def may_trim(self, oldest: int) -> bool:
        """Whether every member that counts could tell all moments from `oldest` on without what lies before it."""
        return any(one.lsn == oldest for one in self.snapshots.values())

    # ---- what follows

    def must_stop(self) -> bool:
        """Whether a newer claim has taken so many members that this owner can never go on, whoever comes back."""
        left = [one.member for one in self.members.values() if one.standing is not Standing.REMOVED]
        return not is_durable(self.membership, left)

    def is_in_doubt(self) -> bool:
        """Whether a newer claim has taken some members, and too few of the others follow just now.

        They may come back, or have been taken by whoever took the first ones: that owner cannot be told from a claim
        that nobody followed up.
        """
        return self.newest_claim() is not None and not self.has_quorum()

    def has_quorum(self) -> bool:
        """Whether writes can be acknowledged now."""
        return is_durable(self.membership, self.counting())

    def is_durable_on(self, holding: Iterable[Member]) -> bool:
        """Whether what these members hold, beside the log, survives every takeover."""
        return is_durable(self.membership, holding)

    def spare(self) -> int:
        """How many more members may go before writes cannot be acknowledged; negative when they cannot now."""
        follow = set(self.counting())
        return min(len(follow.intersection(one.members)) - needed(one) for one in self.membership.configurations)

    def newest_claim(self) -> Progress | None:
        """Who fenced us, as far as known."""
        removed = [one for one in self.members.values() if one.standing is Standing.REMOVED]
        return max(removed, key=lambda one: one.epoch, default=None)

    def counting(self) -> list[Member]:
        """Whose answers acknowledge what is written."""
        return [member for member in self.members if self._counts(member)]

    def _counts(self, member: Member) -> bool:
        return counts(self.members[member], self.trim, self.snapshots.keys())

    def _acknowledge(self) -> bool:
        before = self.acknowledged
        durable = min(self._durable_in(configuration) for configuration in self.membership.configurations)
        self.acknowledged = max(before, durable)
        return self.acknowledged > before

    def _durable_in(self, configuration: Configuration) -> int:
        """The highest LSN that `acknowledgements` counting members have all reached."""
        synced = sorted(self.members[m].synced for m in configuration.members if self._counts(m))
        return synced[-needed(configuration)] if len(synced) >= needed(configuration) else 0

    def _set(self, member: Member, standing: Standing) -> None:
        progress = self.members[member]
        if progress.standing is not Standing.REMOVED:
            progress.standing = standing


def counts(progress: Progress, trim: int, snapshots: Set[str]) -> bool:
    """Whether what this member has synced may be acknowledged."""
    return progress.standing is Standing.IN_SYNC and progress.held_from <= trim and snapshots <= progress.snapshots


def needed(configuration: Configuration) -> int:
    """How many members must have synced a record before it is acknowledged."""
    return configuration.acknowledgements
