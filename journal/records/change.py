"""What each kind of record says: the meta as a typed value, and back. Pure.

Belongs here: one class per kind (but `header`, which is in segment.py) and the codec of its meta, a msgpack array
whose items are the class's fields in order, each annotated with its shape. What a change does to the tree is in
image.py. The annotations are read at import, so they are not postponed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeAlias, cast, get_args

from journal.errors import DamagedJournalError, JournalCode, damaged, refused
from journal.records.paths import PATH_BYTES_MAX, check_path
from journal.records.record import META_BYTES_MAX, NUMBER_MAX, Kind, Lsn, RecordHeader
from journal.volume import MarkValue
from sos_client.wire.errors import MisuseError, ProtocolError, SosError
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.names import check_name
from sos_client.wire.shapes import CRC, NUMBER, TEXT, ArrayShape, Shape, optional, text

APPLICATION_BYTES_MAX: Final = 256
PIN_NAME_BYTES_MAX: Final = 128
MARK_VALUES_MAX: Final = 64
MARK_KEY_BYTES_MAX: Final = 128
MARK_TEXT_BYTES_MAX: Final = 1024 - 128
assert MARK_VALUES_MAX * (MARK_KEY_BYTES_MAX + MARK_TEXT_BYTES_MAX) <= META_BYTES_MAX


RESTORED: Final = "restored"
"""A mark with this name says which path `sos-journal verify --restore` has restored and compared; with it stand
`restored_files` and `restored_bytes`."""


def _checked_marks(value: Mapping[str, MarkValue]) -> dict[str, MarkValue]:
    if not 1 <= len(value) <= MARK_VALUES_MAX:
        raise ProtocolError(f"1 to {MARK_VALUES_MAX} marks are expected")
    for key, mark in value.items():
        if not _IS_MARK_KEY(key):
            raise ProtocolError(f"a mark's name is a text of 1 to {MARK_KEY_BYTES_MAX} bytes")
        if not (abs(mark) <= NUMBER_MAX if type(mark) is int else _IS_MARK_TEXT(mark)):
            raise ProtocolError(f"a mark is a number that fits 64 bits, or a text of 1 to {MARK_TEXT_BYTES_MAX} bytes")
    return dict(value)


_IS_MARK_KEY: Final = text(MARK_KEY_BYTES_MAX, bytes_min=1).fits()
_IS_MARK_TEXT: Final = text(MARK_TEXT_BYTES_MAX, bytes_min=1).fits()
_TEXT: Final = TEXT.test

Number = Annotated[int, NUMBER]
MaybeNumber = Annotated[int | None, optional(NUMBER)]
ChangeLsn = Annotated[Lsn, NUMBER]
TailCrc = Annotated[int, CRC]
Path = Annotated[str, Shape(what="a path", test=_TEXT, reads=check_path, writes=check_path)]
ObjectName = Annotated[str, Shape(what="an object's name", test=_TEXT, reads=check_name, writes=check_name)]
Application = Annotated[str, text(APPLICATION_BYTES_MAX, bytes_min=1)]
PinName = Annotated[str, text(PIN_NAME_BYTES_MAX, bytes_min=1)]
Marks = Annotated[
    Mapping[str, MarkValue],
    Shape(what="marks", test="type(it) is dict", reads=_checked_marks, writes=_checked_marks),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PutChange:
    """The payload is the whole content of `path`; parents are made. `modified_ms` None: the record's time."""

    kind: ClassVar[Kind] = Kind.PUT
    path: Path
    modified_ms: MaybeNumber = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkChange:
    """The payload is a piece of a large file without a name yet; the writer numbers its uploads in each epoch."""

    kind: ClassVar[Kind] = Kind.CHUNK
    upload: Number
    offset: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """The chunks of `upload` become the content of `path`."""

    kind: ClassVar[Kind] = Kind.COMMIT
    upload: Number
    path: Path
    size: Number
    modified_ms: MaybeNumber = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonChange:
    """The chunks of `upload` will never be committed. (A new epoch abandons all uploads without saying so.)"""

    kind: ClassVar[Kind] = Kind.ABANDON
    upload: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendChange:
    """The payload is added at the end of `path`, which had `size` bytes."""

    kind: ClassVar[Kind] = Kind.APPEND
    path: Path
    size: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateChange:
    """`path` keeps its first `size` bytes; `tail_crc` is the CRC32C of what is kept of a cut extent (0 if none is)."""

    kind: ClassVar[Kind] = Kind.TRUNCATE
    path: Path
    size: Number
    tail_crc: TailCrc


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteChange:
    """`path` and everything below it is gone."""

    kind: ClassVar[Kind] = Kind.DELETE
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameChange:
    """`source`, with everything below it, is `target` now; the target's parents are made, a file there is replaced."""

    kind: ClassVar[Kind] = Kind.RENAME
    source: Path
    target: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDirectoryChange:
    """`path` and its parents are directories."""

    kind: ClassVar[Kind] = Kind.MKDIR
    path: Path
    modified_ms: MaybeNumber = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateChange:
    """The payload repeats an extent's bytes; wherever `path` still points at that extent it points here from now on."""

    kind: ClassVar[Kind] = Kind.RELOCATE
    path: Path
    object: ObjectName
    offset: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkChange:
    """This moment has a name: keys and values, e.g. a batch's number."""

    kind: ClassVar[Kind] = Kind.MARK
    values: Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimChange:
    """Nothing before `lsn` is needed any more: the moments before it cannot be read."""

    kind: ClassVar[Kind] = Kind.TRIM
    lsn: ChangeLsn


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChange:
    """Changes at or below `path` need this claim or a later one."""

    kind: ClassVar[Kind] = Kind.CLAIM
    path: Path
    application: Application
    start_time: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class PinChange:
    """What the image at `lsn` refers to is kept until `expires_ms`. A pin of the same name replaces it; 0 ends it."""

    kind: ClassVar[Kind] = Kind.PIN
    name: PinName
    lsn: ChangeLsn
    expires_ms: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChange:
    """The claim on exactly `path` ends."""

    kind: ClassVar[Kind] = Kind.RELEASE
    path: Path


Change: TypeAlias = (
    PutChange
    | ChunkChange
    | CommitChange
    | AbandonChange
    | AppendChange
    | TruncateChange
    | DeleteChange
    | RenameChange
    | MakeDirectoryChange
    | RelocateChange
    | MarkChange
    | TrimChange
    | ClaimChange
    | PinChange
    | ReleaseChange
)

CONTENT_KINDS: Final = frozenset({Kind.PUT, Kind.COMMIT, Kind.RENAME})
"""Records after which a path has content that it had not before, whole: who looks for these need decode no others."""


def content_path(change: Change) -> str | None:
    """The path that gets content by this, if it is of `CONTENT_KINDS`."""
    match change:
        case PutChange(path=path) | CommitChange(path=path) | RenameChange(target=path):
            return path
    return None


def paths_of(change: Change) -> tuple[str, ...]:
    """Every path that the record names, a rename's source first."""
    match change:
        case RenameChange(source=source, target=target):
            return source, target
        case (
            PutChange(path=path)
            | CommitChange(path=path)
            | AppendChange(path=path)
            | TruncateChange(path=path)
            | DeleteChange(path=path)
            | MakeDirectoryChange(path=path)
            | RelocateChange(path=path)
            | ClaimChange(path=path)
            | ReleaseChange(path=path)
        ):
            return (path,)
    return ()


_SHAPES: Final[dict[Kind, ArrayShape[Any]]] = {change.kind: ArrayShape.of(change) for change in get_args(Change)}
assert set(_SHAPES) == set(Kind) - {Kind.HEADER}
_FIELDS_MAX: Final = max(len(shape.fields) for shape in _SHAPES.values())


def encode_put(path: str, modified_ms: int | None) -> bytes:
    """As `encode_change` of a PutChange whose path was checked before."""
    return pack((path, None)) if modified_ms is None else encode_change(PutChange(path=path, modified_ms=modified_ms))


def encode_change(change: Change) -> bytes:
    """The meta of a record of `change.kind`. RefusedByVolumeError if a value is not one that a reader would take."""
    try:
        return pack(_SHAPES[change.kind].checked(change))
    except (MisuseError, ProtocolError) as error:
        raise refused(JournalCode.BAD_REQUEST, f"a {change.kind.name} cannot be written: {error}") from error


def decode_change(header: RecordHeader, meta: bytes) -> Change:
    """The change that a record (not a header) makes. DamagedJournalError for anything that no writer writes."""
    try:
        values = unpack(
            meta, array_max=_FIELDS_MAX, map_max=MARK_VALUES_MAX, string_bytes_max=PATH_BYTES_MAX, binary_bytes_max=0
        )
        return cast("Change", _SHAPES[header.kind].read(values))
    except SosError as error:
        raise _senseless(header, error) from error


def _senseless(header: RecordHeader, error: Exception) -> DamagedJournalError:
    return damaged(f"the {header.kind.name} at LSN {header.lsn} makes no sense: {error}", lsn=header.lsn)
