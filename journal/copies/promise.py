"""Whether a volume keeps its promise: any `k−1` members may be lost, and it comes back from the rest. Pure.

Belongs here: what follows from what each member holds and who has claimed it. A member that holds all that a takeover
from it alone would need is *whole*; `k` whole members leave one among any `n−k+1` that are left. What a member lacks is
found out in surveying.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from journal.records.membership import is_durable
from journal.records.segment import EPOCH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from journal.records.membership import Member, Membership


class Verdict(IntEnum):
    """OK; WARNING: it works, but not as it should; FAILURE: acknowledged bytes are damaged or missing somewhere."""

    OK = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What was found on one member."""

    member: Member
    epoch: int  # of the claim that it has granted
    lacks: tuple[str, ...] = ()  # what a takeover from it alone would miss, in words; empty: it is whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseFinding:
    """Something about the volume as a whole, for people."""

    verdict: Verdict
    what: str


def judge(membership: Membership, *, epoch: int, holdings: Sequence[Holding]) -> list[PromiseFinding]:
    """What is wrong with the volume, given its newest header and what was found. Nothing: any k−1 may be lost now."""
    findings = [*_whole(membership, holdings), *_claims(membership, epoch, holdings)]
    if membership.replaces is not None:
        what = "a change of members has not come to its end: until the next takeover ends it, both old and new count"
        findings.append(PromiseFinding(verdict=Verdict.WARNING, what=what))
    return findings


def is_proven(membership: Membership, holding_header: Iterable[Member]) -> bool:
    """Whether the newest header that was read is the volume's for ever, and not that of an attempt that failed."""
    return is_durable(membership, holding_header)


def _whole(membership: Membership, holdings: Sequence[Holding]) -> list[PromiseFinding]:
    whole = {one.member for one in holdings if not one.lacks}
    findings = []
    for configuration in membership.configurations:
        count, needed = len(whole.intersection(configuration.members)), configuration.acknowledgements
        if count < needed:
            what = (
                f"only {count} of {len(configuration.members)} members hold, as far as they were read, all that is "
                f"needed to come back from each alone; {needed} must: if one is lost, acknowledged changes may be, too"
            )
            findings.append(PromiseFinding(verdict=Verdict.FAILURE, what=what))
    return findings


def _claims(membership: Membership, epoch: int, holdings: Sequence[Holding]) -> list[PromiseFinding]:
    """Claims newer than the newest header: an attempt under way, one that failed, or somebody who may fence."""
    newer = [one for one in holdings if one.epoch > epoch]
    if not newer:
        return []
    names = ", ".join(sorted(f"{one.member} (epoch {one.epoch})" for one in newer))
    left = {one.member for one in holdings} - {one.member for one in newer}
    if is_durable(membership, left):
        verdict, effect = Verdict.WARNING, "the owner goes on without"
    else:
        verdict, effect = Verdict.FAILURE, "the owner is fenced, and nobody can write until a service takes it over"
    what = f"somebody has claimed members since the owner of epoch {epoch} began: {names}; {effect}"
    if any(one.epoch >= EPOCH_MAX for one in newer):
        what += (
            f"; no epoch is left above {EPOCH_MAX}: such a member can be read, but never be written again: replace it"
        )
    return [PromiseFinding(verdict=verdict, what=what)]
