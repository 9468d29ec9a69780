"""Index snapshots that earlier owners have left: retention goes on where they were, however often owners change.

Belongs here: finding those that lie on the chain and are on enough members, and what their images refer to. What
follows from that is retention.py's to say.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING

from journal.copies.history import read_header
from journal.copies.volume_reader import read_whole
from journal.errors import JournalError
from journal.image import nodes
from journal.image.index_snapshot import SnapshotObject, checked_snapshot, parse_snapshot_name
from journal.owner.retention import Boundary
from journal.records.segment import decode_segment_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.copies.copies import Copy
    from journal.image.image import Image
    from journal.owner.log import Log
    from journal.owner.replica_set import ReplicaSet
    from journal.records.membership import Member


async def earlier_boundaries(log: Log, replicas: ReplicaSet) -> tuple[dict[int, Boundary], dict[int, set[Member]]]:
    """Boundaries of the chain with a snapshot that enough members hold, or must hold to count; and who holds it.

    Their references are not read yet.
    """
    holders: dict[str, set[Member]] = defaultdict(set)
    sizes: dict[str, int] = {}
    for replica in list(replicas.connected()):
        if replica.copy is None or not replica.is_in_sync:
            continue
        for name, stored in (await replica.copy.list()).items():
            if stored.sealed:
                holders[name].add(replica.member)
                sizes[name] = stored.size
    found: dict[int, Boundary] = {}
    holding: dict[int, set[Member]] = {}
    for name, members in holders.items():
        parsed = parse_snapshot_name(name)
        stands = name in log.progress.snapshots or log.progress.is_durable_on(members)
        if parsed is None or not stands:
            continue
        link = next((link for link in log.links if link.start == parsed.lsn), None)
        if link is None:
            continue
        opened = await _opening(replicas.sources(), link.segment)
        if opened is not None and opened[1] == parsed.chain:
            snapshot = SnapshotObject(name=name, size=sizes[name])
            found[int(parsed.lsn)] = Boundary(lsn=parsed.lsn, lived_ms=opened[0], snapshot=snapshot, references=None)
            holding[int(parsed.lsn)] = members
    return found, holding


async def _opening(copies: Sequence[Copy], segment: str) -> tuple[int, bytes] | None:
    """When a segment was opened, and the chain value before it, from the first copy that has its header whole."""
    for copy in copies:
        try:
            record = await read_header(copy, segment)
        except JournalError:
            continue
        if record is not None:
            header = decode_segment_header(record.meta)
            return record.header.time_ms - header.paused_ms, header.chain_before
    return None


async def with_references(boundary: Boundary, copies: Sequence[Copy]) -> Boundary | None:
    """The same with what its image refers to; None if no copy has the snapshot whole."""
    if boundary.references is not None:
        return boundary
    for copy in copies:
        try:
            data = await read_whole(copy, boundary.snapshot.name, boundary.snapshot.size)
            image = checked_snapshot(boundary.snapshot.name, data)
        except JournalError:
            continue
        return dataclasses.replace(boundary, references=references_of(image))
    return None


def references_of(image: Image) -> frozenset[str]:
    """The segments in which the image has content, that of uploads under way included."""
    tree = image.tree
    uploads = {
        tree.objects[number] for upload in image.uploads.values() for number, *_ in nodes.iter_extents(upload.extents)
    }
    return frozenset(tree.objects_in_use()) | uploads
