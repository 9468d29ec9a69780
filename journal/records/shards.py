"""Volumes that are spread over several journals: what each shard is called, and which one has a path. Pure.

Belongs here: the two rules that all clients, in Python and in Java, must agree on. docs/decisions/1701 gives the
reasons. Shard I of N of the volume `payments` is a volume of its own, `payments.shard-I-of-N`: the names are the map,
and nothing else needs to be read, kept or compared.

What lies in `state/OPERATOR/PARTITION` of a checkpoint is in shard (OPERATOR + PARTITION) mod N, all else in shard 0.
The rule does not look at what stands before `state`: a checkpoint that is moved to another path stays in its shards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, refused
from journal.records.paths import is_within
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from journal.volume import MarkValue

SHARDS_MAX: Final = 64  # a service each; beyond that, the one with the offsets is what bounds a query
HOME: Final = 0  # the shard that has all but the partitions' state, and with it decides what there is

_TOKEN: Final = "spread_change"
_PATHS: Final = ("spread_path", "spread_to")
_PIECE_CHARACTERS: Final = 200  # of a path, in one value of a mark, whose texts are bounded

_SHARD_NAME: Final = re.compile(r"(.+)\.shard-(0|[1-9]\d?)-of-([1-9]\d?)", re.ASCII)
_OPERATOR: Final = re.compile(r"(?:.*/)?(state/\d{1,9})", re.ASCII | re.DOTALL)
_PARTITION: Final = re.compile(r"(?:^|/)(state/(\d{1,9}))/(\d{1,9})(?=/|$)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of the journals of a volume that is spread."""

    volume: str
    index: int
    count: int

    @property
    def name(self) -> str:
        """Of the volume that it is by itself, on the servers and for services."""
        return f"{self.volume}.shard-{self.index}-of-{self.count}"


def shards_of(volume: str, count: int) -> tuple[Shard, ...]:
    """All of them. BAD_REQUEST for an impossible number or a name that is a shard's, BAD_NAME for one too long."""
    if not 2 <= count <= SHARDS_MAX:
        raise refused(JournalCode.BAD_REQUEST, f"a volume can be spread over 2 to {SHARDS_MAX} shards, not {count}")
    if parse_shard(volume) is not None:
        raise refused(JournalCode.BAD_REQUEST, f"{volume} is the name of a shard: it cannot have shards of its own")
    shards = tuple(Shard(volume=volume, index=index, count=count) for index in range(count))
    for shard in shards:
        check_name(shard.name)
    return shards


def parse_shard(name: str) -> Shard | None:
    """The shard that a volume of this name is; None if it is a volume by itself."""
    match = _SHARD_NAME.fullmatch(name)
    if match is None or not int(match[2]) < int(match[3]) or not 2 <= int(match[3]) <= SHARDS_MAX:
        return None
    return Shard(volume=match[1], index=int(match[2]), count=int(match[3]))


def shard_of(path: str, count: int) -> int:
    """The shard that has this path. Of a directory above partitions it is HOME, which says that it exists."""
    match = _PARTITION.search(path)
    return HOME if match is None else (int(match[2]) + int(match[3])) % count


def is_in_partition(path: str) -> bool:
    """Whether a path is a partition's directory or lies in one: it is in one shard with all that lies below it."""
    return _PARTITION.search(path) is not None


def operator_directory(path: str) -> str:
    """Of a path in a partition: the directory above the partition, which HOME must have."""
    match = _PARTITION.search(path)
    assert match is not None
    return path[: match.end(1)]


def query_of_partition(path: str) -> tuple[str, str]:
    """Of a path in a partition: the checkpoint, and the path inside it."""
    match = _PARTITION.search(path)
    assert match is not None
    return path[: match.start()], path[match.start(1) :]


def has_partitions_of_all(path: str) -> bool:
    """Whether a path's children may lie in several shards: `state/OPERATOR` of a checkpoint."""
    return _OPERATOR.fullmatch(path) is not None and not is_in_partition(path)


def moves_within_shards(source: str, target: str, count: int) -> bool:
    """Whether whatever lies at or below `source` has its shard also when that is called `target`."""
    if is_in_partition(source) or is_in_partition(target):
        both = is_in_partition(source) and is_in_partition(target)
        return both and shard_of(source, count) == shard_of(target, count)
    return _open_end(source) == _open_end(target)


def _open_end(path: str) -> str:
    """What of a partition's path a directory above partitions ends with: its children's shards depend on it."""
    match = _OPERATOR.fullmatch(path)
    if match is not None:
        return match[1]
    return "state" if path == "state" or path.endswith("/state") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadChange:
    """A change that several shards make one after the other, as the mark tells that each of them has before it.

    Between two of them that concern a checkpoint, what HOME has of it belongs to what the others have.
    """

    token: str  # the same in all shards
    paths: tuple[str, ...]  # a rename's source first

    def values(self) -> dict[str, MarkValue]:
        """The mark: long paths are in pieces there."""
        found: dict[str, MarkValue] = {_TOKEN: self.token}
        for name, path in zip(_PATHS, self.paths, strict=False):
            shown = f"/{path}"
            for at in range(0, len(shown), _PIECE_CHARACTERS):
                found[f"{name}.{at // _PIECE_CHARACTERS}"] = shown[at : at + _PIECE_CHARACTERS]
        return found

    @classmethod
    def read(cls, values: Mapping[str, MarkValue]) -> SpreadChange | None:
        """From a mark; None if it is another one."""
        token = values.get(_TOKEN)
        if not isinstance(token, str):
            return None
        paths = []
        for name in _PATHS:
            pieces = [str(values.get(f"{name}.{at}", "")) for at in range(len(values))]
            if pieces[0]:
                paths.append("".join(pieces)[1:])
        return cls(token=token, paths=tuple(paths))

    def concerns(self, path: str) -> bool:
        """Whether what lies at or above the path, or below it, is changed."""
        return any(is_within(path, one) or is_within(one, path) for one in self.paths)
