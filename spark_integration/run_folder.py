"""The folder of one run beside a driver: its plan, its token, its key. Nothing of it is left when the run is over.

A run holds a lock on its folder as long as the driver or its companion lives. The companion removes the folder at the
end; what was left because both were killed is removed by the next run in the same directory.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PREFIX: Final = "run-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """`handle` is the open folder that has the lock, for the companion to inherit."""

    path: Path
    handle: int

    def close(self) -> None:
        """Let go of the lock; whoever inherited it still has it."""
        os.close(self.handle)


def begin_run(directory: Path) -> RunFolder:
    """A new folder in `directory`, which is made; what runs that were killed have left there is removed."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone_in(directory):
        for left in directory.glob(f"{_PREFIX}*"):
            _remove_if_over(left)
        path = directory / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        path.mkdir(mode=0o700)
        handle = os.open(path, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    return RunFolder(path=path, handle=handle)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """One at a time: between the folder and its lock nobody else may take it for a folder that was left."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_if_over(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    except BlockingIOError:
        return  # that run goes on
    finally:
        os.close(handle)
