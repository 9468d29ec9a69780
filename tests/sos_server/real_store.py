"""A store on a real disk for the time of a block, a client of it, and damage done to its files."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from journal.disk.disk import open_disk
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.store.object_store import ObjectStore
from tests.sos_server.store_world import SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sos_client.wire.messages import ObjectInfo
    from sos_server.store.namespace import Appender, Claim, Namespace

NO_IDLE_COPY = dataclasses.replace(SMALL, idle_copy_seconds=3600.0)
ONE, TWO = b"1" * 16, b"2" * 16


class Client:
    """A client with one instance and one claim, and what it was told."""

    def __init__(self, namespace: Namespace, *, instance: bytes = ONE, claim: Claim | None = None) -> None:
        self.namespace = namespace
        self.instance = instance
        self.claim = claim
        self.evicted: list[RefusedError] = []
        self.progress: list[tuple[int, int]] = []

    async def start(self, name: str, size: int = 0, *, prefix_crc: int | None = None) -> Appender:
        appender = await self.namespace.start_append(
            name,
            size=size,
            prefix_crc=prefix_crc,
            claim=self.claim,
            instance=self.instance,
            on_progress=lambda: self.progress.append((appender.written, appender.synced)),
            on_evicted=self.evicted.append,
        )
        return appender

    async def put(self, name: str, content: bytes, size: int = 0) -> ObjectInfo:
        appender = await self.start(name, size)
        for start in range(0, len(content), 60_000):
            await appender.wait_room()
            piece = content[start : start + 60_000]
            appender.append(appender.written, crc32c(piece), memoryview(piece))
        await appender.end()
        return self.namespace.stat(name)


@contextlib.contextmanager
def refused(code: ErrorCode, **fields: Any) -> Iterator[pytest.ExceptionInfo[RefusedError]]:
    with pytest.raises(RefusedError) as caught:
        yield caught
    assert caught.value.code is code, caught.value
    assert {name: caught.value.fields[name] for name in fields} == fields


@contextlib.asynccontextmanager
async def running(
    root: Path, settings: Any = NO_IDLE_COPY, *, graceful: bool = True, time: Any = None, report: Any = print
) -> AsyncIterator[ObjectStore]:
    async with open_disk(root, create=True) as disk:
        store = await ObjectStore.open(disk, settings=settings, wall_clock=time or (lambda: 1000.0), report=report)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            await trio.testing.wait_all_tasks_blocked()
            yield store
            if graceful:
                await store.close()
            nursery.cancel_scope.cancel()


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
