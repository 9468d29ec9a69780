"""Roots of SOS servers that say they store much, made in a moment: sparse files of zeros, with true CRCs and catalog.

A stand-in for bytes that nobody wants to write or has no room for. The server does not know: it opens the root, reads
every byte and verifies it, appends after it. Only the blocks on the disk are missing.
"""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Final

import trio

from journal.disk.disk import open_disk
from sos_client.wire.checksum import crc32c, crc32c_combine
from sos_server.objects.object_files import directory_of, path_of
from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.object_layout import CHUNK_BYTES, CRC_BYTES, GROUP_BYTES, GROUP_CHUNKS, data_position
from sos_server.storage.rows import ObjectState
from sos_server.store.object_store import ObjectStore
from sos_server.store.settings import StoreSettings
from sos_server.store.starting import open_root

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE: Final = "stored"
_CHUNK_CRC: Final = crc32c(bytes(CHUNK_BYTES))


def make_root(root: Path, *, objects: int, object_bytes: int) -> None:
    """A stopped server's root with so many objects `o0`, `o1` … of zeros in the namespace `stored`."""
    trio.run(_make_empty, root)
    trio.run(_add_objects, root, objects, object_bytes)


async def _make_empty(root: Path) -> None:
    """What a server leaves that was started, made a namespace, and was stopped."""
    async with open_disk(root, create=True) as disk, trio.open_nursery() as nursery:
        store = await ObjectStore.open(disk, wall_clock=time.time)
        nursery.start_soon(store.run)
        await store.namespace(NAMESPACE, create=True)
        await store.close()
        nursery.cancel_scope.cancel()


async def _add_objects(root: Path, objects: int, object_bytes: int) -> None:
    async with open_disk(root) as disk:
        opened = await open_root(disk, StoreSettings(), secrets.token_bytes)
        namespace = opened.contents.namespaces[NAMESPACE].number
        crc, tail_crc = zeros_crc(object_bytes), crc32c(bytes(object_bytes % CHUNK_BYTES))
        for index in range(objects):
            number = opened.contents.take_number()
            opened.contents.apply(
                ObjectState(number, namespace, f"o{index}", 0, object_bytes, crc, tail_crc, None, 0, damaged=False)
            )
            _make_file(root, number, object_bytes)
        await opened.catalog.write(opened.contents, replay_from=opened.files.next_generation, open_generation=0)
        opened.catalog.close()
        opened.files.close()


def zeros_crc(length: int) -> int:
    """CRC32C of so many zeros, without making them."""
    crc, block_crc, block_bytes = 0, crc32c(b"\0"), 1
    while length:
        if length & 1:
            crc = crc32c_combine(crc, block_crc, block_bytes)
        block_crc, block_bytes, length = crc32c_combine(block_crc, block_crc, block_bytes), 2 * block_bytes, length >> 1
    return crc


def _make_file(root: Path, number: int, size: int) -> None:
    """A file of zeros with nothing on the disk but its checksum pages."""
    (root / directory_of(number)).mkdir(exist_ok=True)
    descriptor = os.open(root / path_of(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, data_position(size))
        for start in range(0, size, GROUP_BYTES):
            chunks = min(GROUP_CHUNKS, (size - start) // CHUNK_BYTES)
            page = _CHUNK_CRC.to_bytes(CRC_BYTES, "big") * chunks
            os.pwrite(descriptor, page.ljust(BLOCK_BYTES, b"\0"), data_position(start) - BLOCK_BYTES)
    finally:
        os.close(descriptor)
