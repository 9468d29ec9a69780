"""One process for one directory or file."""

from __future__ import annotations

import fcntl
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from sos_client.serving.running import PREDECESSOR_PAUSE_SECONDS, PREDECESSOR_SECONDS
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def locked(path: Path, what: str) -> AsyncIterator[None]:
    """Hold PATH.lock. SettingsError when it cannot be made, or after 15 s in which another process had it.

    Who is killed holds nothing.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SettingsError(f"{what}: {lock} cannot be made: {error.strerror}") from error
    try:
        await _lock(handle, what)
        yield
    finally:
        os.close(handle)


async def _lock(handle: int, what: str) -> None:
    give_up_at = trio.current_time() + PREDECESSOR_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if trio.current_time() >= give_up_at:
                raise SettingsError(f"{what} is in use by another process") from None
        else:
            return
        await trio.sleep(PREDECESSOR_PAUSE_SECONDS)
