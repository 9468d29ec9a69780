"""Index snapshots: an image as bytes, so that a service starts from it and the tail instead of from all data. Pure.

Belongs here: the name, the bytes, and which snapshot counts. Layout in FORMAT.md. One is written at each segment roll,
of the acknowledged image where the next segment begins; it holds no file content.

Files of a directory lie in it as they lie in memory (nodes.py), in one run, so that reading costs a slice for each:
50,000 files take some tens of milliseconds.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from journal.errors import DamagedJournalError, JournalCode, damaged
from journal.image.image import PINS_MAX, Image, Upload
from journal.image.nodes import (
    EMPTY_FILE_BYTES,
    EXTENT_BYTES,
    ONE_EXTENT_FILE_BYTES,
    Directory,
    PackedFile,
    bytes_of_files,
    bytes_of_names,
    bytes_of_node,
    extents_of,
    find,
    iter_extents,
    objects_and_lengths,
)
from journal.image.path_claims import CLAIMS_MAX, ENDED_MAX
from journal.records.change import APPLICATION_BYTES_MAX, PIN_NAME_BYTES_MAX, PinChange
from journal.records.paths import name_of, parent_of
from journal.records.record import CHAIN_BYTES, CLIENT_BYTES, META_BYTES_MAX, NUMBER_MAX, ChainHash, Epoch, Lsn
from journal.records.segment import EPOCH_MAX, decode_segment_header, encode_segment_header, parse_segment_name
from journal.volume import PathClaim
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ProtocolError
from sos_client.wire.msgpack_edge import array_header, pack, pack_large, unpack
from sos_client.wire.shapes import ANY, BINARY, NUMBER, TEXT, ArrayShape, Shape, array_of, exact_bytes, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from journal.records.segment import SegmentHeader

SNAPSHOT_MAGIC: Final = b"SOSi"
SNAPSHOT_VERSION: Final = 2
SNAPSHOT_BYTES_MAX: Final = 2**31  # some tens of millions of files; beyond it a volume should be split
ANSWERS_MAX: Final = 131_072
EXPIRED_MAX: Final = 262_144
_ENDED_AT: Final = 10  # where claims that have ended lie in the body
NAME_SEPARATOR: Final = "/"  # no name contains it

_OPENING: Final = struct.Struct(">4sB3xQI")  # magic, version, bytes and CRC32C of what follows
_SIZE: Final = struct.Struct(">I")
_ONE_EXTENT_FILE: Final = struct.Struct(f"{ONE_EXTENT_FILE_BYTES}s")
_NAME: Final = re.compile(r"([0-9a-f]{16})-([0-9a-f]{8})-([0-9a-f]{16})\.idx", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotName:
    """Which moment of which history a snapshot is of. It counts only if the chosen chain has this value at this LSN."""

    lsn: Lsn
    epoch: Epoch
    chain: ChainHash

    def __str__(self) -> str:
        return f"{self.lsn:016x}-{self.epoch:08x}-{self.chain.hex()}.idx"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotObject:
    """An index snapshot as an object."""

    name: str
    size: int

    @property
    def lsn(self) -> Lsn:
        """The moment that it is of."""
        return Lsn(int(self.name[:16], 16))


def parse_snapshot_name(name: str) -> SnapshotName | None:
    """What the name says, or None if it is not an index snapshot's."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return SnapshotName(
        lsn=Lsn(int(match[1], 16)), epoch=Epoch(int(match[2], 16)), chain=ChainHash(bytes.fromhex(match[3]))
    )


def snapshots_on_chain(names: Iterable[str], boundaries: Mapping[int, bytes], *, lsn: int) -> list[SnapshotName]:
    """The snapshots that count for reading the moment `lsn`, the best first.

    `boundaries`: for each LSN where a segment of the chosen chain ends and the next begins, the chain value there
    (from the headers' back-links). A snapshot at any other place, or with another value, is of a history that was
    given up.
    """
    parsed = (parse_snapshot_name(name) for name in names)
    counting = [one for one in parsed if one and one.lsn <= lsn and boundaries.get(one.lsn) == one.chain]
    return sorted(counting, key=lambda one: (one.lsn, one.epoch), reverse=True)


def name_of_snapshot(image: Image, *, epoch: Epoch) -> SnapshotName:
    """What a snapshot of this image, written in this epoch, is called."""
    return SnapshotName(lsn=image.lsn, epoch=epoch, chain=image.chain)


def encode_snapshot(image: Image) -> bytes:
    """The image as bytes. Takes about a microsecond a file; nothing may change the image meanwhile."""
    assert image.segment is not None, "a volume without a segment has nothing to index"
    items = [
        image.lsn,
        image.chain,
        image.time_ms,
        encode_segment_header(image.segment),
        image.trim,
        image.tree.objects,
        list(_packed_directories(image.tree.root)),
        [[number, upload.size, upload.extents] for number, upload in image.uploads.items()],
        [[pin.name, pin.lsn, pin.expires_ms] for pin in image.pins.values()],
        _packed_claims(image.claims),
        _packed_claims(image.claims.ended),
        [[client, sequence] for client, sequence in image.operations.expired()],
    ]
    answers = image.operations.answers()
    parts = [array_header(len(items) + 1), *map(pack_large, items), array_header(len(answers)), *answers]
    body = b"".join(parts)
    return _OPENING.pack(SNAPSHOT_MAGIC, SNAPSHOT_VERSION, len(body), crc32c(body)) + body


def _packed_claims(claims: Iterable[tuple[str, PathClaim]]) -> list[object]:
    return [[path, claim.start_time, claim.application] for path, claim in claims]


def _packed_directories(root: Directory) -> Iterator[list[object]]:
    """[path, time, names, sizes, files] of each directory, parents first; no `sizes` if all files have one extent."""
    todo = [("", root)]
    while todo:
        path, directory = todo.pop()
        names, files = [], []
        for name, node in directory.children.items():
            if isinstance(node, Directory):
                todo.append((f"{path}/{name}" if path else name, node))
            else:
                names.append(name)
                files.append(node)
        plain = all(len(file) == ONE_EXTENT_FILE_BYTES for file in files)
        sizes = b"" if plain else struct.pack(f">{len(files)}I", *map(len, files))
        yield [path, directory.modified_ms, NAME_SEPARATOR.join(names), sizes, b"".join(files)]


def decode_snapshot(data: bytes | memoryview) -> Image:
    """The image. DamagedJournalError (DAMAGED, TOO_NEW) for anything that `encode_snapshot` does not make."""
    if len(data) < _OPENING.size:
        raise damaged("the index snapshot is cut short")
    magic, version, size, crc = _OPENING.unpack_from(data)
    if magic != SNAPSHOT_MAGIC:
        raise damaged("this is not an index snapshot")
    if not 1 <= version <= SNAPSHOT_VERSION:
        raise DamagedJournalError(
            JournalCode.TOO_NEW, f"the index snapshot has version {version}; use the version that wrote it"
        )
    body = memoryview(data)[_OPENING.size :]
    if size != len(body) or crc32c(body) != crc:
        raise damaged("the index snapshot does not match its CRC")
    try:
        return _image(body, version)
    except (ValueError, TypeError, struct.error, ProtocolError, UnicodeError) as error:
        raise damaged(f"the index snapshot makes no sense: {error}") from error


def checked_snapshot(name: str, data: bytes | memoryview) -> Image:
    """The same, of the moment that the object's name says: bytes that are whole may still be another snapshot's."""
    image, wanted = decode_snapshot(data), parse_snapshot_name(name)
    if wanted is None or (image.lsn, image.chain) != (wanted.lsn, wanted.chain):
        raise damaged("the snapshot is not of the moment that its name says")
    return image


def _image(body: memoryview, version: int) -> Image:
    most = max(len(body), 1)  # the CRC has vouched for the bytes: this only keeps nested headers from reserving memory
    values = unpack(body, array_max=most, map_max=0, string_bytes_max=most, binary_bytes_max=most)
    if version == 1 and type(values) is list:  # claims were never ended there
        values.insert(_ENDED_AT, [])
    return _BODY.read(values)


def _filled(
    lsn: int,
    chain: bytes,
    time_ms: int,
    segment: SegmentHeader,
    trim: int,
    objects: tuple[str, ...],
    directories: tuple[object, ...],
    uploads: tuple[tuple[int, int, bytes], ...],
    pins: tuple[PinChange, ...],
    claims: tuple[tuple[str, int, str], ...],
    ended: tuple[tuple[str, int, str], ...],
    expired: tuple[tuple[bytes, int], ...],
    answers: tuple[object, ...],
) -> Image:
    image = Image()
    image.lsn, image.chain, image.time_ms = Lsn(lsn), ChainHash(chain), time_ms
    image.segment, image.trim = segment, Lsn(trim)
    image.tree.objects = list(objects)
    image.tree.live_bytes = [0] * len(objects)
    for packed in directories:
        _add_directory(image, *_DIRECTORY.read(packed))
    for number, size, extents in uploads:
        image.uploads[number] = Upload(size=size, extents=extents)
        _count(image, ((number, length) for number, _, length, _ in iter_extents(extents)))
    image.pins.update((pin.name, pin) for pin in pins)
    for path, start_time, application in claims:
        image.claims.add(path, PathClaim(start_time=start_time, application=application))
    for path, start_time, application in ended:
        image.claims.add_ended(path, PathClaim(start_time=start_time, application=application))
    for client, sequence in expired:
        image.operations.restore_expired(client, sequence)
    image.operations.restore_answers(_answers(answers))
    return image


def _add_directory(image: Image, at: str, modified_ms: int, joined: str, sizes: bytes, packed: bytes) -> None:
    tree = image.tree
    directory = Directory(modified_ms)
    if at:
        parent = find(tree.root, parent_of(at))
        if not isinstance(parent, Directory) or name_of(at) in parent.children:
            raise ValueError("a directory comes before its parent, or twice")
        parent.add(name_of(at), directory)
        tree.directory_count += 1
        tree.kept_bytes += bytes_of_node(name_of(at), directory)
    else:
        tree.root = directory
    children = joined.split(NAME_SEPARATOR) if joined else []
    found = _files(image, packed, len(children), sizes)
    directory.children.update(zip(children, found, strict=True))
    if len(directory.children) < len(children) or "" in children:
        raise ValueError("a name is empty, or comes twice")
    tree.file_count += len(children)
    tree.kept_bytes += 2 * bytes_of_names(children) + bytes_of_files(len(children), len(packed))


def _files(image: Image, packed: bytes, count: int, sizes: bytes) -> list[PackedFile]:
    """The files of a directory, with their extents counted as in use."""
    if sizes:
        return _files_of_sizes(image, packed, sizes)
    if len(packed) != count * ONE_EXTENT_FILE_BYTES:
        raise ValueError("files and names do not match")
    _count(image, objects_and_lengths(packed))
    return [file for (file,) in _ONE_EXTENT_FILE.iter_unpack(packed)]


def _files_of_sizes(image: Image, packed: bytes, sizes: bytes) -> list[PackedFile]:
    files: list[PackedFile] = []
    at = 0
    for (size,) in _SIZE.iter_unpack(sizes):
        file = packed[at : at + size]
        if len(file) != size or size < EMPTY_FILE_BYTES or (size - EMPTY_FILE_BYTES) % EXTENT_BYTES:
            raise ValueError("a file is cut short")
        _count(image, ((number, length) for number, _, length, _ in extents_of(file)))
        files.append(file)
        at += size
    if at != len(packed):
        raise ValueError("bytes are left over")
    return files


def _count(image: Image, extents: Iterable[tuple[int, int]]) -> None:
    """Count (object number, length) of extents as in use."""
    live_bytes = image.tree.live_bytes
    try:
        for number, length in extents:
            live_bytes[number] += length
    except IndexError as error:
        raise ValueError("an extent refers to no object") from error


def _answers(items: Iterable[object]) -> Iterator[tuple[bytes, int, int, bytes]]:
    """Of each kept answer: client, sequence, time, and all of it as it lies in the snapshot."""
    for item in items:
        client, sequence, at_ms = _ANSWER.read(item)
        yield client, sequence, at_ms, pack(item)


def _values(*values: Any) -> tuple[Any, ...]:
    return values


def _first_three(client: bytes, sequence: int, at_ms: int, _given: object) -> tuple[bytes, int, int]:
    return client, sequence, at_ms


def _segment_name(name: str) -> str:
    if parse_segment_name(name) is None:
        raise ProtocolError(f"{name!r} is not a segment's name")
    return name


def _tuples(name: str, **fields: Shape) -> Shape:
    return ArrayShape(_values, fields, name=name, by_name=False).shape()


_CLIENT: Final = exact_bytes(CLIENT_BYTES)
_APPLICATION: Final = text(APPLICATION_BYTES_MAX)
_EXTENTS: Final = Shape(what="whole extents", test=f"type(it) is bytes and len(it) % {EXTENT_BYTES} == 0")
_CLAIM: Final = _tuples("claim", path=TEXT, start_time=NUMBER, application=_APPLICATION)
_PIN: Final = ArrayShape(
    PinChange, {"name": text(PIN_NAME_BYTES_MAX), "lsn": NUMBER, "expires_ms": NUMBER}, name="pin"
).shape()
_DIRECTORY: Final = ArrayShape(
    _values,
    {"path": TEXT, "modified_ms": NUMBER, "names": TEXT, "sizes": BINARY, "files": BINARY},
    name="directory",
    by_name=False,
)
_STATUS: Final = "type(it) is list and len(it) == 4 and type(it[0]) is str" + "".join(
    f" and ({rest}type(it[{n}]) is int and 0 <= it[{n}] <= {NUMBER_MAX})"
    for n, rest in ((1, ""), (2, ""), (3, "it[3] is None or "))
)
_GIVEN: Final = Shape(what="a file's status, true, false or nil", test=f"it is None or type(it) is bool or {_STATUS}")
_ANSWER: Final = ArrayShape(
    _first_three,
    {"client": _CLIENT, "sequence": NUMBER, "at_ms": NUMBER, "given": _GIVEN},
    name="answer",
    by_name=False,
)
_BODY: Final = ArrayShape(
    _filled,
    {
        "lsn": NUMBER,
        "chain": exact_bytes(CHAIN_BYTES),
        "time_ms": NUMBER,
        "segment": Shape(
            what="a segment's header",
            test=f"type(it) is bytes and len(it) <= {META_BYTES_MAX}",
            reads=decode_segment_header,
        ),
        "trim": NUMBER,
        "objects": array_of(Shape(what="a segment's name", test=TEXT.test, reads=_segment_name), SNAPSHOT_BYTES_MAX),
        "directories": array_of(ANY, SNAPSHOT_BYTES_MAX),
        "uploads": array_of(_tuples("upload", number=NUMBER, size=NUMBER, extents=_EXTENTS), SNAPSHOT_BYTES_MAX),
        "pins": array_of(_PIN, PINS_MAX),
        "claims": array_of(_CLAIM, CLAIMS_MAX),
        "ended": array_of(_CLAIM, ENDED_MAX),
        "expired": array_of(_tuples("expired", client=_CLIENT, sequence=NUMBER), EXPIRED_MAX),
        "answers": array_of(ANY, ANSWERS_MAX),
    },
    name="index snapshot",
    by_name=False,
)

assert EPOCH_MAX < 2**32, "the name has eight digits for it"
