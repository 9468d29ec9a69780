"""Ending with the parent: what is a pipe, and when it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from sos_client.serving.parent_pipe import check_pipe, parent_gone
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_end_of_the_pipe_is_the_end_of_the_wait() -> None:
    reading, writing = os.pipe()
    check_pipe(reading)
    gone = trio.Event()

    async def wait() -> None:
        await parent_gone(reading)
        gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        os.write(writing, b"still here")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not gone.is_set()
        os.close(writing)
        with trio.fail_after(300):
            await gone.wait()


def test_only_pipes_are_accepted(tmp_path: Path) -> None:
    handle = os.open(tmp_path / "file", os.O_RDONLY | os.O_CREAT)
    with pytest.raises(SettingsError, match="must be the reading end of a pipe"):
        check_pipe(handle)
    os.close(handle)
    with pytest.raises(SettingsError, match="the parent must pass it on"):
        check_pipe(handle)
