"""Reading a volume of several shards as one: images and content of all of them, by HOME's moments.

Belongs here: joining what single readers give. What of a shard belongs to a batch, cut.py says.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import trio

from journal.copies.backups import check_moment
from journal.copies.volume_reader import VolumeReader
from journal.errors import JournalCode, refused
from journal.image import nodes
from journal.records.moments import AtBatch, AtLsn
from journal.records.paths import parent_of
from journal.records.record import Kind, Lsn
from journal.records.shards import HOME, is_in_partition, operator_directory, shard_of
from journal.shards.cut import cut_of, era_of, state_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from journal.checkpoint.batches import Batch
    from journal.image.image import Image
    from journal.image.nodes import Extent
    from journal.records.moments import Moment
    from journal.records.shards import Shard

_KNOWN_SECONDS_MAX: Final = 3.0
"""How long after a burst it takes at most until the log itself says that the last record was acknowledged."""
_LOOK_AGAIN_SECONDS: Final = 0.1


class WholeReader(VolumeReader):
    """HOME's reader, whose images and files are those of all shards; its records, LSNs and copies are HOME's alone."""

    def __init__(self, shards: Sequence[Shard], readers: Sequence[VolumeReader]) -> None:
        """`readers` in the order of the shards, and opened in it: what HOME refers to, the others then have."""
        super().__init__(shards[HOME].volume, readers[HOME].copies)
        self.chain, self.problems = readers[HOME].chain, readers[HOME].problems
        self.readers = tuple(readers)
        self._cuts: WeakKeyDictionary[Image, Mapping[str, int]] = WeakKeyDictionary()

    @property
    def journals(self) -> Sequence[VolumeReader]:
        return self.readers

    async def refresh(self) -> None:
        for reader in self.readers:
            await reader.refresh()
        self.chain, self.problems = self.readers[HOME].chain, self.readers[HOME].problems

    def moments_of(self, image: Image) -> Mapping[str, int]:
        """What an image has been read at, in each shard."""
        return self._cuts[image]

    async def image(self, moment: Moment, *, path: str = "") -> Image:
        """As a reader's; of a time, each shard is seen as of its own clock. BAD_REQUEST for an LSN: each has others."""
        if isinstance(moment, AtLsn):
            message = f"an LSN is of one journal, and {self.volume} has {len(self.readers)}: say batch:N or a time"
            raise refused(JournalCode.BAD_REQUEST, message)
        image = await super().image(moment, path=path)
        era = await era_of(self, image, path, moment.batch) if isinstance(moment, AtBatch) else None
        cuts: dict[str, int] = {self.readers[HOME].volume: image.lsn}
        for reader in self.readers[HOME + 1 :]:
            lsn = await reader.lsn_of(moment) if era is None else await cut_of(reader, era)
            await check_moment(reader, moment, lsn)
            cuts[reader.volume] = lsn
        return await self._joined(image, cuts)

    async def image_of(self, cuts: Mapping[str, int]) -> Image:
        """As of what `moments_of` has said of another image."""
        return await self._joined(await self.image_at(Lsn(cuts[self.readers[HOME].volume])), cuts)

    async def _joined(self, image: Image, cuts: Mapping[str, int]) -> Image:
        """HOME's image, with what the others have of partitions."""
        known = {self.readers[HOME].volume: int(image.lsn)}
        for index, reader in enumerate(self.readers):
            if index != HOME:
                part = await reader.image_at(Lsn(cuts[reader.volume]))
                known[reader.volume] = part.lsn
                _join(image, part, index, len(self.readers))
        self._cuts[image] = known
        return image

    async def count_state(self, batches: Sequence[Batch], moments: Mapping[str, int] | None = None) -> None:
        """Add the state files that the other shards have of these batches, whose records are HOME's.

        `moments`: only what was there then.
        """
        ends = moments or {}
        by_version = {(batch.query, batch.number + 1): batch for batch in batches if batch.committed_lsn is not None}
        paths: dict[tuple[str, int], set[str]] = {}
        for index, reader in enumerate(self.readers):
            if index != HOME:
                async for query, state in state_files(reader, ends.get(reader.volume, reader.acknowledged_lsn)):
                    if (query, state.version) in by_version:
                        paths.setdefault((query, state.version), set()).add(state.path)
        for key, found in paths.items():
            by_version[key].state_files += len(found)
            by_version[key].state_versions = key[1]

    async def read_extent(self, extent: Extent) -> bytes:
        for reader in self.readers:
            if extent.object in reader.chain.names:
                return await reader.read_extent(extent)
        return await super().read_extent(extent)

    async def read_group(self, extents: list[Extent]) -> list[bytes]:
        for reader in self.readers:
            if extents[0].object in reader.chain.names:
                return await VolumeReader.read_group(reader, extents)
        return await super().read_group(extents)


async def settle(reader: VolumeReader) -> None:
    """Wait until the log itself says that its files are acknowledged: its owner, if it lives, writes that soon."""
    end = max((end.lsn for end in reader.chain.ends.values()), default=reader.acknowledged_lsn)
    with trio.move_on_after(_KNOWN_SECONDS_MAX):
        while await _has_more(reader, end):
            await trio.sleep(_LOOK_AGAIN_SECONDS)
            await reader.refresh()


async def _has_more(reader: VolumeReader, end: int) -> bool:
    """Whether anything that files rest on lies between what is known to be acknowledged and this end."""
    if reader.acknowledged_lsn >= end:
        return False
    async with aclosing(reader.records(reader.acknowledged_lsn, end)) as records:
        return any([record.header.kind not in (Kind.MARK, Kind.HEADER) async for record in records])


def _join(image: Image, part: Image, index: int, count: int) -> None:
    """Add a shard's own partitions, where HOME has the directory that leads to them."""
    tree, first = image.tree, len(image.tree.objects)
    tree.objects += part.tree.objects
    tree.live_bytes += [0] * len(part.tree.objects)
    times: dict[str, int] = {}
    for status in part.tree.walk():
        path = status.path
        if not is_in_partition(path) or shard_of(path, count) != index:
            continue
        if tree.find(operator_directory(path)) is None:
            continue
        if status.is_directory:
            tree.make_directories(path, time_ms=status.modified_ms)
            times[path] = status.modified_ms
            continue
        extents = b"".join(
            nodes.pack_extent(first + number, offset, length, crc)
            for number, offset, length, crc in nodes.extents_of(part.tree.file(path))
        )
        time_ms = times.get(parent_of(path), status.modified_ms)
        tree.publish(path, nodes.pack_file(status.modified_ms, extents), time_ms=time_ms)
        tree.count(extents, +1)
