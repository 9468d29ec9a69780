"""Trimming in the small world: an owner's index snapshots, the header that carries the trim, what is deleted then.

A snapshot is of the moment where the owner's segment begins. A step is one thing done on one member, or by the owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.image.index_snapshot import SnapshotObject
from journal.owner.replica_progress import Progress, ReplicaProgress, Standing
from journal.records.chain_rules import Base
from journal.records.record import Epoch, Lsn
from journal.records.segment import SegmentName
from tests.journal.takeover.exploration import servers
from tests.journal.takeover.exploration.world import Following, Segment, Server, Snapshot, World, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.records.membership import Member


def progress_of(writer: Writer) -> ReplicaProgress:
    """What the owner knows of its members, as the real code keeps it."""
    assert writer.segment is not None
    progress = ReplicaProgress(writer.segment.facts.membership, trim=0)
    progress.acknowledged = writer.acknowledged
    progress.members = {
        one.member: Progress(member=one.member, standing=one.standing, synced=one.synced, snapshots=one.snapshots)
        for one in writer.following
    }
    if writer.base is not None:
        progress.snapshots = {writer.base.name: SnapshotObject(name=writer.base.name, size=1)}
    return progress


def with_progress(writer: Writer, progress: ReplicaProgress) -> Writer:
    following = tuple(Following.of(one) for one in progress.members.values())
    return writer._replace(following=following, acknowledged=progress.acknowledged)


def trimming_steps(world: World, slot: int, writer: Writer) -> Iterator[tuple[str, World]]:
    """What a serving owner may do about its past."""
    assert writer.segment is not None
    yield from _forget(world, slot, writer)
    budget = world.budget.spend("trims")
    if budget is None or writer.segment.facts.base is None:
        return
    snapshot = _snapshot(writer)
    if writer.base is None or writer.base.lsn < snapshot.lsn:
        yield from _spread(world, slot, writer, snapshot)
        return
    if writer.segment.facts.trim < snapshot.lsn and progress_of(writer).may_trim(snapshot.lsn):
        yield f"{slot} trims", world.with_writer(slot, _trimmed(writer, snapshot.lsn))._replace(budget=budget)


def _snapshot(writer: Writer) -> Snapshot:
    """Of the acknowledged image where the segment at hand begins."""
    assert writer.segment is not None
    facts = writer.segment.facts
    assert facts.base is not None
    before = [one for one in writer.local if one.facts.start < facts.start]
    history = tuple(sorted({*(writer.base.history if writer.base else ()), *servers.history(before)}))
    return Snapshot(lsn=facts.start, chain=facts.base.chain, history=history)


def _spread(world: World, slot: int, writer: Writer, snapshot: Snapshot) -> Iterator[tuple[str, World]]:
    """Give it to members that are in sync; adopt it when k of them have it."""
    holding: list[Member] = []
    for following in writer.following:
        server = world.server(following.member.address)
        if following.standing is not Standing.IN_SYNC or not servers.is_itself(server, following.member):
            continue
        if snapshot in server.snapshots:
            holding.append(following.member)
        elif server.is_up and is_ours(server, following.member, writer):
            label = f"{slot} gives {following.member} the snapshot"
            yield label, world.with_server(servers.give(server, snapshot))
    progress = progress_of(writer)
    if progress.is_durable_on(holding):
        progress.snapshots = {}
        progress.keep(SnapshotObject(name=snapshot.name, size=1), holding)
        yield f"{slot} adopts", world.with_writer(slot, with_progress(writer._replace(base=snapshot), progress))


def is_ours(server: Server, member: Member, writer: Writer) -> bool:
    assert writer.takeover is not None
    return servers.is_ours(server, member, writer.takeover.epoch, writer.takeover.holder)


def _trimmed(writer: Writer, trim: int) -> Writer:
    """A header that carries the trim opens the next segment."""
    assert writer.segment is not None
    old = writer.segment
    name = SegmentName(start=Lsn(old.end), epoch=Epoch(old.facts.epoch), holder=old.facts.holder)
    base = Base(segment=old.facts.name, end=old.end, chain=old.items[-1].chain)
    facts = servers.following(old.facts, name=str(name), start=old.end, trim=trim, base=base)
    opened = Segment(facts, (servers.header_item(facts),))
    return writer._replace(segment=opened, local=(*writer.local, opened))


def _forget(world: World, slot: int, writer: Writer) -> Iterator[tuple[str, World]]:
    """When the header that carries the trim is acknowledged: the owner's own past goes, then that of each member."""
    assert writer.segment is not None
    trim = writer.segment.facts.trim
    if writer.acknowledged <= writer.segment.facts.start or not trim:
        return
    kept = tuple(one for one in writer.local if one.end > trim)
    if kept != writer.local:
        yield f"{slot} forgets", world.with_writer(slot, writer._replace(local=kept))
        return
    names = {one.facts.name for one in kept}
    for following in writer.following:
        server = world.server(following.member.address)
        if following.standing is not Standing.IN_SYNC or not server.is_up:
            continue
        missing = progress_of(writer).missing_snapshots(following.member)
        old = [one for one in server.segments if one.facts.start < trim and one.facts.name not in names]
        if old and not missing and is_ours(server, following.member, writer):
            left = tuple(one for one in server.segments if one not in old)
            snapshots = tuple(one for one in server.snapshots if one.lsn >= trim)
            after = server._replace(segments=left, snapshots=snapshots)
            yield f"{slot} deletes on {following.member}", world.with_server(after)
