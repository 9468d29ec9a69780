"""The bytes of extents, from the first copy that has them whole. What is not whole is never returned.

Belongs here: what it means when no copy has them, and reading many files at little cost: extents that lie near each
other in one object are fetched as one range. A checkpoint of 50,000 files of 20 KiB is 1 GiB in 16 segments; file by
file it costs 50,000 round trips, in ranges some 260.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from journal.errors import DamagedJournalError, JournalCode, JournalError, UnavailableError, damaged
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from journal.copies.copies import Copy
    from journal.image.nodes import Extent

RANGE_BYTES_MAX: Final = 4 * 1024 * 1024
GAP_BYTES_MAX: Final = 64 * 1024  # what lies between two extents and is thrown away: less than a round trip's worth

Key = TypeVar("Key")


def is_whole(extent: Extent, data: bytes) -> bool:
    """Whether these are the extent's bytes."""
    return len(data) == extent.length and crc32c(data) == extent.crc


async def read_extent(extent: Extent, copies: Iterable[Copy], *, not_asked: Iterable[str] = ()) -> bytes:
    """The extent's bytes from whichever copy has them whole.

    UNAVAILABLE while a copy does not answer that may have them (`not_asked`: labels of such that could not even be
    asked), else DAMAGED (there are other bytes) or LOST: damage at one place is not the last word on all of them.
    """
    trouble: JournalError | None = None
    unasked, silent = list(not_asked), []
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
    if unasked or silent:
        what = f" ({trouble.message})" if trouble else ""
        asked = (("not asked", unasked), ("no answer from", silent))
        who = [f"; {said}: {', '.join(labels)}" for said, labels in asked if labels]
        message = f"no copy that answers now has {extent.object}{what}{''.join(who)}"
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


def group_extents(items: Iterable[tuple[Key, tuple[Extent, ...]]]) -> list[list[tuple[Key, tuple[Extent, ...]]]]:
    """Files in groups, each to be read as one range: those with one extent, by where they lie; all others alone."""
    every = list(items)
    alone = [item for item in every if len(item[1]) != 1]
    single = [item for item in every if len(item[1]) == 1]
    single.sort(key=lambda item: (item[1][0].object, item[1][0].offset))
    groups: list[list[tuple[Key, tuple[Extent, ...]]]] = []
    for item in single:
        if groups and _fits(groups[-1][0][1][0], groups[-1][-1][1][0], item[1][0]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups + [[item] for item in alone]


def _fits(first: Extent, last: Extent, extent: Extent) -> bool:
    return (
        extent.object == first.object
        and extent.offset - (last.offset + last.length) <= GAP_BYTES_MAX
        and extent.offset + extent.length - first.offset <= RANGE_BYTES_MAX
    )


async def read_group(copies: Sequence[Copy], extents: list[Extent], *, not_asked: Sequence[str] = ()) -> list[bytes]:
    """The bytes of extents of one group, each checked; what the first copy has not whole comes from another."""
    start, end = extents[0].offset, max(extent.offset + extent.length for extent in extents)
    try:
        data = memoryview(await copies[0].read(extents[0].object, start, end - start))
    except JournalError:
        data = memoryview(b"")
    pieces = []
    for extent in extents:
        piece = bytes(data[extent.offset - start : extent.offset - start + extent.length])
        if not is_whole(extent, piece):
            piece = await read_extent(extent, copies, not_asked=not_asked)
        pieces.append(piece)
    return pieces
