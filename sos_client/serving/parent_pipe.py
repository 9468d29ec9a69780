"""Ending with the process that started this one: it holds the other end of a pipe, and the pipe ends when it does.

Works however the parent ends, also by SIGKILL. No other process may inherit the parent's end.
"""

from __future__ import annotations

import os
import stat

import trio

from sos_client.settings import SettingsError

_READ_BYTES = 4096


def check_pipe(handle: int) -> None:
    """SettingsError unless this inherited handle is a pipe (or a socket) that can be waited for."""
    try:
        mode = os.fstat(handle).st_mode
    except OSError as error:
        raise SettingsError(f"--exit-with-fd {handle}: {error.strerror}: the parent must pass it on") from error
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        raise SettingsError(f"--exit-with-fd {handle}: must be the reading end of a pipe")
    os.set_inheritable(handle, False)  # noqa: FBT003


async def parent_gone(handle: int) -> None:
    """Return when every holder of the pipe's other end has closed it or ended. Takes the handle over."""
    async with trio.lowlevel.FdStream(handle) as pipe:
        try:
            while await pipe.receive_some(_READ_BYTES):
                pass  # what a parent writes means nothing
        except trio.BrokenResourceError:
            return
