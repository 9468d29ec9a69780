"""What each member holds of all that a takeover from it alone would need: by names and sizes, without reading it all.

Belongs here: looking. What follows from it is promise.py's to say; whether the bytes are whole, verification.py's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.copies.copies import MemberCopy
from journal.copies.promise import Holding, is_proven
from journal.errors import JournalError
from journal.image.index_snapshot import snapshots_on_chain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from journal.copies.volume_reader import VolumeReader
    from journal.records.membership import Member


async def survey(reader: VolumeReader, faults: Mapping[str, str]) -> list[Holding]:
    """Of each member that answers. `faults`: what is known to be wrong with a copy beside, by its label."""
    holdings = []
    for copy in reader.chain.copies:
        if not isinstance(copy, MemberCopy):
            continue
        try:
            member, epoch = await _claim(copy, reader)
        except JournalError:
            continue
        if member is not None:
            lacks = tuple(lacking(reader, copy.label))
            wrong = (faults[copy.label],) if copy.label in faults else ()
            holdings.append(Holding(member=member, epoch=epoch, lacks=lacks + wrong))
    return holdings


def lacking(reader: VolumeReader, label: str) -> list[str]:
    """What a takeover from this copy alone would miss, in words."""
    chain, lacks = reader.chain, []
    for link in chain.links[:-1]:
        assert link.end is not None
        size = chain.sizes.get((label, link.segment), 0)
        if size < link.end - link.start:
            lacks.append(f"{link.segment} {'ends too early' if size else 'is missing'}")
    if not _has_newest_header(reader, label):
        lacks.append("the newest segment is missing")
    elif chain.ends[label].lsn < reader.acknowledged_lsn:
        lacks.append(f"the log ends at LSN {chain.ends[label].lsn}")
    if (label, chain.links[-1].segment) in chain.doubtful:
        lacks.append("its server calls the newest segment damaged: it may have lost its end")
    if chain.links[0].start > 0 and not standing_snapshots(reader, label):
        lacks.append(f"no index snapshot stands for what was trimmed, for moments from LSN {reader.header.oldest} on")
    return lacks


def standing_snapshots(reader: VolumeReader, label: str) -> list[str]:
    """The index snapshots of this copy that stand for what was trimmed: sealed, unless it is not a server's.

    That of the oldest moment, from which all later ones are told; any later one where headers do not name that moment.
    """
    chain, oldest = reader.chain, reader.header.oldest
    mine = [name for (one, name), _ in chain.sizes.items() if one == label and (one, name) not in chain.unsealed]
    found = snapshots_on_chain(mine, chain.boundaries, lsn=reader.acknowledged_lsn)
    return [str(one) for one in found if one.lsn == oldest or not oldest]


async def is_current(reader: VolumeReader) -> bool:
    """Whether the chain that was read is the volume's for ever: its newest header is on enough members.

    Else it may be that of an attempt that failed: where it ends an older segment, another may not.
    """
    holding = []
    for copy in reader.chain.copies:
        if isinstance(copy, MemberCopy) and _has_newest_header(reader, copy.label):
            member, _ = await _claim(copy, reader)
            holding += [] if member is None else [member]
    return is_proven(reader.header.membership, holding)


def _has_newest_header(reader: VolumeReader, label: str) -> bool:
    return reader.chain.ends[label].lsn > reader.chain.links[-1].start


async def _claim(copy: MemberCopy, reader: VolumeReader) -> tuple[Member | None, int]:
    """(which member this is, the epoch of its claim); None if it is not a member, or has lost the volume."""
    info = await copy.claim()
    who = (copy.client.server_identity, info.incarnation)
    members = reader.header.membership.members
    return next((one for one in members if (one.identity, one.incarnation) == who), None), info.epoch
