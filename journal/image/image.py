"""The image: the tree of files as of an LSN, and everything else that records leave behind. Pure.

Belongs here: what each record does. Whether a change may be made is asked before it is written (preconditions.py);
here a record is a fact, and one that does not fit is damage. Bytes of an image: index_snapshot.py.

A writer keeps two images: *pending* (up to the last record written: preconditions are checked against it) and
*acknowledged* (what is shown). Both apply every record, one a little later. That is simpler than an overlay, costs a
few microseconds a record, and less memory than two trees: packed files never change, and `copy` shares them. Answers of
operations are kept in the pending one alone.
"""

from __future__ import annotations

import dataclasses
from math import inf
from typing import TYPE_CHECKING, Final

from journal.errors import DamagedJournalError, damaged
from journal.image import nodes
from journal.image.file_tree import FileTree, MisfitError
from journal.image.operation_window import OperationWindow
from journal.image.path_claims import PathClaims
from journal.records.change import (
    AbandonChange,
    AppendChange,
    Change,
    ChunkChange,
    ClaimChange,
    CommitChange,
    DeleteChange,
    MakeDirectoryChange,
    MarkChange,
    PinChange,
    PutChange,
    ReleaseChange,
    RelocateChange,
    RenameChange,
    TrimChange,
    TruncateChange,
    decode_change,
)
from journal.records.record import (
    FIRST_CHAIN,
    FIRST_LSN,
    HEADER_BYTES,
    NO_CLIENT,
    ChainHash,
    Epoch,
    Kind,
    Lsn,
    Record,
    RecordHeader,
)
from journal.records.segment import SegmentHeader, decode_segment_header
from journal.volume import FileStatus, OperationId, PathClaim

if TYPE_CHECKING:
    from journal.image.nodes import PackedFile
    from journal.volume import Answer

PINS_MAX: Final = 1000  # each keeps segments from being deleted; whoever has more of them has forgotten to release some

_WITHOUT_ANSWER: Final = frozenset({Kind.CHUNK, Kind.ABANDON, Kind.RELOCATE, Kind.TRIM})


@dataclasses.dataclass(slots=True)
class Upload:
    """A large file on its way: the packed extents received, in order."""

    size: int = 0
    extents: bytes = b""


class Image:
    """The state of a volume after the record that ends at `lsn`."""

    def __init__(self) -> None:
        self.lsn: Lsn = FIRST_LSN
        self.chain: ChainHash = FIRST_CHAIN
        self.time_ms = 0
        self.segment: SegmentHeader | None = None  # the last header
        self._named: SegmentHeader | None = None
        self._name, self._start = "", FIRST_LSN
        self.trim: Lsn = FIRST_LSN
        self.tree = FileTree()
        self.uploads: dict[int, Upload] = {}
        self.pins: dict[str, PinChange] = {}
        self.pins_whose: dict[str, str] = {}  # in no record: those that were set through this service
        self.claims = PathClaims()
        self.operations = OperationWindow()
        self.keeps_answers = True
        self.tree_bytes_max: float = inf  # what a writer allows the tree and the claims to take (preconditions.py)

    @property
    def epoch(self) -> Epoch:
        """Of the last header."""
        return Epoch(0) if self.segment is None else self.segment.epoch

    @property
    def tree_bytes(self) -> int:
        """What files, directories and claims take in memory, in two images."""
        return self.tree.kept_bytes + self.claims.kept_bytes

    @property
    def item_count(self) -> int:
        """Files and answers: what work on a whole image takes time for."""
        return self.tree.file_count + len(self.operations)

    def copy(self, operations: OperationWindow | None = None) -> Image:
        """An independent image: changes to one are not seen in the other. `operations`: in the place of its own."""
        other = Image()
        other.lsn, other.chain, other.time_ms = self.lsn, self.chain, self.time_ms
        other.segment, other.trim = self.segment, self.trim
        other.tree, other.claims = self.tree.copy(), self.claims.copy()
        other.operations = self.operations.copy() if operations is None else operations
        other.uploads = {number: dataclasses.replace(upload) for number, upload in self.uploads.items()}
        other.pins = self.pins.copy()
        return other

    def apply_record(self, record: Record) -> Answer:
        """Decode and apply a checked record. DamagedJournalError if it does not fit."""
        if record.header.kind == Kind.HEADER:
            return self.apply(record.header, decode_segment_header(record.meta))
        return self.apply(record.header, decode_change(record.header, record.meta))

    def apply(self, header: RecordHeader, change: Change | SegmentHeader) -> Answer:
        """Make the change of the record that follows; its answer is kept under its operation id, and returned.

        DamagedJournalError if it does not follow or does not fit; the image is of no further use then.
        """
        if header.lsn != self.lsn:
            raise damaged(f"the record at LSN {header.lsn} does not follow LSN {self.lsn}", lsn=header.lsn)
        try:
            answer = self._make(header, change)
        except MisfitError as error:
            message = f"the {header.kind.name} at LSN {header.lsn} does not fit the tree: {error}"
            raise damaged(message, lsn=header.lsn) from error
        if self.keeps_answers and header.client != NO_CLIENT and header.kind not in _WITHOUT_ANSWER:
            operation = OperationId(header.client, header.sequence)
            self.operations.keep(operation, answer, time_ms=header.time_ms, recorded=True)
        self.lsn, self.chain, self.time_ms = header.end_lsn, header.chain, header.time_ms
        return answer

    def put_own(self, header: RecordHeader, path: str, modified_ms: int | None) -> tuple[FileStatus, PackedFile]:
        """As `apply_own` of a PUT, and the file as it is kept, for `put_again` of an image that follows this one."""
        assert header.lsn == self.lsn, "the writer's records follow each other"
        time_ms, size, crc = header.time_ms, header.payload_bytes, header.payload_crc
        status = FileStatus(path, False, size, time_ms if modified_ms is None else modified_ms, crc)  # noqa: FBT003
        file = self._packed_put(header, status.modified_ms)
        try:
            self.tree.publish(path, file, time_ms=time_ms)
        except MisfitError as error:
            raise AssertionError(f"the writer made a PUT that does not fit its own tree: {error}") from error
        if self.keeps_answers and header.client != NO_CLIENT:
            self.operations.keep(OperationId(header.client, header.sequence), status, time_ms=time_ms, recorded=True)
        self.lsn, self.chain, self.time_ms = header.end_lsn, header.chain, time_ms
        return status, file

    def put_again(self, header: RecordHeader, path: str, file: PackedFile) -> None:
        """A PUT that was applied to an image before this one: what never changes is shared. No answer is kept."""
        assert header.lsn == self.lsn, "the writer's records follow each other"
        if header.payload_bytes:
            self.tree.use(self._place(header)[0], header.payload_bytes)
        self.tree.publish(path, file, time_ms=header.time_ms)
        self.lsn, self.chain, self.time_ms = header.end_lsn, header.chain, header.time_ms

    def apply_own(self, header: RecordHeader, change: Change | SegmentHeader) -> Answer:
        """Apply what preconditions have allowed. If it does not fit, this process is wrong, and must not go on."""
        try:
            return self.apply(header, change)
        except DamagedJournalError as error:
            raise AssertionError(f"the writer made a change that does not fit its own tree: {error}") from error

    def _make(self, header: RecordHeader, change: Change | SegmentHeader) -> Answer:  # one branch for each kind
        answer: Answer = None
        match change:
            case PutChange():
                answer = self._put(header, change)
            case CommitChange():
                answer = self._commit(header, change)
            case ChunkChange():
                self._chunk(header, change)
            case AbandonChange():
                self._forget_upload(change.upload)
            case DeleteChange():
                self.tree.delete(change.path, time_ms=header.time_ms)
                self.claims.end_within(change.path, time_ms=header.time_ms)
                answer = True
            case RenameChange():
                self.tree.rename(change.source, change.target, time_ms=header.time_ms)
                self.claims.end_within(change.source, time_ms=header.time_ms)
            case MakeDirectoryChange():
                directory = self.tree.make_directories(change.path, time_ms=header.time_ms)
                if change.modified_ms is not None:
                    directory.modified_ms = change.modified_ms
            case AppendChange():
                answer = self._append(header, change)
            case TruncateChange():
                answer = self._truncate(header, change)
            case RelocateChange():
                self._relocate(header, change)
            case ClaimChange():
                claim = PathClaim(start_time=change.start_time, application=change.application)
                self.claims.add(change.path, claim)
            case ReleaseChange():
                self.claims.end(change.path, time_ms=header.time_ms)
                answer = True
            case PinChange():
                self._pin(header, change)
            case TrimChange():
                if change.lsn > header.lsn:
                    raise MisfitError(f"LSN {change.lsn} is not written yet")
                self.trim = max(self.trim, change.lsn)
            case SegmentHeader():
                self._open_segment(header, change)
            case _:
                assert isinstance(change, MarkChange)  # leaves nothing behind: it is found again in the log, by its LSN
        return answer

    def _put(self, header: RecordHeader, change: PutChange) -> Answer:
        time_ms, size, crc = header.time_ms, header.payload_bytes, header.payload_crc
        modified_ms = time_ms if change.modified_ms is None else change.modified_ms
        self.tree.publish(change.path, self._packed_put(header, modified_ms), time_ms=time_ms)
        return FileStatus(change.path, False, size, modified_ms, crc)  # noqa: FBT003

    def _packed_put(self, header: RecordHeader, modified_ms: int) -> PackedFile:
        """The payload of this record as a file, counted as in use."""
        name, offset = self._place(header)
        size = header.payload_bytes
        if not size:
            return nodes.pack_file(modified_ms, b"")
        return nodes.pack_one_extent_file(modified_ms, self.tree.use(name, size), offset, size, header.payload_crc)

    def _open_segment(self, header: RecordHeader, segment: SegmentHeader) -> None:
        paused_ms = 0 if self.segment is None else segment.paused_ms - self.segment.paused_ms
        if paused_ms:  # that much of the clock was not lived through: pins last that much longer
            self.pins = {
                name: dataclasses.replace(pin, expires_ms=max(header.time_ms, pin.expires_ms + paused_ms))
                for name, pin in self.pins.items()
                if pin.expires_ms > self.time_ms
            }
        if segment.epoch != self.epoch:
            for number in list(self.uploads):  # their writers have lost the connection to a service that is gone
                self._forget_upload(number)
        self.segment = segment
        self.trim = max(self.trim, segment.trim)

    def _chunk(self, header: RecordHeader, change: ChunkChange) -> None:
        upload = self.uploads.setdefault(change.upload, Upload())
        if change.offset != upload.size:
            raise MisfitError(f"upload {change.upload} has {upload.size} bytes, not {change.offset}")
        upload.extents += self._received(header)
        upload.size += header.payload_bytes

    def _commit(self, header: RecordHeader, change: CommitChange) -> Answer:
        upload = self.uploads.pop(change.upload, None) or Upload()
        if upload.size != change.size:
            raise MisfitError(f"upload {change.upload} has {upload.size} bytes, not {change.size}")
        modified_ms = header.time_ms if change.modified_ms is None else change.modified_ms
        file = nodes.pack_file(modified_ms, upload.extents)
        self.tree.publish(change.path, file, time_ms=header.time_ms)
        return self.tree.find(change.path)

    def _append(self, header: RecordHeader, change: AppendChange) -> Answer:
        file = self.tree.file(change.path)
        if (size := self.tree.size_of(file)) != change.size:
            raise MisfitError(f"{change.path} has {size} bytes, not {change.size}")
        extents = file[nodes.EMPTY_FILE_BYTES :] + self._received(header)
        grown = nodes.pack_file(header.time_ms, extents)
        return self.tree.replace(change.path, grown, size=size + header.payload_bytes)

    def _truncate(self, header: RecordHeader, change: TruncateChange) -> Answer:
        old = self.tree.file(change.path)[nodes.EMPTY_FILE_BYTES :]
        kept, left = b"", change.size
        for number, offset, length, crc in nodes.iter_extents(old):
            if left < length:  # the one that is cut
                kept += nodes.pack_extent(number, offset, left, change.tail_crc) if left else b""
                left = 0
                break
            kept += nodes.pack_extent(number, offset, length, crc)
            left -= length
        if left:
            raise MisfitError(f"{change.path} has fewer than {change.size} bytes")
        self.tree.count(old, -1)
        self.tree.count(kept, +1)
        return self.tree.replace(change.path, nodes.pack_file(header.time_ms, kept), size=change.size)

    def _relocate(self, header: RecordHeader, change: RelocateChange) -> None:
        status = self.tree.find(change.path)
        if status is None or status.is_directory:
            return  # gone since housekeeping looked: nothing points at the old place any more
        wanted = (change.object, change.offset, header.payload_bytes, header.payload_crc)
        extents = b""
        for number, *rest in nodes.extents_of(self.tree.file(change.path)):
            extent = nodes.pack_extent(number, *rest)
            if (self.tree.objects[number], *rest) == wanted:
                self.tree.count(extent, -1)
                extent = self._received(header)
            extents += extent
        self.tree.replace(change.path, nodes.pack_file(status.modified_ms, extents), size=status.size)

    def _pin(self, header: RecordHeader, change: PinChange) -> None:
        self.pins = {name: pin for name, pin in self.pins.items() if pin.expires_ms > header.time_ms}
        self.pins.pop(change.name, None)
        if change.expires_ms > header.time_ms:
            if len(self.pins) >= PINS_MAX:
                raise MisfitError(f"more than {PINS_MAX} pins")
            self.pins[change.name] = change

    def _received(self, header: RecordHeader) -> bytes:
        """The payload of this record as a packed extent, counted as in use."""
        name, offset = self._place(header)
        if not header.payload_bytes:
            return b""
        number = self.tree.use(name, header.payload_bytes)
        return nodes.pack_extent(number, offset, header.payload_bytes, header.payload_crc)

    def _place(self, header: RecordHeader) -> tuple[str, int]:
        """The object in which this record's payload lies, and where there."""
        if self._named is not self.segment:  # spelled once for each segment: this is done for every record
            assert self.segment is not None
            self._named, self._name, self._start = self.segment, str(self.segment.name), self.segment.start
        elif self.segment is None:
            raise MisfitError("no segment has been opened")
        return self._name, header.lsn + HEADER_BYTES + header.meta_bytes - self._start

    def _forget_upload(self, number: int) -> None:
        upload = self.uploads.pop(number, None)
        if upload is not None:
            self.tree.count(upload.extents, -1)
