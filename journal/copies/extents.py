"""The bytes of an extent, from the first copy that has them whole. What is not whole is never returned.

Belongs here: what it means when no copy has them. Which copies there are, and what is read ahead, is the readers'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError, damaged
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from journal.copies.copies import Copy
    from journal.image.nodes import Extent


def is_whole(extent: Extent, data: bytes) -> bool:
    """Whether these are the extent's bytes."""
    return len(data) == extent.length and crc32c(data) == extent.crc


async def read_extent(extent: Extent, copies: Iterable[Copy], *, not_asked: Iterable[str] = ()) -> bytes:
    """The extent's bytes from whichever copy has them whole.

    UNAVAILABLE while a copy does not answer that may have them (`not_asked`: labels of such that could not even be
    asked), else DAMAGED (there are other bytes) or LOST: damage at one place is not the last word on all of them.
    """
    trouble: JournalError | None = None
    silent = list(not_asked)
    for copy in copies:
        try:
            data = await _read(copy, extent)
        except UnavailableError:
            silent.append(copy.label)
            continue
        except JournalError as error:
            trouble = trouble or error
            continue
        if is_whole(extent, data):
            return data
        if data:
            what = f"{copy.label} has damaged bytes in {extent.object} at offset {extent.offset}"
            trouble = damaged(what, object=extent.object)
    if silent:
        what = f" ({trouble.message})" if trouble else ""
        message = f"no copy that answers now has {extent.object}{what}; not asked: {', '.join(silent)}"
        raise UnavailableError(JournalCode.UNAVAILABLE, message)
    raise trouble or DamagedJournalError(JournalCode.LOST, f"LOST: no copy has {extent.object}", object=extent.object)


async def _read(copy: Copy, extent: Extent) -> bytes:
    """At once, as nearly always; where that is not whole, from what the server may have written again beside it."""
    try:
        data = await copy.read_at_once(extent.object, extent.offset, extent.length)
    except DamagedJournalError:
        data = b""
    if is_whole(extent, data):
        return data
    return await copy.read(extent.object, extent.offset, extent.length)
