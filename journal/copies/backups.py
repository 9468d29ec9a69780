"""A backup as a whole: whether all is there that its mark counts, and bringing it up to date with a volume.

Belongs here: reading and writing the mark, comparing. Bytes of the mark are backup_mark.py's, what is wrong with single
records verification.py's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.copies.backup_mark import MARK_BYTES_MAX, MARK_NAME, BackupMark, MarkedObject, decode_mark, encode_mark
from journal.copies.copies import DirectoryCopy
from journal.copies.history import lost_if_all_were_heard
from journal.copies.repairing import read_segment
from journal.copies.volume_reader import open_reader, read_whole, whole_snapshot
from journal.errors import DamagedJournalError, JournalCode, refused
from journal.image.index_snapshot import parse_snapshot_name, snapshots_on_chain
from journal.records.moments import AtBatch, AtLsn
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.records.moments import Moment
    from journal.records.record import Lsn

_PIECE_BYTES: Final = 4 << 20


async def read_mark(copy: DirectoryCopy) -> BackupMark | None:
    """What the backup must have; None: it is not a backup, or one from before there were marks. DAMAGED, TOO_NEW."""
    data = await read_whole(copy, MARK_NAME, MARK_BYTES_MAX)
    return decode_mark(data) if data else None


async def shortfall_of(reader: VolumeReader) -> str | None:
    """What to say where a backup among the copies goes further than what can be read, or may do so; else None."""
    now = reader.acknowledged_lsn
    for copy in reader.copies:
        try:
            mark = await read_mark(copy) if isinstance(copy, DirectoryCopy) else None
        except DamagedJournalError as error:
            if error.code is JournalCode.TOO_NEW:
                raise
            return (
                f"where the backup in {copy.label} ends is not known: {error.message}; --at {now} shows what is there"
            )
        if mark is not None and mark.lsn > now:
            return (
                f"the backup in {copy.label} goes up to LSN {mark.lsn}, but only LSN {now} can be read: it is damaged "
                f"(`verify` shows where; `backup` mends it; --at {now} shows what is left)"
            )
    return None


async def is_end_known(reader: VolumeReader) -> bool:
    """Whether a member, or a backup's mark, says how far the log goes. A service's directory may lag, or be cut."""
    for copy in reader.copies:
        if not isinstance(copy, DirectoryCopy) or await read_mark(copy) is not None:
            return True
    return False


async def check_whole(reader: VolumeReader) -> None:
    """LOST if a backup that is read from does not go as far as it should."""
    if shortfall := await shortfall_of(reader):
        raise DamagedJournalError(JournalCode.LOST, shortfall)


async def check_moment(reader: VolumeReader, moment: Moment, lsn: int) -> None:
    """LOST if `lsn`, which was found for the moment, is only the end of what is left of a backup.

    An LSN or a batch that was asked for is there or not; a time, or now, may lie in what is missing.
    """
    if lsn >= reader.acknowledged_lsn and not isinstance(moment, AtLsn | AtBatch):
        await check_whole(reader)


async def crc_of(copy: DirectoryCopy, name: str, size: int) -> int | None:
    """The CRC of an object's first bytes; None if there are fewer, or they cannot be read."""
    crc, at = 0, 0
    while at < size:
        try:
            piece = await copy.read(name, at, min(_PIECE_BYTES, size - at))
        except DamagedJournalError:
            return None
        if not piece:
            return None
        crc, at = crc32c(piece, crc), at + len(piece)
    return crc


class Backup:
    """A directory that is brought up to date with a volume: `compare`, then `copy` what is missing, then `finish`.

    Until `finish` the mark of the time before counts: it holds as long as segments have only grown.
    """

    def __init__(self, reader: VolumeReader, copy: DirectoryCopy) -> None:
        self.wanted = wanted_objects(reader)
        self.damaged: list[str] = []  # what the mark counts, and is not there as it counts it
        self.left_out: list[str] = []  # index snapshots that are whole nowhere: the log says the same
        self._reader = reader
        self._copy = copy
        self._mark: BackupMark | None = None
        self._there: dict[str, int] = {}
        self._objects: dict[str, MarkedObject] = {}

    async def compare(self) -> dict[str, int]:
        """Objects to be copied, with their sizes. LOST and VOLUME_EXISTS if the backup must not be touched.

        All that is there is read; what no mark vouches for is copied again.
        """
        try:
            self._mark = await read_mark(self._copy)
        except DamagedJournalError as error:
            if error.code is JournalCode.TOO_NEW:
                raise
            self.damaged.append(MARK_NAME)
        if self._mark is not None:
            await self._check_history(self._mark)
        self._there = {name: stored.size for name, stored in (await self._copy.list()).items()}
        for name, marked in (self._mark.objects if self._mark else {}).items():
            if await crc_of(self._copy, name, marked.bytes) != marked.crc:
                self.damaged.append(name)
            elif self._there[name] == marked.bytes == self.wanted.get(name):
                self._objects[name] = marked
        return {name: size for name, size in self.wanted.items() if name not in self._objects}

    async def _check_history(self, mark: BackupMark) -> None:
        where = self._copy.label
        if mark.volume_id != self._reader.header.volume_id:
            message = f"{where} is a backup of another volume with this name: back up to another directory"
            raise refused(JournalCode.VOLUME_EXISTS, message)
        now = self._reader.acknowledged_lsn
        if mark.lsn > now:
            message = (
                f"{where} goes up to LSN {mark.lsn}, and what answers now has LSN {now} only: name all members; if "
                "something is lost there, this backup has it. Nothing was changed"
            )
            raise DamagedJournalError(JournalCode.LOST, message)
        chain = await self._reader.chain_at(mark.lsn)
        if chain not in (None, mark.chain):
            message = (
                f"{where} holds a history that the volume has left since (a loss was accepted): it may be the only "
                "copy of it; back up to another directory"
            )
            raise refused(JournalCode.VOLUME_EXISTS, message)

    async def copy(self, name: str) -> int:
        """Copy one object, checked; how many bytes it has. An index snapshot that is whole nowhere is left out."""
        try:
            data = await self._read(name)
        except DamagedJournalError:
            if parse_snapshot_name(name) is None:
                raise
            self.left_out.append(name)
            return 0
        await self._copy.replace(name, data, present=name in self._there)
        self._objects[name] = MarkedObject(bytes=len(data), crc=crc32c(data))
        return len(data)

    async def _read(self, name: str) -> bytes:
        reader = self._reader
        link = next((link for link in reader.chain.links if link.segment == name), None)
        with lost_if_all_were_heard(reader.chain.unheard):
            if link is None:
                return await whole_snapshot(reader.copies, name)
            return await read_segment(link, reader.copies, stop=link.start + self.wanted[name])

    async def finish(self) -> Lsn:
        """Read the end from the backup itself, and write the mark, if it says something new; up to where it goes.

        That may be a little less than the members have acknowledged: the record that says so may not be whole yet.
        """
        assert self._objects.keys() | set(self.left_out) == self.wanted.keys()
        backup = await open_reader(self._reader.volume, [self._copy])
        lsn = backup.acknowledged_lsn
        chain = await backup.chain_at(lsn)
        assert chain is not None
        mark = BackupMark(volume_id=backup.header.volume_id, lsn=lsn, chain=chain, objects=self._objects)
        if mark != self._mark:
            await self._copy.replace(MARK_NAME, encode_mark(mark), present=True)
        return lsn


def wanted_objects(reader: VolumeReader) -> dict[str, int]:
    """Every segment up to where it counts, the last one as far as any copy has it; and the snapshots that count."""
    end = max(one.lsn for one in reader.chain.ends.values())
    wanted = {link.segment: (end if link.end is None else link.end) - link.start for link in reader.chain.links}
    for name in snapshots_on_chain(reader.chain.names, reader.chain.boundaries, lsn=reader.acknowledged_lsn):
        wanted[str(name)] = max(
            size for (_, object_name), size in reader.chain.sizes.items() if object_name == str(name)
        )
    return wanted
