"""Deliberate mistakes: for each rule of decisions 1701 and 1702 one that breaks it. Exploring must find a violation.

Each replaces a small function of the real code.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

from journal.gateway.client import sharded_volume
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.records.shards import HOME, shard_of
from journal.shards import whole_reader
from journal.shards.cut import cut_of, era_of

if TYPE_CHECKING:
    from journal.copies.volume_reader import VolumeReader
    from journal.image.image import Image
    from journal.records.record import Lsn
    from journal.shards.cut import Era
    from journal.volume import OperationId, PathClaim, Volume

Patch: TypeAlias = tuple[Any, str, Any]
"""(module or class, name, what takes its place)"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrongRule:
    """What is done wrong, where that shows, and how."""

    mistake: str
    scenario: str
    seen: str
    """A part of what the violation says."""
    patches: tuple[Patch, ...]


# ── where the cut is ──────────────────────────────────────────────────────────────────────────────────────────────


async def _end_of_log(reader: VolumeReader, era: Era) -> Lsn:
    del era
    return reader.acknowledged_lsn


async def _one_version_less(reader: VolumeReader, era: Era) -> Lsn:
    return await cut_of(reader, dataclasses.replace(era, batch=era.batch - 1))


async def _one_version_more(reader: VolumeReader, era: Era) -> Lsn:
    return await cut_of(reader, dataclasses.replace(era, batch=era.batch + 1))


async def _no_era(home: VolumeReader, image: Image, path: str, batch: int) -> Era:
    return dataclasses.replace(await era_of(home, image, path, batch), after=None, before=None)


async def _no_mark(self: ShardedVolume, *paths: str) -> None:
    del self, paths


# ── where things lie, and in which order they are done ────────────────────────────────────────────────────────────


async def _straight_to_the_shard(self: ShardedVolume, path: str, claim: PathClaim | None) -> Volume:
    del claim
    return self.volumes[shard_of(path, len(self.volumes))]


def _everything_moves(source: str, target: str, count: int) -> bool:
    del source, target, count
    return True


def _next_shard(path: str, count: int) -> int:
    found = shard_of(path, count)
    return found if found == HOME else HOME


async def _home_is_deleted_first(self: ShardedVolume, path: str, claim: PathClaim | None) -> None:
    home = self.volumes[HOME]
    await self._mark(path)
    await home.delete(path, recursive=True, operation=self.new_operation(), claim=claim)
    for volume in self.volumes[HOME + 1 :]:
        await volume.delete(path, recursive=True, operation=self.new_operation(), claim=claim)


async def _home_is_renamed_first(
    self: ShardedVolume, source: str, target: str, operation: OperationId, claim: PathClaim | None
) -> None:
    await self._mark(source, target)
    await self.volumes[HOME].rename(source, target, overwrite=False, operation=operation, claim=claim)
    for volume in self.volumes[HOME + 1 :]:
        if await self._found(volume, source) is not None:
            await self._move(volume, source, target, claim)


async def _what_was_left_stays(self: ShardedVolume, path: str, claim: PathClaim | None) -> bool:
    del self, path, claim
    return False


# ── claims ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _claimed_at_home_alone(self: ShardedVolume, path: str, claim: PathClaim, *, operation: OperationId) -> None:
    await self.volumes[HOME].claim(path, claim, operation=operation)


async def _claimed_elsewhere_alone(self: ShardedVolume, path: str, claim: PathClaim, *, operation: OperationId) -> None:
    del operation
    for volume in self.volumes[HOME + 1 :]:
        await volume.claim(path, claim, operation=self.new_operation())


async def _claims_of_the_last_shard(self: ShardedVolume) -> Any:
    return await self.volumes[-1].claims()


WRONG_RULES = [
    WrongRule(
        mistake="the cut is HOME's alone: the others are as of their end",
        scenario="drivers",
        seen="are not as at its commit",
        patches=((whole_reader, "cut_of", _end_of_log),),
    ),
    WrongRule(
        mistake="the cut is before the version that the batch needs",
        scenario="drivers",
        seen="are not as at its commit",
        patches=((whole_reader, "cut_of", _one_version_less),),
    ),
    WrongRule(
        mistake="the cut is one version too late",
        scenario="drivers",
        seen="are not as at its commit",
        patches=((whole_reader, "cut_of", _one_version_more),),
    ),
    WrongRule(
        mistake="versions are looked for in the whole history, as if no checkpoint had ever begun again",
        scenario="rewind",
        seen="are not as at its commit",
        patches=((whole_reader, "era_of", _no_era),),
    ),
    WrongRule(
        mistake="no mark goes before a change of the whole checkpoint",
        scenario="rewind",
        seen="are not as at its commit",
        patches=((ShardedVolume, "_mark", _no_mark),),
    ),
    WrongRule(
        mistake="a file is put into its shard before HOME knows the directory",
        scenario="drivers",
        seen="HOME does not have its directory",
        patches=((ShardedVolume, "_to_write", _straight_to_the_shard),),
    ),
    WrongRule(
        mistake="a client has another map: everything is at HOME",
        scenario="drivers",
        seen="lies in payments.shard-0-of-2",
        patches=((sharded_volume, "shard_of", _next_shard),),
    ),
    WrongRule(
        mistake="a rename crosses shards",
        scenario="moves",
        seen="lies in payments.shard-0-of-2",
        patches=((sharded_volume, "moves_within_shards", _everything_moves),),
    ),
    WrongRule(
        mistake="a recursive delete begins at HOME",
        scenario="delete",
        seen="are there again",
        patches=((ShardedVolume, "_delete_in_others", _home_is_deleted_first),),
    ),
    WrongRule(
        mistake="a rename of a directory begins at HOME",
        scenario="rewind",
        seen="belongs to application driver 1",
        patches=((ShardedVolume, "_rename_directory", _home_is_renamed_first),),
    ),
    WrongRule(
        mistake="what a fork that was cut short has left in a shard is never deleted",
        scenario="fork",
        seen="no listing shows",
        patches=((ShardedVolume, "_delete_left", _what_was_left_stays),),
    ),
    WrongRule(
        mistake="a claim is made at HOME alone",
        scenario="drivers",
        seen="after driver 2 has started",
        patches=((ShardedVolume, "claim", _claimed_at_home_alone),),
    ),
    WrongRule(
        mistake="a claim is made in the other shards, and not at HOME",
        scenario="drivers",
        seen="after driver 2 has started",
        patches=((ShardedVolume, "claim", _claimed_elsewhere_alone),),
    ),
    WrongRule(
        mistake="claims are looked up in another shard than HOME",
        scenario="claims",
        seen="belongs to application driver 2",
        patches=((ShardedVolume, "claims", _claims_of_the_last_shard),),
    ),
]
