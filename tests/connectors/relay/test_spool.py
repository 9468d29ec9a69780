"""What is staged on a relay's disk: its bytes are counted, and what nobody needs any more is deleted."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio

from connectors.relay.spool import UNTOUCHED_SECONDS, Spool
from journal.errors import JournalCode, JournalError

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("q", "7", "run", "0-1")


async def stage(spool: Spool, *components: str, size: int = 1000) -> None:
    write = spool.begin(components)
    await write.write(b"x" * size)
    await write.commit()


def files_in(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file())


def grow_old(place: Path) -> None:
    long_ago = time.time() - UNTOUCHED_SECONDS - 60
    for each in (place, *place.rglob("*")):
        os.utime(each, (long_ago, long_ago))


async def test_a_file_replaces_the_one_before_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=10_000)
    await stage(spool, *PLACE)
    await stage(spool, *PLACE, size=10)
    assert (spool.bytes, spool.size(PLACE)) == (10, 10)
    assert Spool(tmp_path, bytes_max=10_000).bytes == 10


async def test_a_file_that_cannot_be_put_in_its_place_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spool = Spool(tmp_path, bytes_max=10_000)
    monkeypatch.setattr("pathlib.Path.replace", no_room)
    with pytest.raises(JournalError) as error:
        await stage(spool, *PLACE)
    assert error.value.code is JournalCode.NO_SPACE
    assert (spool.bytes, files_in(tmp_path)) == (0, [])


async def test_a_file_that_is_given_up_at_its_end_takes_no_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=10_000)
    write = spool.begin(PLACE)
    await write.write(b"x" * 1000)
    with trio.CancelScope() as scope:
        scope.cancel()
        await write.commit()
    assert (spool.bytes, files_in(tmp_path)) == (0, [])


async def test_only_what_is_not_after_a_batch_is_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=10_000)
    for batch in (7, 8, 10):
        await stage(spool, "q", str(batch), "run", "p")
    await stage(spool, "other", "1", "run", "p")
    await spool.delete_until("q", 8)
    assert files_in(tmp_path) == ["other/1/run/p", "q/10/run/p"]
    await spool.delete_query("q")
    await spool.delete_query("q")
    assert (files_in(tmp_path), spool.bytes) == (["other/1/run/p"], 1000)


async def test_a_query_that_never_came_back_is_deleted_at_the_next_start(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=10_000)
    for query in ("gone", "back"):
        await stage(spool, query, "7", "run", "p")
        grow_old(tmp_path / query)
    os.utime(tmp_path / "back/7/run/p")
    assert Spool(tmp_path, bytes_max=10_000).bytes == 1000
    assert files_in(tmp_path) == ["back/7/run/p"]
