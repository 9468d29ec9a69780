"""One object's file cannot be written: that object takes no more appends, every other one goes on, nothing is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
from typing import TYPE_CHECKING

import pytest
import trio

from journal.disk.disk import FileWrite, RealDisk, open_disk
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.objects.object_files import path_of
from sos_server.store.object_store import RETRY_SECONDS, ObjectStore
from tests.sos_server.real_store import Client, refused, running
from tests.sos_server.store_world import SMALL, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from sos_server.store.namespace import Namespace
    from sos_server.store.settings import StoreSettings

SETTINGS = dataclasses.replace(SMALL, idle_copy_seconds=3600.0, log_bytes_max=16 << 20)


class DiskWithBadFile(RealDisk):
    """Writing one of its files fails; all else works."""

    bad_path: str | None = None
    error = errno.EIO

    async def write_files(self, writes: Sequence[FileWrite]) -> list[OSError | None]:
        answers = await super().write_files([write for write in writes if write.path != self.bad_path])
        return [OSError(self.error, "made up") if write.path == self.bad_path else answers.pop(0) for write in writes]


async def put_both(store: ObjectStore, rounds: range) -> None:
    namespace = await store.namespace("n", create=True)
    for number in rounds:
        for name in ("bad", "good"):
            if name == "good" or number < 2:
                await Client(namespace).put(name, bytes([number]) * 100_000, number * 100_000)


async def put_for_ever(namespace: Namespace) -> None:
    for number in itertools.count(2):
        await Client(namespace).put("good", bytes(100_000), number * 100_000)


def content(rounds: int) -> bytes:
    return b"".join(bytes([number]) * 100_000 for number in range(rounds))


@contextlib.asynccontextmanager
async def failing(
    tmp_path: Path, settings: StoreSettings = SETTINGS, error: int = errno.EIO, report: Callable[[str], None] = print
) -> AsyncIterator[tuple[ObjectStore, Namespace, DiskWithBadFile]]:
    """A store with an object `bad`, whose file cannot be written, and an object `good`; killed at the end."""
    async with open_disk(tmp_path / "r", create=True) as real:
        disk = DiskWithBadFile(real._root)
        disk.error = error
        store = await ObjectStore.open(disk, settings=settings, wall_clock=lambda: 0.0, report=report)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            await put_both(store, range(2))
            namespace = await store.namespace("n", create=False)
            disk.bad_path = path_of(namespace._stored.objects["bad"].number)
            yield store, namespace, disk
            nursery.cancel_scope.cancel()
        await disk.close()
        real._root = -1


async def check_after_a_restart(tmp_path: Path) -> None:
    """All of the object is there, and it takes appends again."""
    async with running(tmp_path / "r", SETTINGS) as store:
        namespace = await store.namespace("n", create=False)
        assert await read_all(namespace, "bad") == content(2)
        await store.copy_everything()
        await Client(namespace).put("bad", b"more", 200_000)


async def test_an_object_that_cannot_be_written_holds_up_no_other(tmp_path: Path) -> None:
    async with failing(tmp_path) as (store, namespace, _):
        for rounds in (2, 20, 38):
            await put_both(store, range(rounds, rounds + 18))
            await store.copy_everything()
            assert await read_all(namespace, "good") == content(rounds + 18)
            assert await read_all(namespace, "bad") == content(2)
        with refused(ErrorCode.IO_ERROR, reason="made up"):
            await Client(namespace).start("bad", 200_000)
        assert store.statistics.failed_copies == 1
    async with running(tmp_path / "r", SETTINGS) as store:
        assert await read_all(await store.namespace("n", create=False), "good") == content(56)
    await check_after_a_restart(tmp_path)


async def test_an_object_that_cannot_be_written_fills_the_log_and_no_more(tmp_path: Path) -> None:
    """What only the log has is never written over, however much comes after it; and everybody is told why, once."""
    reports: list[str] = []
    settings = dataclasses.replace(SETTINGS, log_bytes_max=2 << 20)
    async with failing(tmp_path, settings, report=reports.append) as (store, namespace, _):
        with trio.fail_after(60), pytest.raises(RefusedError) as caught:
            await put_for_ever(namespace)
        assert caught.value.code is ErrorCode.IO_ERROR
        assert "keep all of the commit log" in caught.value.message
        with trio.fail_after(60):
            while not store.space.full:  # noqa: ASYNC110
                await trio.sleep(0.01)
        with refused(ErrorCode.IO_ERROR):
            await Client(namespace).start("another", 0)
        await trio.sleep(1.5 * RETRY_SECONDS)
        assert sum("cannot be written (made up)" in line for line in reports) == 1
        assert sum("cannot be copied" in line for line in reports) == 1
        assert store.log.files.bytes_total <= settings.log_bytes_max
        assert await read_all(namespace, "bad") == content(2)
    await check_after_a_restart(tmp_path)


async def test_want_of_handles_passes(tmp_path: Path) -> None:
    async with failing(tmp_path, error=errno.EMFILE) as (store, namespace, disk):
        await store.copy_everything()
        assert namespace._stored.objects["bad"].copied == 0
        disk.bad_path = None
        await store.copy_everything()
        assert namespace._stored.objects["bad"].copied == 200_000
