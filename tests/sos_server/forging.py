"""What somebody who knows the log's format may write into an object: blocks that look like batches of the server."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sos_client.wire.checksum import crc32c
from sos_server.storage.rows import Row, encode_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLOCK_BYTES: Final = 4096
BATCH_HEADER_BYTES: Final = {1: 32, 2: 40}
"""What lies before the content of an append that is the first of its batch, by version of the log."""


def forged_batch(
    rows: Sequence[Row], *, generation: int, number: int, version: int = 2, nonce: bytes = bytes(8)
) -> bytes:
    """One block: a batch of these rows. All of it is right but the nonce, which nobody outside knows."""
    payloads = [encode_row(row) for row in rows]
    entries = b"".join(struct.pack(">QQII", 0, 0, len(payload), crc32c(payload)) for payload in payloads)
    body = b"".join(payloads)
    if version == 1:
        head = struct.pack(">4sIQQI", b"SOSB", len(rows), generation, number, len(body))
    else:
        head = struct.pack(">4sIQQ8sI", b"SOB2", len(rows), generation, number, nonce, len(body))
    return (head + crc32c(entries, crc32c(head)).to_bytes(4, "big") + body + entries).ljust(BLOCK_BYTES, b"\0")


def sprayed(batches: Iterable[bytes], *, version: int = 2) -> bytes:
    """An object's content that brings them to block boundaries of a log file, if it is the first in its batch."""
    return bytes(BLOCK_BYTES - BATCH_HEADER_BYTES[version]) + b"".join(batches)
