"""Import and fork: many files at once, of which each is written exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from journal.files.tree_writing import NewFile, write_tree
from journal.volume import PUT_BYTES_MAX
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_a_large_file_may_take_longer_than_many_small_ones() -> None:
    """A service remembers few answers of one client: the large file's id must not be older than all those."""
    small_written = trio.Event()
    written = 0

    async def large() -> AsyncIterator[bytes]:
        yield bytes(PUT_BYTES_MAX)
        await small_written.wait()
        yield b"the end"

    async def small() -> AsyncIterator[bytes]:
        yield b"1"

    def progress(done: int) -> None:
        nonlocal written
        written += done == 1
        if written == 100:
            small_written.set()

    sizes = {"large": PUT_BYTES_MAX + 7} | {f"small/{number}": 1 for number in range(100)}
    files = [
        NewFile(path=path, is_directory=False, size=size, modified_ms=7, pieces=large if path == "large" else small)
        for path, size in sizes.items()
    ]
    volume = MemoryVolume()
    await write_tree(volume, files, "copy", scratch="0123abcd", origin={"imported_files": 101}, progress=progress)
    assert (await volume.stat("copy/large")).size == PUT_BYTES_MAX + 7
    assert len((await volume.list("copy/small")).entries) == 100
