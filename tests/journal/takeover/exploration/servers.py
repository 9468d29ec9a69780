"""What a server of the small world does with a request: the same rules as the real one, in a few lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from journal.records.chain_rules import END, Base, ChainLink, RecordView, Sight, chain_of, lost, next_record
from journal.records.record import Epoch, Lsn
from journal.records.segment import SegmentName
from journal.takeover.messages import Gone, Granted, Overtaken, Told
from tests.journal.takeover.exploration.world import NO_VALUE, Item, Segment, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from journal.records.chain_rules import SegmentFacts
    from journal.records.membership import Member
    from tests.journal.takeover.exploration.world import Server


def is_itself(server: Server, member: Member) -> bool:
    """Whether the namespace is the one that the member was."""
    return server.member == member


def tell(server: Server, member: Member) -> Told | Gone:
    """USE, LIST and the headers."""
    if not is_itself(server, member):
        return Gone(member=member)
    whole = frozenset(one.facts for one in server.segments if one.items[0].whole)
    damaged = frozenset(segment_name(one.facts) for one in server.segments if not one.items[0].whole)
    return Told(member=member, epoch=server.epoch, facts=whole, damaged=damaged)


def segment_name(facts: SegmentFacts) -> SegmentName:
    return SegmentName(start=Lsn(facts.start), epoch=Epoch(facts.epoch), holder=facts.holder)


def grant(server: Server, member: Member, epoch: int, holder: bytes) -> tuple[Server, Granted | Overtaken | Gone]:
    """FENCE: the epoch must be greater; the same epoch and holder again is fine."""
    if not is_itself(server, member):
        return server, Gone(member=member)
    if epoch > server.epoch or (epoch == server.epoch and holder == server.holder):
        return server._replace(epoch=epoch, holder=holder), Granted(member=member)
    return server, Overtaken(member=member, epoch=server.epoch)


def is_ours(server: Server, member: Member, epoch: int, holder: bytes) -> bool:
    """Whether an APPEND under this claim is let in."""
    return is_itself(server, member) and (server.epoch, server.holder) == (epoch, holder)


def store(server: Server, segment: Segment) -> Server:
    """APPEND whatever of `segment` the server has not yet. Nothing is ever overwritten or cut."""
    held = server.segment(segment.facts.name)
    items = () if held is None else held.items
    return server.with_segment(Segment(segment.facts, items + segment.items[len(items) :]))


def bring_up(server: Server, segment: Segment) -> Server:
    """The same for a takeover, which writes again what is damaged there: that copy ends where the assembly does."""
    held = server.segment(segment.facts.name)
    if held is not None and not all(item.whole for item in held.items[: len(segment.items)]):
        return server.with_segment(segment)
    return store(server, segment)


def give(server: Server, snapshot: Snapshot) -> Server:
    """Store an index snapshot, sealed."""
    return server._replace(snapshots=tuple(sorted({*server.snapshots, snapshot})))


def give_all(server: Server, segments: Iterable[Segment], snapshot: Snapshot | None) -> Server:
    """What a member is filled with: all that is retained, and the snapshot that stands for the rest."""
    for segment in segments:
        server = store(server, segment)
    return server if snapshot is None else give(server, snapshot)


def extended(server: Server, snapshot: Snapshot | None) -> Server:
    """What a takeover gives a member beside the log."""
    return server if snapshot is None else give(server, snapshot)


def standing(segments: Sequence[Segment], snapshots: Iterable[Snapshot]) -> Snapshot | None:
    """The newest index snapshot on the chain. LOST if the log was trimmed and there is none."""
    boundaries = {one.facts.start: one.facts.base.chain for one in segments if one.facts.base is not None}
    usable = [one for one in snapshots if boundaries.get(one.lsn) == one.chain and one.lsn >= segments[-1].facts.trim]
    if not usable and segments[0].facts.start > 0:
        raise lost(segments[0].facts.start, "no index snapshot stands for what was trimmed")
    return max(usable, default=None)


def following(facts: SegmentFacts, *, name: str, start: int, trim: int, base: Base) -> SegmentFacts:
    """The header of the next segment of the same owner."""
    return replace(facts, name=name, start=start, trim=trim, base=base)


def view(copy: Segment, lsn: int) -> RecordView:
    """What a copy shows at an LSN."""
    position = lsn - copy.facts.start
    if position >= len(copy.items):
        return END
    item = copy.items[position]
    if not item.whole:
        return RecordView(sight=Sight.DAMAGED)
    return RecordView(sight=Sight.WHOLE, end=lsn + 1, chain=item.chain)


def assemble(facts: Iterable[SegmentFacts], copies: Sequence[Segment]) -> tuple[Base, tuple[Segment, ...]]:
    """The chain's end and its segments up to where each counts. DamagedJournalError (LOST)."""
    by_name = {one.name: one for one in facts}
    segments = [_assembled(by_name[link.segment], link, copies) for link in chain_of(facts)]
    last = segments[-1]
    return Base(segment=last.facts.name, end=last.end, chain=last.items[-1].chain), tuple(segments)


def _assembled(facts: SegmentFacts, link: ChainLink, copies: Sequence[Segment]) -> Segment:
    mine = [one for one in copies if one.facts.name == link.segment]
    items: list[Item] = []
    lsn = link.start
    while link.end is None or lsn < link.end:
        found = next_record(lsn, [view(copy, lsn) for copy in mine])
        if found.sight is not Sight.WHOLE:
            break
        items.append(next(one.items[lsn - link.start] for one in mine if view(one, lsn) == found))
        lsn = found.end
    if not items or (link.end is not None and lsn < link.end):
        raise lost(lsn, f"LSN {lsn} is on no copy")
    return Segment(facts, tuple(items))


def header_item(facts: SegmentFacts) -> Item:
    before = b"" if facts.base is None else facts.base.chain
    return Item(NO_VALUE, before + b"|" + facts.holder)


def record_item(before: Item, value: str) -> Item:
    return Item(value, before.chain + b"|" + value.encode())


def history(segments: Iterable[Segment]) -> tuple[tuple[int, str], ...]:
    """(LSN, value) of every record."""
    return tuple(
        (segment.facts.start + at, item.value)
        for segment in segments
        for at, item in enumerate(segment.items)
        if item.value
    )
