"""Which shards a volume has, by the names of what servers and directories have: there is no other list of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from journal.copies.volume_listing import find_volumes
from journal.disk.disk import open_disk
from journal.errors import JournalCode, refused
from journal.records.shards import HOME, Shard, parse_shard, shards_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from journal.records.settings import Surroundings


async def find_shards(
    volume: str, *, servers: Sequence[str], directory: Path | None, surroundings: Surroundings
) -> tuple[Shard, ...]:
    """The shards of a volume; none if it has none there. BAD_REQUEST if it has two sets of them."""
    names: set[str] = set()
    if directory is not None:
        with suppress(OSError):
            async with open_disk(directory) as disk:
                names |= set(await disk.list_directory(""))
    if servers:
        names |= {one.name for one in (await find_volumes(servers, surroundings)).volumes}
    return shards_among(volume, names)


def shards_among(volume: str, names: Iterable[str]) -> tuple[Shard, ...]:
    """The shards of a volume, whose HOME is among these names."""
    found = {shard for shard in map(parse_shard, names) if shard is not None and shard.volume == volume}
    counts = sorted(shard.count for shard in found if shard.index == HOME)
    if len(counts) > 1:
        sets = " and ".join(str(count) for count in counts)
        message = f"there are several volumes {volume}, of {sets} shards: drop the shards of one of them by their names"
        raise refused(JournalCode.BAD_REQUEST, message)
    return shards_of(volume, counts[0]) if counts else ()
