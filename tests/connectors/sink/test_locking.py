"""The files of a sink, and a relay's spool, have one process at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from connectors.sink.locking import locked
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


async def test_whoever_comes_next_waits_for_one_that_is_ending(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Systemd, or a driver that is started again at once, is quicker than a relay that lets its clients go."""
    async with trio.open_nursery() as nursery:

        async def end_soon(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with locked(tmp_path / "spool", "the spool"):
                task_status.started()
                await trio.sleep(3)

        await nursery.start(end_soon)
        async with locked(tmp_path / "spool", "the spool"):
            assert 3 <= trio.current_time() < 4


async def test_whoever_stays_is_not_waited_for_longer(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with locked(tmp_path / "spool", "the spool"):
        with pytest.raises(SettingsError, match="the spool is in use by another process"):
            async with locked(tmp_path / "spool", "the spool"):
                pass
        assert 15 <= trio.current_time() < 20
