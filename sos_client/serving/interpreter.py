"""How the Python interpreter is asked to behave: when threads take turns, when garbage is looked for."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH_SECONDS: Final = 0.0002
"""Each system call of the event loop gives the interpreter away for a moment. A thread that makes an index snapshot
takes it, and keeps it for this long: with Python's 5 ms nearly every request would wait for it. A thread that is back
from the disk waits this long for a busy event loop: with 5 ms, a server that copied its log was a quarter slower to
take 64 appends in flight on one connection."""

COLLECTIONS: Final = (5_000, 20, 100)
"""With 100,000 small files written as many objects live on, most of them parts of the log's tail, and looking through
all of them takes 20 to 30 ms. While 64 clients put files, collecting garbage took 2 % of the service's processor time
with Python's thresholds, and takes 1 % with these."""


@contextmanager
def without_collecting() -> Iterator[None]:
    """Look for no garbage in the block: for much that is made at once and stays, that takes a tenth of the time."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


def tune_for_serving() -> None:
    """For the whole process, from now on."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECTIONS)
