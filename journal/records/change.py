"""What each kind of record says: the meta as a typed value, and back. Pure.

Belongs here: one class per kind (but `header`, which is in segment.py) and the codec of its meta, a msgpack array
whose items are the class's fields in order. What a change does to the tree is in image.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, cast

from journal.errors import DamagedJournalError, JournalCode, damaged, refused
from journal.records.paths import PATH_BYTES_MAX, check_path
from journal.records.record import META_BYTES_MAX, NUMBER_MAX, Kind, Lsn
from sos_client.wire.errors import SosError
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from journal.records.record import RecordHeader
    from journal.volume import MarkValue

APPLICATION_BYTES_MAX: Final = 256
PIN_NAME_BYTES_MAX: Final = 128
MARK_VALUES_MAX: Final = 64
MARK_KEY_BYTES_MAX: Final = 128
MARK_TEXT_BYTES_MAX: Final = 1024 - 128
assert MARK_VALUES_MAX * (MARK_KEY_BYTES_MAX + MARK_TEXT_BYTES_MAX) <= META_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class PutChange:
    """The payload is the whole content of `path`; parents are made. `modified_ms` None: the record's time."""

    kind: ClassVar[Kind] = Kind.PUT
    path: str
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkChange:
    """The payload is a piece of a large file without a name yet; the writer numbers its uploads, anew in each epoch."""

    kind: ClassVar[Kind] = Kind.CHUNK
    upload: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """The chunks of `upload` become the content of `path`."""

    kind: ClassVar[Kind] = Kind.COMMIT
    upload: int
    path: str
    size: int
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonChange:
    """The chunks of `upload` will never be committed. (A new epoch abandons all uploads without saying so.)"""

    kind: ClassVar[Kind] = Kind.ABANDON
    upload: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendChange:
    """The payload is added at the end of `path`, which had `size` bytes."""

    kind: ClassVar[Kind] = Kind.APPEND
    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateChange:
    """`path` keeps its first `size` bytes; `tail_crc` is the CRC32C of what is kept of a cut extent (0 if none is)."""

    kind: ClassVar[Kind] = Kind.TRUNCATE
    path: str
    size: int
    tail_crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteChange:
    """`path` and everything below it is gone."""

    kind: ClassVar[Kind] = Kind.DELETE
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameChange:
    """`source`, with everything below it, is `target` now; the target's parents are made, a file there is replaced."""

    kind: ClassVar[Kind] = Kind.RENAME
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDirectoryChange:
    """`path` and its parents are directories."""

    kind: ClassVar[Kind] = Kind.MKDIR
    path: str
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateChange:
    """The payload repeats an extent's bytes; wherever `path` still points at that extent it points here from now on."""

    kind: ClassVar[Kind] = Kind.RELOCATE
    path: str
    object: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkChange:
    """This moment has a name: keys and values, e.g. a batch's number."""

    kind: ClassVar[Kind] = Kind.MARK
    values: Mapping[str, MarkValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimChange:
    """Nothing before `lsn` is needed any more: the moments before it cannot be read."""

    kind: ClassVar[Kind] = Kind.TRIM
    lsn: Lsn


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChange:
    """Changes at or below `path` need this claim or a later one."""

    kind: ClassVar[Kind] = Kind.CLAIM
    path: str
    application: str
    start_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinChange:
    """What the image at `lsn` refers to is kept until `expires_ms`. A pin of the same name replaces it; 0 ends it."""

    kind: ClassVar[Kind] = Kind.PIN
    name: str
    lsn: Lsn
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChange:
    """The claim on exactly `path` ends."""

    kind: ClassVar[Kind] = Kind.RELEASE
    path: str


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


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise ValueError("a number is negative, too large or no number")
    return value


def _signed(value: int) -> int:
    if abs(value) > NUMBER_MAX:
        raise ValueError("a number is too large")
    return value


def _optional_number(value: object) -> int | None:
    return None if value is None else _number(value)


def _crc(value: object) -> int:
    if _number(value) > 0xFFFFFFFF:
        raise ValueError("a CRC has more than 32 bits")
    return cast("int", value)


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("text is expected")
    return value


def _path(value: object) -> str:
    return check_path(_text(value))


def _object_name(value: object) -> str:
    return check_name(_text(value))


def _short(limit: int) -> Callable[[object], str]:
    def check(value: object) -> str:
        text = _text(value)
        if not text or len(text.encode()) > limit:
            raise ValueError(f"text of 1 to {limit} bytes is expected")
        return text

    return check


def _marks(value: object) -> dict[str, MarkValue]:
    if type(value) is not dict or not 1 <= len(value) <= MARK_VALUES_MAX:
        raise ValueError(f"1 to {MARK_VALUES_MAX} marks are expected")
    key, text = _short(MARK_KEY_BYTES_MAX), _short(MARK_TEXT_BYTES_MAX)
    return {key(k): _signed(v) if type(v) is int else text(v) for k, v in value.items()}


# For each kind the class and how each of its fields is checked, in the order in which they lie in the meta.
_CODECS: Final[dict[Kind, tuple[type, tuple[tuple[str, Callable[[object], object]], ...]]]] = {
    Kind.PUT: (PutChange, (("path", _path), ("modified_ms", _optional_number))),
    Kind.CHUNK: (ChunkChange, (("upload", _number), ("offset", _number))),
    Kind.COMMIT: (
        CommitChange,
        (("upload", _number), ("path", _path), ("size", _number), ("modified_ms", _optional_number)),
    ),
    Kind.ABANDON: (AbandonChange, (("upload", _number),)),
    Kind.APPEND: (AppendChange, (("path", _path), ("size", _number))),
    Kind.TRUNCATE: (TruncateChange, (("path", _path), ("size", _number), ("tail_crc", _crc))),
    Kind.DELETE: (DeleteChange, (("path", _path),)),
    Kind.RENAME: (RenameChange, (("source", _path), ("target", _path))),
    Kind.MKDIR: (MakeDirectoryChange, (("path", _path), ("modified_ms", _optional_number))),
    Kind.RELOCATE: (RelocateChange, (("path", _path), ("object", _object_name), ("offset", _number))),
    Kind.MARK: (MarkChange, (("values", _marks),)),
    Kind.TRIM: (TrimChange, (("lsn", _number),)),
    Kind.CLAIM: (
        ClaimChange,
        (("path", _path), ("application", _short(APPLICATION_BYTES_MAX)), ("start_time", _number)),
    ),
    Kind.PIN: (PinChange, (("name", _short(PIN_NAME_BYTES_MAX)), ("lsn", _number), ("expires_ms", _number))),
    Kind.RELEASE: (ReleaseChange, (("path", _path),)),
}
assert set(_CODECS) == set(Kind) - {Kind.HEADER}
_FIELDS_MAX: Final = max(len(fields) for _, fields in _CODECS.values())


def encode_change(change: Change) -> bytes:
    """The meta of a record of `change.kind`. RefusedByVolumeError if a value is not one that a reader would take."""
    if type(change) is PutChange and change.modified_ms is None:  # the hot path; its path is all that can be wrong
        return pack((check_path(change.path), None))
    _, fields = _CODECS[change.kind]
    values = [getattr(change, name) for name, _ in fields]
    try:
        for (_, check), value in zip(fields, values, strict=True):
            check(value)
    except ValueError as error:
        raise refused(JournalCode.BAD_REQUEST, f"a {change.kind.name} cannot be written: {error}") from error
    return pack(values)


def decode_change(header: RecordHeader, meta: bytes) -> Change:
    """The change that a record (not a header) makes. DamagedJournalError for anything that no writer writes."""
    cls, fields = _CODECS[header.kind]
    try:
        values = unpack(
            meta, array_max=_FIELDS_MAX, map_max=MARK_VALUES_MAX, string_bytes_max=PATH_BYTES_MAX, binary_bytes_max=0
        )
        pairs = zip(fields, values if type(values) is list else (), strict=True)
        return cast("Change", cls(**{name: check(value) for (name, check), value in pairs}))
    except (ValueError, SosError) as error:
        raise _senseless(header, error) from error


def _senseless(header: RecordHeader, error: Exception) -> DamagedJournalError:
    return damaged(f"the {header.kind.name} at LSN {header.lsn} makes no sense: {error}", lsn=header.lsn)
