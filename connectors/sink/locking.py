"""One process for one directory or file."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold PATH.lock. SettingsError when another process has it, or it cannot be made. Who is killed holds nothing."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SettingsError(f"{what}: {lock} cannot be made: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(f"{what} is in use by another process") from None
        yield
    finally:
        os.close(handle)
