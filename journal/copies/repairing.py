"""Mending a copy: each damaged or missing segment or index snapshot is replaced by a whole one from the other copies.

SOS servers never overwrite, so a damaged object is written again under another name, beside the damaged one
(stored_objects.py), under the claim that the volume's owner holds; the owner is not disturbed. The owner appends to the
last segment, so only the next takeover mends that one. In a local directory, which must not be in use, a file is
replaced by renaming.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal.copies.backup_mark import MARK_NAME
from journal.copies.copies import DirectoryCopy, MemberCopy
from journal.copies.history import lost_if_all_were_heard
from journal.copies.member_filling import verified_bytes
from journal.copies.surveying import is_current
from journal.copies.volume_reader import whole_snapshot
from journal.errors import DamagedJournalError, JournalCode, UnavailableError
from journal.image.index_snapshot import parse_snapshot_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.copies.copies import Copy
    from journal.copies.verification import CopyReport
    from journal.copies.volume_reader import VolumeReader
    from journal.records.chain_rules import ChainLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One object to be replaced on one copy."""

    copy: Copy
    object: str
    present: bool  # whether a damaged one is there, in whose place, or beside which, the whole one is written
    why: str


def plan_repairs(reader: VolumeReader, copy: Copy, report: CopyReport) -> list[Repair]:
    """What `verify_copy` found that can be mended from outside: everything but the segment that is being written."""
    last = reader.chain.links[-1].segment
    repairs: dict[str, Repair] = {}
    for fault in report.faults:
        if fault.object == MARK_NAME:
            continue  # `backup` writes it again
        if fault.object == last and not isinstance(copy, DirectoryCopy):
            continue
        present = (copy.label, fault.object) in reader.chain.sizes
        repairs.setdefault(fault.object, Repair(copy=copy, object=fault.object, present=present, why=fault.what))
    return list(repairs.values())


async def carry_out(reader: VolumeReader, repair: Repair, progress: Callable[[int], None]) -> int:
    """Replace the object; how many bytes were written. LOST if no other copy has it whole; nothing was changed then.

    UNAVAILABLE if a copy may have it that did not answer, or if it is not known that the chain that was read is the
    volume's: a segment would be sealed too early.
    """
    others = [copy for copy in reader.copies if copy is not repair.copy]
    if isinstance(repair.copy, MemberCopy) and not await is_current(reader):
        message = (
            "the newest header that was read is on too few members: it may be that of an attempt to take the volume "
            "over that failed. Name all servers, and try again when the volume has an owner; nothing was changed"
        )
        raise UnavailableError(JournalCode.UNAVAILABLE, message)
    with lost_if_all_were_heard(reader.chain.unheard):
        data = await _whole_elsewhere(reader, repair.object, others)
    assert isinstance(repair.copy, MemberCopy | DirectoryCopy)
    await repair.copy.replace(repair.object, data, present=repair.present)
    progress(len(data))
    return len(data)


async def _whole_elsewhere(reader: VolumeReader, name: str, others: Sequence[Copy]) -> bytes:
    if parse_snapshot_name(name) is not None:
        return await whole_snapshot(others, name)
    link = next((link for link in reader.chain.links if link.segment == name), None)
    if link is None:  # before all that these copies have in one piece: they do not even know where it begins
        message = f"LOST: no copy here has {name}: name the servers, too"
        raise DamagedJournalError(JournalCode.LOST, message, object=name)
    return await read_segment(link, others, stop=reader.acknowledged_lsn if link.end is None else link.end)


async def read_segment(link: ChainLink, copies: Sequence[Copy], *, stop: int) -> bytes:
    """The segment's bytes up to `stop`, every record checked, from copies that complete each other.

    LOST if they do not.
    """
    async with aclosing(verified_bytes(copies, link, start=link.start, end=stop)) as pieces:
        return b"".join([piece async for piece in pieces])
