"""Random histories on a volume and on its model: each outcome must be the same, and the tree at the end."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING, ClassVar

import pytest

from journal.errors import JournalError
from journal.volume import OperationId, PathClaim
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.volume import Volume

OLD = PathClaim(application="app-old", start_time=1000)
NEW = PathClaim(application="app-new", start_time=2000)

Change = tuple[str, tuple[object, ...]]
"""What is done; with what: path, other path, flag, claim, bytes, operation."""

_client = os.urandom(16)
_sequence = itertools.count(1)


def operation() -> OperationId:
    """A new operation id."""
    return OperationId(client=_client, sequence=next(_sequence))


async def content(volume: Volume, path: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in volume.read(path, offset, length)])


class ModelContract:
    paths: ClassVar[Sequence[str]] = ["a", "b", "a/x", "a/y", "b/x", "a/x/deep", "b/x/deep/er", ""]

    def may_be_made(self, change: Change) -> bool:
        """What is refused here alone is left out."""
        del change
        return True

    @pytest.mark.parametrize("seed", range(4))
    async def test_any_history_is_as_in_the_model(self, volume: Volume, seed: int) -> None:
        chance = random.Random(seed)
        model = MemoryVolume()
        for _ in range(120):
            change = _random_change(chance, self.paths)
            if not self.may_be_made(change):
                continue
            assert await _outcome(change, volume) == await _outcome(change, model), change
        assert await _tree(volume, "") == await _tree(model, "")


_KINDS = ["put", "put", "put", "stream", "delete", "rename", "mkdirs", "stat", "list", "read", "claim", "append"]
_CLAIMS = [None, None, OLD, NEW]


def _random_change(chance: random.Random, paths: Sequence[str]) -> Change:
    kind = chance.choice(_KINDS)
    path, other = chance.choice(paths), chance.choice(paths)
    claim = chance.choice(_CLAIMS)
    if kind == "claim" and chance.random() < 0.7:
        kind = chance.choice(["put", "put", "put", "release"])
    return kind, (path, other, chance.random() < 0.5, claim, chance.randbytes(chance.randrange(30)), operation())


async def _outcome(change: Change, volume: Volume) -> object:
    try:
        return await _run(change, volume)
    except JournalError as error:
        return error.code


async def _run(change: Change, volume: Volume) -> object:
    kind, (path, other, flag, claim, data, op) = change
    assert isinstance(path, str)
    assert isinstance(other, str)
    assert isinstance(data, bytes)
    assert isinstance(op, OperationId)
    assert claim is None or isinstance(claim, PathClaim)
    sure = bool(flag)
    match kind:
        case "put":
            return (await volume.put(path, data, overwrite=sure, operation=op, claim=claim)).size
        case "stream":
            write = await volume.open_write(path, overwrite=sure, operation=op, claim=claim)
            await write.write(data)
            return (await write.commit()).size
        case "append":
            there = await volume.stat(path)
            modified_ms = there.modified_ms + (0 if sure else 1)
            data, size = data or b"x", there.size
            return (await volume.append(path, data, size=size, modified_ms=modified_ms, operation=op, claim=claim)).size
        case "delete":
            return await volume.delete(path, recursive=sure, operation=op, claim=claim)
        case "rename":
            await volume.rename(path, other, overwrite=sure, operation=op, claim=claim)
        case "mkdirs":
            await volume.mkdirs(path, operation=op, claim=claim)
        case "claim":
            await volume.claim("b", claim or OLD, operation=op)
        case "release":
            return await volume.release("b", claim or OLD, operation=op)
        case "stat":
            status = await volume.stat(path)
            return status.is_directory, status.size
        case "list":
            return [entry.path for entry in (await volume.list(path)).entries]
        case _:
            return await content(volume, path)
    return None


async def _tree(volume: Volume, path: str) -> dict[str, bytes | None]:
    tree: dict[str, bytes | None] = {}
    for entry in (await volume.list(path)).entries:
        if entry.is_directory:
            tree[entry.path] = None
            tree |= await _tree(volume, entry.path)
        else:
            tree[entry.path] = await content(volume, entry.path)
    return tree
