"""The mark at the end of a backup: up to where it goes, and what belongs to it. Pure.

Belongs here: the bytes of `backup.end` (layout in FORMAT.md). A backup whose last segment was cut or damaged looks like
a shorter history; without the mark nobody could tell. Reading and writing it is backups.py's.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import DamagedJournalError, JournalCode, damaged
from journal.records.record import CHAIN_BYTES, NUMBER_MAX, ChainHash, Lsn
from journal.records.segment import IDENTITY_BYTES
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ProtocolError
from sos_client.wire.msgpack_edge import pack_large, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK_NAME: Final = "backup.end"
MARK_MAGIC: Final = b"SOSb"
MARK_VERSION: Final = 1
MARK_BYTES_MAX: Final = 16 << 20
OBJECTS_MAX: Final = 200_000  # names and figures of this many fit into the mark

_OPENING: Final = struct.Struct(">4sB3xQI")  # magic, version, bytes and CRC32C of what follows
_OBJECT_NAME: Final = re.compile(r"[0-9a-f-]{1,60}\.(?:seg|idx)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedObject:
    """How much of an object belongs to the backup, and the CRC of that. A segment may have grown since."""

    bytes: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupMark:
    """What a backup holds when it is whole."""

    volume_id: bytes
    lsn: Lsn
    chain: ChainHash  # at this LSN: says of which history it is
    objects: Mapping[str, MarkedObject]


def encode_mark(mark: BackupMark) -> bytes:
    """The mark as bytes."""
    objects = [[name, one.bytes, one.crc] for name, one in sorted(mark.objects.items())]
    body = pack_large([mark.volume_id, mark.lsn, mark.chain, objects])
    return _OPENING.pack(MARK_MAGIC, MARK_VERSION, len(body), crc32c(body)) + body


def decode_mark(data: bytes) -> BackupMark:
    """The mark. DamagedJournalError (DAMAGED, TOO_NEW) for anything that `encode_mark` does not make."""
    if len(data) < _OPENING.size:
        raise _no_mark("it is cut short")
    magic, version, size, crc = _OPENING.unpack_from(data)
    if magic != MARK_MAGIC:
        raise _no_mark("it is something else")
    if version != MARK_VERSION:
        message = f"{MARK_NAME} has version {version}, and this program knows {MARK_VERSION}: use a newer one"
        raise DamagedJournalError(JournalCode.TOO_NEW, message)
    body = data[_OPENING.size :]
    if len(body) != size or crc32c(body) != crc:
        raise _no_mark("its bytes do not match their CRC")
    try:
        return _mark_of(unpack(body, array_max=OBJECTS_MAX))
    except ProtocolError as error:
        raise _no_mark(str(error)) from error


def _mark_of(value: object) -> BackupMark:
    match value:
        case [bytes(volume_id), int(lsn), bytes(chain), list(listed)]:
            objects = dict(_object_of(one) for one in listed)
        case _:
            raise _no_mark("it does not say what a mark says")
    if (len(volume_id), len(chain), len(objects)) != (IDENTITY_BYTES, CHAIN_BYTES, len(listed)) or not _can_be(lsn):
        raise _no_mark("it says what cannot be")
    return BackupMark(volume_id=volume_id, lsn=Lsn(lsn), chain=ChainHash(chain), objects=objects)


def _object_of(value: object) -> tuple[str, MarkedObject]:
    match value:
        case [str(name), int(size), int(crc)] if _OBJECT_NAME.fullmatch(name) and _can_be(size) and _can_be(crc):
            return name, MarkedObject(bytes=size, crc=crc)
        case _:
            raise _no_mark("it lists what is not an object")


def _can_be(number: int) -> bool:
    return type(number) is int and 0 <= number <= NUMBER_MAX


def _no_mark(why: str) -> DamagedJournalError:
    return damaged(f"{MARK_NAME} cannot be used: {why}; run `backup` again", object=MARK_NAME)
