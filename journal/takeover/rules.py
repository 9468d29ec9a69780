"""The rules by which a takeover decides, each a small function: who counts, when there are enough, what is in doubt.

Pure. docs/takeover.md says why each is needed; tests/journal/takeover/exploration/wrong_rules.py breaks one after the
other, and some state of a small world shows each. Who asks them, and what follows, is in takeover.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.records.chain_rules import newest
from journal.records.membership import is_durable, is_fenced
from journal.records.segment import EPOCH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from journal.records.chain_rules import SegmentFacts
    from journal.records.membership import Member, Membership
    from journal.records.segment import SegmentName
    from journal.takeover.messages import Told
    from journal.takeover.takeover import Takeover


def is_rolled_back(member: Member, epoch: int, facts: Iterable[SegmentFacts]) -> bool:
    """Whether some header says that the member granted a newer claim than the one it knows of."""
    return any(epoch < one.epoch and member in one.granted for one in facts)


def is_newer(told: Told, epoch: int) -> bool:
    """Whether a member that had granted us `epoch` has been claimed by somebody newer since."""
    return told.epoch > epoch


def is_spent(epoch: int) -> bool:
    """Whether nobody can have a higher epoch: somebody has claimed the member for ever, by mistake or malice."""
    return epoch >= EPOCH_MAX


def members_named(facts: Iterable[SegmentFacts]) -> frozenset[Member]:
    """Every member that one of the headers names."""
    return frozenset(member for one in facts for member in one.membership.members)


def next_epoch(state: Takeover) -> int:
    """Higher than every claim and every header seen."""
    return state.highest + 1


def counted(state: Takeover, members: frozenset[Member]) -> frozenset[Member]:
    """Those of `members` whose silence about a record means something: a lost one has not "nothing"."""
    return members if state.accept_loss else members - state.lost


def header_targets(membership: Membership, holding: frozenset[Member]) -> frozenset[Member]:
    """Only members of the configuration get a header, and only those that hold everything before it."""
    return holding.intersection(membership.members)


def may_fence(state: Takeover) -> bool:
    """Nobody is fenced unless the takeover can come to its end: a stray attempt must not hurt a healthy owner."""
    return is_fenced(state.membership, counted(state, state.answered)) and is_durable(state.membership, state.answered)


def may_assemble(state: Takeover) -> bool:
    """Enough members granted our claim, were read after that, and still answer."""
    return is_fenced(state.membership, counted(state, state.read))


def doubtful(state: Takeover) -> frozenset[Member]:
    """Members that were read and may have lost the log's end to rot.

    Their servers call the newest segment damaged, or have none of it and call another so: what they lack says nothing.
    """
    if not state.chain_facts:
        return frozenset()
    last = newest(state.chain_facts).name
    read = (told for told in state.reads if told.member in state.read and told.doubtful)
    return frozenset(
        told.member for told in read if last in map(str, told.doubtful) or last not in {one.name for one in told.facts}
    )


def is_end_in_doubt(state: Takeover) -> bool:
    """Whether an acknowledged record may lie on no copy that answers, because members have lost their ends."""
    return not state.accept_loss and not is_fenced(state.membership, counted(state, state.read - doubtful(state)))


def unreadable(state: Takeover) -> SegmentName | None:
    """A segment that may be the newest, but whose header no answering copy has whole: all of it would be lost."""
    if state.accept_loss:
        return None
    whole = {one.name for one in state.chain_facts}
    epoch = max((one.epoch for one in state.chain_facts), default=0)
    damaged = (one for told in state.reads if told.member in state.read for one in told.damaged)
    return next((one for one in damaged if str(one) not in whole and one.epoch >= epoch), None)
