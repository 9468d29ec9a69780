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
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    """What the name says, or None if it is no index snapshot's."""
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
        raise damaged("this is no index snapshot")
    if not 1 <= version <= SNAPSHOT_VERSION:
        raise DamagedJournalError(
            JournalCode.TOO_NEW, f"the index snapshot has version {version}; use the version that wrote it"
        )
    body = memoryview(data)[_OPENING.size :]
    if size != len(body) or crc32c(body) != crc:
        raise damaged("the index snapshot does not match its CRC")
    try:
        return _image(_unpacked(body), version)
    except (ValueError, TypeError, struct.error, ProtocolError, UnicodeError) as error:
        raise damaged(f"the index snapshot makes no sense: {error}") from error


def checked_snapshot(name: str, data: bytes | memoryview) -> Image:
    """The same, of the moment that the object's name says: bytes that are whole may still be another snapshot's."""
    image, wanted = decode_snapshot(data), parse_snapshot_name(name)
    if wanted is None or (image.lsn, image.chain) != (wanted.lsn, wanted.chain):
        raise damaged("the snapshot is not of the moment that its name says")
    return image


def _unpacked(body: memoryview) -> list[object]:
    most = max(
        len(body), 1
    )  # the CRC has vouched for the bytes; the limits only keep nested headers from reserving memory
    values = unpack(body, array_max=most, map_max=0, string_bytes_max=most, binary_bytes_max=most)
    if type(values) is not list:
        raise TypeError("an array is expected")
    return values


def _image(values: list[object], version: int) -> Image:
    if version == 1:  # claims were never ended there
        values.insert(_ENDED_AT, [])
    lsn, chain, time_ms, segment, trim, objects, directories, uploads, pins, claims, ended, expired, answers = values
    image = Image()
    image.lsn, image.chain, image.time_ms = Lsn(_number(lsn)), ChainHash(_exactly(chain, CHAIN_BYTES)), _number(time_ms)
    image.segment = decode_segment_header(_bytes(segment, META_BYTES_MAX))
    image.trim = Lsn(_number(trim))
    image.tree.objects = [_segment_name(name) for name in _list(objects)]
    image.tree.live_bytes = [0] * len(image.tree.objects)
    for packed in _list(directories):
        _add_directory(image, *_list(packed, 5))
    for number, size, extents in (_list(item, 3) for item in _list(uploads)):
        upload = Upload(size=_number(size), extents=_extents(extents))
        image.uploads[_number(number)] = upload
        _count(image, ((number, length) for number, _, length, _ in iter_extents(upload.extents)))
    for name, at, expires_ms in (_list(item, 3) for item in _list(pins, most=PINS_MAX)):
        pin = PinChange(name=_text(name, PIN_NAME_BYTES_MAX), lsn=Lsn(_number(at)), expires_ms=_number(expires_ms))
        image.pins[pin.name] = pin
    for path, claim in _path_claims(claims, most=CLAIMS_MAX):
        image.claims.add(path, claim)
    for path, claim in _path_claims(ended, most=ENDED_MAX):
        image.claims.add_ended(path, claim)
    for client, sequence in (_list(item, 2) for item in _list(expired, most=EXPIRED_MAX)):
        image.operations.restore_expired(_exactly(client, CLIENT_BYTES), _number(sequence))
    image.operations.restore_answers(_answers(_list(answers, most=ANSWERS_MAX)))
    return image


def _path_claims(value: object, *, most: int) -> Iterator[tuple[str, PathClaim]]:
    for path, start_time, application in (_list(item, 3) for item in _list(value, most=most)):
        text = _text(application, APPLICATION_BYTES_MAX)
        yield _text(path), PathClaim(start_time=_number(start_time), application=text)


def _add_directory(
    image: Image, path: object, modified_ms: object, names: object, sizes: object, files: object
) -> None:
    tree, at = image.tree, _text(path)
    directory = Directory(_number(modified_ms))
    if at:
        parent = find(tree.root, parent_of(at))
        if not isinstance(parent, Directory) or name_of(at) in parent.children:
            raise ValueError("a directory comes before its parent, or twice")
        parent.add(name_of(at), directory)
        tree.directory_count += 1
        tree.kept_bytes += bytes_of_node(name_of(at), directory)
    else:
        tree.root = directory
    joined, packed = _text(names), _bytes(files)
    children = joined.split(NAME_SEPARATOR) if joined else []
    found = _files(image, packed, len(children), _bytes(sizes))
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


def _answers(items: list[object]) -> Iterator[tuple[bytes, int, int, bytes]]:
    """Of each kept answer: client, sequence, time, and all of it as it lies in the snapshot.

    Checked in place, without a call for each value: there are up to 65,536 of them.
    """
    for item in items:
        if type(item) is not list:
            raise TypeError("an answer is expected")
        client, sequence, at_ms, given = item
        if type(client) is not bytes or len(client) != CLIENT_BYTES:
            raise ValueError("an answer is nobody's")
        if type(sequence) is not int or type(at_ms) is not int or not 0 <= sequence <= NUMBER_MAX >= at_ms >= 0:
            raise ValueError("a number is out of range")
        if type(given) is list:
            path, size, modified_ms, crc = given
            crc = 0 if crc is None else crc
            if type(path) is not str or type(size) is not int or type(modified_ms) is not int or type(crc) is not int:
                raise TypeError("a file's status is expected")
            if not 0 <= size <= NUMBER_MAX >= modified_ms >= 0 <= crc <= NUMBER_MAX:
                raise ValueError("a number is out of range")
        elif given is not None and type(given) is not bool:
            raise TypeError("an answer is none")
        yield client, sequence, at_ms, pack(item)


def _extents(value: object) -> bytes:
    data = _bytes(value)
    if len(data) % EXTENT_BYTES:
        raise ValueError("an extent is cut short")
    return data


def _segment_name(value: object) -> str:
    name = _text(value)
    if parse_segment_name(name) is None:
        raise ValueError(f"{name!r} is no segment's name")
    return name


def _list(value: object, count: int | None = None, most: int | None = None) -> list[object]:
    if (
        type(value) is not list
        or (count is not None and len(value) != count)
        or (most is not None and len(value) > most)
    ):
        raise ValueError("an array of another length is expected")
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise ValueError("a number is out of range")
    return value


def _text(value: object, bytes_max: int = SNAPSHOT_BYTES_MAX) -> str:
    if type(value) is not str or len(value) > bytes_max:
        raise ValueError("text is too long, or no text")
    return value


def _bytes(value: object, most: int = SNAPSHOT_BYTES_MAX) -> bytes:
    if type(value) is not bytes or len(value) > most:
        raise ValueError("bytes are expected")
    return value


def _exactly(value: object, size: int) -> bytes:
    if type(value) is not bytes or len(value) != size:
        raise ValueError(f"{size} bytes are expected")
    return value


assert EPOCH_MAX < 2**32, "the name has eight digits for it"
