"""Deliberate mistakes: for each rule of takeover, membership and acknowledgement one that breaks it, as data.

Each replaces a small function of the real code; exploring the scenario named must then find a violation.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from journal.owner import replica_progress
from journal.records import chain_rules, membership
from journal.records.chain_rules import END, Sight, chain_of, next_record
from journal.takeover import rules, takeover
from journal.takeover.messages import Gone, Told
from journal.takeover.takeover import Phase
from tests.journal.takeover.exploration import servers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    from journal.owner.replica_progress import Progress
    from journal.records.chain_rules import ChainLink, RecordView, SegmentFacts
    from journal.records.membership import Configuration, Member, Membership
    from journal.takeover.takeover import Takeover
    from tests.journal.takeover.exploration.world import Segment, Server, Snapshot


Patch = tuple[Any, str, Any]
"""(module, class or phase; name; what takes its place)"""


@dataclass(frozen=True, kw_only=True)
class WrongRule:
    """What is done wrong, and in which scenario that shows."""

    rule: str  # the rule that it breaks, in the words of docs/takeover.md
    mistake: str
    scenario: str
    patches: tuple[Patch, ...]


# ------------------------------------------------------------------------------------------------- the mistakes


def _one_acknowledgement_too_few(configuration: Configuration) -> int:
    return max(1, configuration.acknowledgements - 1)


def _highest_epoch_again(state: Takeover) -> int:
    return max(1, state.highest)


def _oldest(facts: Iterable[SegmentFacts]) -> SegmentFacts:
    return min(facts, key=lambda one: one.age)


def _without_back_links(facts: Iterable[SegmentFacts]) -> tuple[ChainLink, ...]:
    links = chain_of(facts)
    return tuple(dataclasses.replace(one, end=None) for one in links)


def _damage_is_the_end(lsn: int, views: Sequence[RecordView]) -> RecordView:
    return next((one for one in views if one.sight is Sight.WHOLE), END)


def _first_copy_decides(lsn: int, views: Sequence[RecordView]) -> RecordView:
    if any(one.sight is Sight.NOTHING for one in views):
        return END
    return next_record(lsn, views)


def _counts_while_catching_up(progress: Progress, trim: int, snapshots: Set[str]) -> bool:
    return progress.standing in (replica_progress.Standing.IN_SYNC, replica_progress.Standing.CATCHING_UP)


def _counts_without_snapshots(progress: Progress, trim: int, snapshots: Set[str]) -> bool:
    return progress.standing is replica_progress.Standing.IN_SYNC


def _only_the_newest_segment(server: Server, segments: Iterable[Segment], snapshot: Snapshot | None) -> Server:
    return servers.extended(servers.store(server, list(segments)[-1]), snapshot)


def _without_the_snapshot(server: Server, snapshot: Snapshot | None) -> Server:
    return server


def _everybody_counts(state: Takeover, members: frozenset[Member]) -> frozenset[Member]:
    return members


_header = takeover._header


def _header_without_grants(state: Takeover, who: Membership) -> SegmentFacts:
    return dataclasses.replace(_header(state, who), granted=frozenset())


def _wiped_is_empty(server: Server, member: Member) -> Told | Gone:
    whole = frozenset(one.facts for one in server.segments if one.items[0].whole)
    return Told(member=member, epoch=server.epoch, facts=whole)


def _same_server(server: Server, member: Member) -> bool:
    return server.member.identity == member.identity


def _header_to_all_that_granted(state: Takeover) -> Takeover:
    return dataclasses.replace(
        state, phase=Phase.WRITING, extended=state.read, header=takeover._header(state, state.membership)
    )


def _everybody_gets_it(who: Membership, holding: frozenset[Member]) -> frozenset[Member]:
    return holding


def _serve_at_the_first_header(state: Takeover) -> Takeover:
    return dataclasses.replace(state, phase=Phase.SERVING) if state.written else state


def _only_the_new(who: Membership) -> tuple[Configuration, ...]:
    return (who.configuration,)


def _only_the_old(who: Membership) -> tuple[Configuration, ...]:
    return (who.configuration if who.replaces is None else who.replaces,)


def _ask_nobody_else(facts: Iterable[SegmentFacts]) -> frozenset[Member]:
    return frozenset()


def _fence_at_once(state: Takeover) -> bool:
    return True


def _ignore_unreadable_headers(state: Takeover) -> None:
    return None


def _straight_to_the_new(state: Takeover) -> Membership:
    found = chain_rules.newest(state.facts).membership
    return found if state.change is None else membership.Membership(configuration=state.change)


def _any_is_enough(who: Membership, members: Iterable[Member]) -> bool:
    return any(members)


def _every_append_is_let_in(server: Server, member: Member, epoch: int, holder: bytes) -> bool:
    return servers.is_itself(server, member)


EVERYWHERE = (membership, rules, takeover, replica_progress)


def _in_all(name: str, replacement: object) -> tuple[Patch, ...]:
    return tuple((module, name, replacement) for module in EVERYWHERE if hasattr(module, name))


WRONG_RULES = (
    WrongRule(
        rule="n-k+1 members are fenced and read", mistake="go on with any one member", scenario="takeover",
        patches=_in_all("is_fenced", _any_is_enough) + _in_all("is_durable", _any_is_enough),
    ),
    WrongRule(
        rule="k members hold a record before it is acknowledged", mistake="acknowledge at k-1", scenario="takeover",
        patches=_in_all("needed", _one_acknowledgement_too_few),
    ),
    WrongRule(
        rule="the epoch is higher than any seen", mistake="take the highest epoch seen again", scenario="takeover",
        patches=_in_all("next_epoch", _highest_epoch_again),
    ),
    WrongRule(
        rule="the chain with the highest epoch is chosen", mistake="choose the lowest one", scenario="abandoned tail",
        patches=tuple((module, "newest", _oldest) for module in (chain_rules, rules, takeover)),
    ),
    WrongRule(
        rule="the back-link alone says how much of an older segment counts", mistake="take all that a copy has",
        scenario="abandoned tail", patches=((servers, "chain_of", _without_back_links),),
    ),
    WrongRule(
        rule="a mismatch below the synced mark is damage", mistake="cut the log at a damaged record",
        scenario="two of two, damage", patches=((servers, "next_record", _damage_is_the_end),),
    ),
    WrongRule(
        rule="the end is assembled from all copies", mistake="stop where the shortest copy ends",
        scenario="takeover of a record", patches=((servers, "next_record", _first_copy_decides),),
    ),
    WrongRule(
        rule="a damaged header is damage, too", mistake="take a damaged header for one that was never written",
        scenario="damaged header", patches=((rules, "unreadable", _ignore_unreadable_headers),),
    ),
    WrongRule(
        rule="a member counts only while it holds the whole retained chain", mistake="count one that is catching up",
        scenario="lagging after a takeover", patches=((replica_progress, "counts", _counts_while_catching_up),),
    ),
    WrongRule(
        rule="a member counts only while it holds the whole retained chain", mistake="fill it with the newest segment",
        scenario="lagging after a takeover", patches=((servers, "give_all", _only_the_newest_segment),),
    ),
    WrongRule(
        rule="a member counts only while it holds the index snapshots that stand for what was trimmed",
        mistake="count one without", scenario="trimmed log",
        patches=((replica_progress, "counts", _counts_without_snapshots),),
    ),
    WrongRule(
        rule="a member counts only while it holds the index snapshots that stand for what was trimmed",
        mistake="extend a member without it", scenario="trimmed log",
        patches=((servers, "extended", _without_the_snapshot),),
    ),
    WrongRule(
        rule="a member with an older claim than it granted is lost", mistake="count a rolled-back member",
        scenario="rolled-back server", patches=((rules, "counted", _everybody_counts),),
    ),
    WrongRule(
        rule="a member with an older claim than it granted is lost", mistake="write a header without grants",
        scenario="rolled-back server", patches=((takeover, "_header", _header_without_grants),),
    ),
    WrongRule(
        rule="a member that comes back empty is lost", mistake='take a wiped member for one that has "nothing"',
        scenario="wiped server", patches=((servers, "is_itself", _same_server),),
    ),
    WrongRule(
        rule="k members are brought up to the end before the header is written", mistake="write the header first",
        scenario="lagging member", patches=((Phase.EXTENDING, "", _header_to_all_that_granted),),
    ),
    WrongRule(
        rule="nothing is served before the header is durable on k", mistake="serve when one member has the header",
        scenario="takeover", patches=((Phase.WRITING, "", _serve_at_the_first_header),),
    ),
    WrongRule(
        rule="a member that granted a claim refuses every older one", mistake="let every append in",
        scenario="takeover", patches=((servers, "is_ours", _every_append_is_let_in),),
    ),
    WrongRule(
        rule="nobody is fenced before a quorum has answered", mistake="fence whoever answers",
        scenario="all must acknowledge", patches=((rules, "may_fence", _fence_at_once),),
    ),
    WrongRule(
        rule="both configurations are asked until a change is proven", mistake="ask only the new one",
        scenario="replace the only member",
        patches=((membership.Membership, "configurations", property(_only_the_new)),),
    ),
    WrongRule(
        rule="both configurations are asked until a change is proven", mistake="ask only the old one",
        scenario="replace the only member",
        patches=((membership.Membership, "configurations", property(_only_the_old)),),
    ),
    WrongRule(
        rule="the first header of a change names both configurations", mistake="name only the new one at once",
        scenario="replace the only member",
        patches=((takeover.Takeover, "membership", property(_straight_to_the_new)),),
    ),
    WrongRule(
        rule="members of every header known are asked", mistake="ask only the servers of the command line",
        scenario="replace the only member", patches=((rules, "members_named", _ask_nobody_else),),
    ),
    WrongRule(
        rule="only members of the configuration get a header", mistake="write it to all that granted",
        scenario="remove a member", patches=((rules, "header_targets", _everybody_gets_it),),
    ),
)  # fmt: skip


@contextmanager
def applied(wrong: WrongRule) -> Iterator[None]:
    """Make the mistake, for as long as the context lasts."""
    with pytest.MonkeyPatch.context() as patch:
        for target, name, replacement in wrong.patches:
            if isinstance(target, Phase):
                patch.setitem(takeover._STEPS, target, replacement)
            else:
                patch.setattr(target, name, replacement)
        yield
