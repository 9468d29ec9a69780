"""Spark's checkpoints in a tree, looked at through whatever gives paths and content: a service, a log, a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from journal.checkpoint.checks import Diagnosis, diagnose, wanted_contents
from journal.checkpoint.layout import LOG_BYTES_MAX, arrange, find_checkpoints
from journal.files.plain_directory import ContentSource, PlannedFile
from journal.records.shards import parse_shard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from journal.volume import FileStatus


class TreeView(ContentSource, Protocol):
    """A tree of files at one moment."""

    def walk(self, path: str) -> AsyncIterator[FileStatus]:
        """Everything at or below the path, parents first."""


async def diagnoses(view: TreeView, volume: str, path: str) -> dict[str, Diagnosis]:
    """Each checkpoint at or below a path of this volume, with what is wrong with it.

    Where the volume is a shard by its name, only the state that belongs there is missed.
    """
    shard = parse_shard(volume)
    statuses = [status async for status in view.walk(path) if not status.is_directory]
    found = {}
    for root in find_checkpoints(status.path for status in statuses):
        if "/state/" in f"/{root}/" or (path and not f"{root}/".startswith(f"{path}/")):
            continue
        checkpoint = arrange(root, statuses)
        wanted = [
            PlannedFile(status=checkpoint.files[name], relative=name)
            for name in wanted_contents(checkpoint)
            if checkpoint.files[name].size <= LOG_BYTES_MAX
        ]
        home = f"sos://{shard.volume if shard else volume}/{root}".removesuffix("/")
        found[root] = diagnose(checkpoint, await _contents(view, wanted), home=home, shard=shard)
    return found


async def _contents(view: TreeView, files: list[PlannedFile]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for group in view.groups(files):
        contents |= {file.relative: data for file, data in zip(group, await view.read_group(group), strict=True)}
    return contents
