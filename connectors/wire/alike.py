"""What lies at one distance: frames, or rows, of one size, one after the other. They are cut many by one call.

Pure. Whoever asks has seen two of one size, and looks at each of those that are found here once more.
"""

from __future__ import annotations

from typing import Final

TOGETHER: Final = 16
"""So many are cut by one call, and the fewest for which it is tried."""
ALIKE_BYTES_MAX: Final = 4096
"""Larger ones are too few for it to matter."""
TRY_AGAIN: Final = 64
"""After a try in vain so many are taken one by one: a try costs as much as some of them."""


def count_alike(data: bytes | memoryview, position: int, end: int, stride: int, begins: bytes) -> int:
    """How many that begin like this may lie here, `stride` bytes apart: all that fit, half of them, a quarter… or 0.

    A multiple of TOGETHER. Only the last one is looked at.
    """
    count = (end - position) // stride // TOGETHER * TOGETHER
    while count:
        last = position + (count - 1) * stride
        if data[last : last + len(begins)] == begins:
            return count
        count = count // 2 // TOGETHER * TOGETHER
    return 0
