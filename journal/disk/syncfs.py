"""syncfs(2), which Python does not have: all of a file system on the disk with one flush. Only `disk.py` uses it."""

from __future__ import annotations

import ctypes
import os
from typing import Final

# Before Linux 5.8 syncfs said nothing of failed writes.
REPORTS_ERRORS_SINCE: Final = (5, 8)


def _reports_errors() -> bool:
    system = os.uname()
    major, minor, *_ = (*system.release.split("."), "0")
    return (
        system.sysname == "Linux"
        and major.isdigit()
        and minor.isdigit()
        and (int(major), int(minor)) >= REPORTS_ERRORS_SINCE
    )


_library: Final = ctypes.CDLL(None, use_errno=True)
_syncfs: Final = getattr(_library, "syncfs", None) if _reports_errors() else None


def sync_file_system(descriptor: int) -> bool:
    """Whether all that was written to the file system of `descriptor` is on the disk, its names included.

    False says nothing about any one file: it may have failed for a file of someone else, or not exist here.
    """
    return _syncfs is not None and _syncfs(descriptor) == 0
