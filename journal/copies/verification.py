"""Comparing every copy of a volume with the chain, record by record: nothing is believed that was not read.

Belongs here: what is wrong with which copy. Showing it is the command's, mending it repairing.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.copies.backup_mark import MARK_NAME
from journal.copies.backups import crc_of, read_mark
from journal.copies.copies import DirectoryCopy, MemberCopy
from journal.copies.promise import PromiseFinding, Verdict, judge
from journal.copies.segment_walk import Position, SegmentWalk
from journal.copies.surveying import standing_snapshots, survey
from journal.copies.volume_reader import read_whole
from journal.errors import DamagedJournalError, JournalCode, JournalError
from journal.image.index_snapshot import checked_snapshot, parse_snapshot_name, snapshots_on_chain
from journal.records.record import Lsn
from journal.records.segment import SegmentReader, read_end

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from journal.copies.copies import Copy
    from journal.copies.volume_reader import VolumeReader
    from journal.records.chain_rules import ChainLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an object on a copy."""

    object: str
    what: str
    lsn: int | None = None


@dataclass(slots=True)
class CopyReport:
    """What was read on one copy."""

    label: str
    records: int = 0
    bytes: int = 0
    end_lsn: int = 0
    behind_bytes: int = 0
    faults: list[Fault] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problem: str = ""  # why it could not be read at all
    is_behind: bool = False  # it has not got the newest segment, though perhaps all that is acknowledged

    @property
    def verdict(self) -> Verdict:
        if self.faults:
            return Verdict.FAILURE
        return Verdict.WARNING if self.problem or self.behind_bytes or self.is_behind else Verdict.OK


def bytes_to_verify(reader: VolumeReader) -> int:
    """About how much will be read, for a progress bar."""
    names = {link.segment for link in reader.chain.links}
    return sum(size for (_, name), size in reader.chain.sizes.items() if name in names)


async def verify_copy(reader: VolumeReader, copy: Copy, progress: Callable[[int], None]) -> CopyReport:
    """Read all that this copy has of the retained chain, and its index snapshots."""
    report = CopyReport(label=copy.label)
    problem = reader.problems.get(copy.label)
    if problem is not None:
        report.problem = problem.message
        return report
    try:
        await _verify_segments(reader, copy, report, progress)
        mine = [name for label, name in reader.chain.sizes if label == copy.label]
        await _verify_snapshots(reader, copy, report, mine)
        _remark_snapshots(reader, copy, report, mine)
        if isinstance(copy, DirectoryCopy):
            await _verify_mark(reader, copy, report)
    except JournalError as error:
        report.problem = error.message
    report.behind_bytes = max(0, reader.acknowledged_lsn - report.end_lsn)
    return report


async def judge_reports(reader: VolumeReader, reports: Sequence[CopyReport]) -> list[PromiseFinding]:
    """What the reports on all copies say of the volume as a whole: whether it survives what it promises to survive."""
    faults = {one.label: one.verdict.name for one in reports if one.verdict is not Verdict.OK}
    holdings = await survey(reader, faults)
    return judge(reader.header.membership, epoch=reader.header.epoch, holdings=holdings) if holdings else []


async def verify_called_damaged(reader: VolumeReader) -> dict[str, str]:
    """What is wrong with each copy, by its label, in old objects that its own server calls damaged. Reads only those.

    A server calls damaged also what may have lost its end, and has been filled again since.
    """
    wrong = {}
    for copy in reader.chain.copies:
        report = CopyReport(label=copy.label)
        called = {name for label, name in reader.chain.doubtful if label == copy.label}
        try:
            for link in reader.chain.links[:-1]:
                if link.segment in called:
                    await _verify_segment(reader, copy, link, report, lambda _done: None, closed=True)
            await _verify_snapshots(reader, copy, report, called)
        except JournalError as error:
            report.faults.append(Fault(object=copy.label, what=error.message))
        if report.faults:
            wrong[copy.label] = f"{report.faults[0].object}: {report.faults[0].what}"
    return wrong


async def _verify_segments(
    reader: VolumeReader, copy: Copy, report: CopyReport, progress: Callable[[int], None]
) -> None:
    links = reader.chain.links
    first = reader.chain.headers[links[0].segment]
    if reader.chain.is_part and first.base is not None:
        what = "LOST: the segment is not here (a service's directory is a cache: name the servers, too)"
        report.faults.append(Fault(object=first.base.segment, what=what))
    has = [(copy.label, link.segment) in reader.chain.sizes for link in links]
    newest = max((index for index, there in enumerate(has) if there), default=-1)
    for index, link in enumerate(links):
        if has[index]:
            await _verify_segment(reader, copy, link, report, progress, closed=index < newest)
        elif index < newest:  # what comes after the newest one that it has, it may still be fetching
            _note_missing(reader, copy, link, report)
    if newest < len(links) - 1 and isinstance(copy, MemberCopy):
        report.is_behind = True
        report.remarks.append(f"{links[-1].segment} is not here yet")
    on_chain = {link.segment for link in links}
    stray = [name for label, name in reader.chain.sizes if label == copy.label and name.endswith(".seg")]
    off_chain = len([name for name in stray if name not in on_chain])
    if off_chain:
        report.remarks.append(f"{off_chain} segments that are not part of the retained chain")


def _note_missing(reader: VolumeReader, copy: Copy, link: ChainLink, report: CopyReport) -> None:
    """A service's directory is a cache: what it has not, members have. Of a member, or the only copy, it is a fault."""
    if isinstance(copy, DirectoryCopy) and len(reader.copies) > 1:
        report.remarks.append(f"{link.segment} is not here; it is fetched when it is needed")
    else:
        report.faults.append(Fault(object=link.segment, what="the segment is missing", lsn=link.start))


async def _verify_segment(
    reader: VolumeReader,
    copy: Copy,
    link: ChainLink,
    report: CopyReport,
    progress: Callable[[int], None],
    *,
    closed: bool,
) -> None:
    """Records up to where the segment counts; for the last one, up to what is acknowledged."""
    stop = reader.acknowledged_lsn if link.end is None else link.end
    walk = SegmentWalk(copy, link, Position(Lsn(link.start)), stop=stop)
    records = walk.reader
    while records.lsn < stop:
        try:
            piece = await walk.feed()
        except DamagedJournalError as error:  # a server sees it itself, and gives nothing of the whole chunk
            report.faults.append(Fault(object=link.segment, what=error.message, lsn=records.lsn))
            break
        report.bytes += len(piece)
        progress(len(piece))
        if not _check_records(records, link, report) or not piece:
            break
    report.end_lsn = max(report.end_lsn, records.lsn)
    if closed and not any(fault.object == link.segment for fault in report.faults):
        try:
            read_end(records, synced_lsn=Lsn(stop))
        except DamagedJournalError as error:
            report.faults.append(Fault(object=link.segment, what=error.message, lsn=records.lsn))


def _check_records(records: SegmentReader, link: ChainLink, report: CopyReport) -> bool:
    """Take every whole record; False if no further record can be found in this segment."""
    while True:
        try:
            record = records.next_record()
        except DamagedJournalError as error:
            if error.code == JournalCode.TOO_NEW:
                raise
            lsn = error.fields.get("lsn")
            report.faults.append(
                Fault(object=link.segment, what=error.message, lsn=lsn if isinstance(lsn, int) else None)
            )
            if records.stuck:
                return False
            continue
        if record is None:
            return True
        report.records += 1


async def _verify_snapshots(reader: VolumeReader, copy: Copy, report: CopyReport, names: Iterable[str]) -> None:
    """Of a server those that are sealed: what its writer did not end stands for nothing."""
    for name in snapshots_on_chain(names, reader.chain.boundaries, lsn=reader.acknowledged_lsn):
        if (copy.label, str(name)) in reader.chain.unsealed:
            continue
        try:
            checked_snapshot(str(name), await read_whole(copy, str(name), reader.chain.sizes[copy.label, str(name)]))
        except DamagedJournalError as error:
            report.faults.append(Fault(object=str(name), what=error.message, lsn=name.lsn))


def _remark_snapshots(reader: VolumeReader, copy: Copy, report: CopyReport, mine: Collection[str]) -> None:
    _note_missing_snapshot(reader, copy, report)
    counting = {str(name) for name in snapshots_on_chain(mine, reader.chain.boundaries, lsn=reader.acknowledged_lsn)}
    counting -= {name for label, name in reader.chain.unsealed if label == copy.label}
    dead = [name for name in mine if parse_snapshot_name(name) and name not in counting]
    if dead:
        report.remarks.append(f"{len(dead)} index snapshots that do not count")


def _note_missing_snapshot(reader: VolumeReader, copy: Copy, report: CopyReport) -> None:
    """Of a trimmed volume each member must have one that stands for what is gone: it may be the last that is left."""
    if reader.chain.links[0].start == 0 or (isinstance(copy, DirectoryCopy) and len(reader.copies) > 1):
        return
    faulty = {fault.object for fault in report.faults}
    if not faulty.issuperset(standing_snapshots(reader, copy.label)):
        return
    others = [name for one in reader.copies if one is not copy for name in standing_snapshots(reader, one.label)]
    wanted = max((name for name in others if name not in faulty), default="(an index snapshot)")
    what = "no index snapshot that is sealed and whole stands for what was trimmed"
    report.faults.append(Fault(object=wanted, what=what))


async def _verify_mark(reader: VolumeReader, copy: DirectoryCopy, report: CopyReport) -> None:
    """A backup must have all that its mark counts."""
    try:
        mark = await read_mark(copy)
    except DamagedJournalError as error:
        report.faults.append(Fault(object=MARK_NAME, what=error.message))
        return
    if mark is None:
        if len(reader.copies) == 1:
            report.remarks.append(f"no {MARK_NAME}: a service's directory, or a backup whose end is not known")
        return
    known = {fault.object for fault in report.faults}
    for name, marked in mark.objects.items():
        if name not in known and await crc_of(copy, name, marked.bytes) != marked.crc:
            size = reader.chain.sizes.get((copy.label, name), 0)
            what = f"the first {marked.bytes} bytes are not what was backed up" if size else "it is missing"
            report.faults.append(Fault(object=name, what=what))
    if report.end_lsn < mark.lsn:
        what = f"the backup goes up to LSN {mark.lsn}, but only LSN {report.end_lsn} can be read"
        report.faults.append(Fault(object=MARK_NAME, what=what, lsn=report.end_lsn))
