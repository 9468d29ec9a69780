"""The local copy of a volume has one owner at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from journal.copies.local_log import open_local_log
from journal.errors import JournalCode, UnavailableError
from sos_client.serving.event_log import EventLog

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


async def test_whoever_comes_next_waits_for_one_that_is_ending(tmp_path: Path) -> None:
    """A driver that is started again at once finds the service of the one before, which gives its volume back first."""
    async with trio.open_nursery() as nursery:

        async def end_soon(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with open_local_log(tmp_path, "v", EventLog()):
                task_status.started()
                await trio.sleep(0.3)

        await nursery.start(end_soon)
        began = trio.current_time()
        async with open_local_log(tmp_path, "v", EventLog()):
            assert trio.current_time() - began >= 0.2


async def test_whoever_stays_is_not_waited_for_longer(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_local_log(tmp_path, "v", EventLog()):
        with pytest.raises(UnavailableError, match="another process uses the local copy of volume v") as refused:
            async with open_local_log(tmp_path, "v", EventLog()):
                pass
        assert refused.value.code is JournalCode.LOCKED
        assert 15 <= trio.current_time() < 20


async def test_a_hole_is_not_content_and_zeros_among_others_are(tmp_path: Path) -> None:
    """What was fetched lies where it lay in its object, in a file that has holes, whose zeros nobody wrote."""
    async with open_local_log(tmp_path, "v", EventLog()) as local:
        content = bytes(70_000) + b"x" + bytes(70_000)
        await local.keep("segment", 200_000, content)
        assert await local.read("segment", 200_000, len(content)) == content
        assert await local.read("segment", 0, 150_000) == b""
        assert await local.read("segment", 200_000, 70_000) == b"", "zeros that may be a hole are fetched again"
        assert await local.read("segment", 200_000, len(content) + 1) == b"", "it ends before"
