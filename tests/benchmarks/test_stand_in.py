"""Stand-ins are what they say: a store opens them, verifies every byte, and goes on after them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import trio

from journal.disk.disk import open_disk
from sos_client.wire.checksum import crc32c
from sos_server.storage.object_layout import CHUNK_BYTES, GROUP_BYTES
from sos_server.store.object_store import ObjectStore
from tests.benchmarks.image_stand_in import filled_image
from tests.benchmarks.processes import sync_lines
from tests.benchmarks.stand_in import NAMESPACE, make_root, zeros_crc

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("length", [0, 1, 4096, 100_001])
def test_the_crc_of_zeros(length: int) -> None:
    assert zeros_crc(length) == crc32c(bytes(length))


@pytest.mark.parametrize("size", [4096, CHUNK_BYTES, GROUP_BYTES + CHUNK_BYTES + 17])
def test_a_stand_in_is_read_and_appended_to(tmp_path: Path, size: int) -> None:
    make_root(tmp_path / "root", objects=2, object_bytes=size)

    async def use() -> None:
        async with open_disk(tmp_path / "root") as disk, trio.open_nursery() as nursery:
            store = await ObjectStore.open(disk, wall_clock=time.time)
            nursery.start_soon(store.run)
            namespace = await store.namespace(NAMESPACE, create=False)
            assert [info.size for info in namespace.list("", 10)] == [size, size]
            start = max(0, size - 2 * CHUNK_BYTES)
            assert (await namespace.read("o1", start, size - start)).content == bytes(size - start)
            appender = await namespace.start_append(
                "o1",
                size=size,
                prefix_crc=zeros_crc(size),
                claim=None,
                instance=bytes(16),
                on_progress=lambda: None,
                on_evicted=lambda _: None,
            )
            appender.append(size, crc32c(b"more"), memoryview(b"more"))
            await appender.end()
            assert (await namespace.read("o1", size - 1, 5)).content == b"\0more"
            await store.close()
            nursery.cancel_scope.cancel()

    trio.run(use)


def test_an_image_of_many_files() -> None:
    image = filled_image(2500)
    assert image.tree.file_count == 2500
    assert image.tree.stat("query/state/2/2499.delta").size == 100


def test_syncs_are_counted_once() -> None:
    trace = """7 fdatasync(5 <unfinished ...>
8 fsync(6) = 0
7 <... fdatasync resumed>) = 0
8 pwritev2(5, 0, 1, 0, 0) = 1
"""
    assert sync_lines(trace) == 2
