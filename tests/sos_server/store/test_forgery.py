"""What clients write into objects is never taken for what the server wrote, wherever it lies in a log file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sos_server.storage.log_format import BLOCK_BYTES
from sos_server.storage.rows import Claimed, ObjectDeleted, Row
from sos_server.store.namespace import Claim
from tests.sos_server.forging import forged_batch, sprayed
from tests.sos_server.real_store import Client, running
from tests.sos_server.store_world import read_all

if TYPE_CHECKING:
    from pathlib import Path

    from sos_server.store.object_store import ObjectStore

OWNER = Claim(epoch=5, holder=b"V" * 16)


async def spray(store: ObjectStore, version: int) -> None:
    """Fill a log file with batches of the generation that it will have next, each with the number of its place."""
    files = store.log.files
    assert files.current is not None
    evil = Client(await store.namespace("evil", create=True))
    await evil.put("tick", b"t")
    generation, path = files.current.generation + 2, files.current.path
    rows: list[Row] = [Claimed(1, 4_000_000_000, b"E" * 16), ObjectDeleted(2)]
    first = files.current.used // BLOCK_BYTES + 2  # after the object's first row
    blocks = [forged_batch(rows, generation=generation, number=first - 1 + n, version=version) for n in range(14)]
    await evil.put("spray", b"")
    await evil.put("spray", sprayed(blocks, version=version))
    await store.copy_everything()
    await evil.put("tick", b"t", 1)
    await store.copy_everything()
    assert (files.current.generation, files.current.path) == (generation, path)
    while files.current.used // BLOCK_BYTES < first:
        await evil.put("tick", b"t", store.contents.namespaces["evil"].objects["tick"].size)


@pytest.mark.parametrize("version", [1, 2])
async def test_content_that_looks_like_batches_of_a_later_generation(tmp_path: Path, version: int) -> None:
    async with running(tmp_path / "r", graceful=False) as store:
        namespace = await store.namespace("victim", create=True)
        await namespace.fence(OWNER)
        await Client(namespace, claim=OWNER).put("v", b"precious")
        await spray(store, version)
    async with running(tmp_path / "r", graceful=False) as store:
        namespace = await store.namespace("victim", create=False)
        assert namespace.claim == OWNER
        assert await read_all(namespace, "v") == b"precious"
