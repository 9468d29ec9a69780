"""The mark at the end of a backup: every byte of it counts."""

from __future__ import annotations

import struct

import pytest

from journal.copies.backup_mark import BackupMark, MarkedObject, decode_mark, encode_mark
from journal.errors import DamagedJournalError, JournalCode
from journal.records.record import ChainHash, Lsn
from sos_client.wire.checksum import crc32c
from sos_client.wire.msgpack_edge import pack

NAME = f"{0:016x}-{1:08x}-{'0a' * 16}.seg"
MARK = BackupMark(
    volume_id=b"v" * 16,
    lsn=Lsn(900),
    chain=ChainHash(b"c" * 8),
    objects={NAME: MarkedObject(bytes=900, crc=0xFFFFFFFF)},
)


def _framed(body: bytes) -> bytes:
    return struct.pack(">4sB3xQI", b"SOSb", 1, len(body), crc32c(body)) + body


def test_a_mark_is_what_was_written() -> None:
    assert decode_mark(encode_mark(MARK)) == MARK


def test_no_byte_can_be_changed_left_out_or_added() -> None:
    data = encode_mark(MARK)
    for at in [*range(5), *range(8, len(data))]:  # the three reserved bytes say nothing
        flipped = bytearray(data)
        flipped[at] ^= 1
        with pytest.raises(DamagedJournalError):
            decode_mark(bytes(flipped))
    for cut in range(len(data)):
        with pytest.raises(DamagedJournalError, match="run `backup` again"):
            decode_mark(data[:cut])
    with pytest.raises(DamagedJournalError, match="CRC"):
        decode_mark(data + b"x")


def test_a_newer_version_is_not_guessed_at() -> None:
    data = bytearray(encode_mark(MARK))
    data[4] = 2
    with pytest.raises(DamagedJournalError) as ended:
        decode_mark(bytes(data))
    assert ended.value.code is JournalCode.TOO_NEW


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        pack([]),
        pack([b"v" * 16, "900", b"c" * 8, []]),
        pack([b"v" * 15, 900, b"c" * 8, []]),
        pack([b"v" * 16, -1, b"c" * 8, []]),
        pack([b"v" * 16, True, b"c" * 8, []]),
        pack([b"v" * 16, 900, b"c", []]),
        pack([b"v" * 16, 900, b"c" * 8, [[NAME, 1, 1], [NAME, 1, 1]]]),
        pack([b"v" * 16, 900, b"c" * 8, [[NAME, 1]]]),
        pack([b"v" * 16, 900, b"c" * 8, [[NAME, -1, 1]]]),
        pack([b"v" * 16, 900, b"c" * 8, [["../../etc/passwd", 1, 1]]]),
    ],
)
def test_what_says_something_else_is_refused(body: bytes) -> None:
    with pytest.raises(DamagedJournalError, match=r"backup\.end cannot be used"):
        decode_mark(_framed(body))
