"""What a takeover asks of members, what they answer, how it may end. Values only; takeover.py gives them meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from journal.records.chain_rules import Base, SegmentFacts
    from journal.records.membership import Member
    from journal.records.segment import SegmentName


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who holds the namespace, and what do its segments' headers say? Changes nothing."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceMember:
    """Claim the member for (epoch, holder)."""

    member: Member
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """List a member that has granted our claim, and read its headers."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Assemble:
    """Find the end of the newest of these headers' chain, from the copies on `members` and the local one."""

    facts: frozenset[SegmentFacts]
    members: frozenset[Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Bring the member up to `end`: it must hold the whole retained chain, each segment up to where it counts."""

    member: Member
    end: Base


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Write a segment that opens with this header to the member, durably."""

    member: Member
    facts: SegmentFacts


Request: TypeAlias = Ask | FenceMember | Read | Assemble | Extend | Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The answer to Ask and to Read: the claim's epoch (0: never claimed) and the headers found.

    `damaged` are segments whose header was synced whole once and is not now. (One that was never synced whole is no
    header: it is in neither.) `doubtful` are segments that the member's server calls damaged: their end
    may be lost.
    """

    member: Member
    epoch: int
    facts: frozenset[SegmentFacts]
    damaged: frozenset[SegmentName] = frozenset()
    doubtful: frozenset[SegmentName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The server answers, but this member is no more: no such namespace there, or one made later."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """The member does not answer (any more); whether it did what it was asked is unknown."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """The member answers, but has no room for what it was asked to store."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The member answers that its disk has failed: of as much use as a silent one, and may come back."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The member is ours: it refuses every older claim from now on."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken:
    """The member refused: somebody has claimed it with a higher epoch, or with ours."""

    member: Member
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """The member refused our claim, though nobody has a newer one: its clock must come to that epoch first."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The chain's end."""

    end: Base


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAssembled:
    """Some acknowledged record may be on no copy that answered."""

    lsn: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """The member holds everything up to the end, synced."""

    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The member holds the header, synced. `end` is the base for a segment that follows it."""

    member: Member
    end: Base


MemberAnswer: TypeAlias = (
    Told | Gone | Silent | Failing | Full | Granted | Overtaken | Early | Assembled | NotAssembled | Extended | Written
)


class Reason(Enum):
    """Why a takeover ended without an owner."""

    NO_HEADER = "no member that answers holds a volume"
    MISSING = "too few members answer"
    OVERTAKEN = "somebody else is taking over, too"
    LOST = "a record that may have been acknowledged is on no copy that answers"
    CHANGE = "members can be changed one at a time, and only when no earlier change is under way"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverRefusal:
    """Why, and who is missing: silent ones may come back, lost ones need `members replace`."""

    reason: Reason
    missing: frozenset[Member] = frozenset()
    lost: frozenset[Member] = frozenset()
    failing: frozenset[Member] = frozenset()  # of those missing, who say that their disks have failed
    full: frozenset[Member] = frozenset()
    spent: frozenset[Member] = frozenset()  # claimed with the last epoch: they can be read, and never be claimed again
    early: frozenset[Member] = frozenset()  # their clocks do not let them take our claim yet
    doubtful: frozenset[Member] = frozenset()  # their servers say that the newest segment may have lost its end there
    lsn: int | None = None
    detail: str = ""
