"""`sos-journal fork`."""

from __future__ import annotations

import re
import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Final

import click

from journal.cli.importing import home_of, is_taken, note_moved, tree_text
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, at_option, moment_of, style_options
from journal.cli.pins import pinned
from journal.cli.views import (
    LogView,
    as_of_json,
    as_of_text,
    image_of,
    log_access,
    open_service,
    open_whole_log,
    warn_of_open_end,
)
from journal.errors import JournalCode, refused
from journal.files.moving_checkpoints import move_tree
from journal.files.tree_writing import NewFile, write_tree
from journal.gateway.client.operation_ids import OperationIds
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.owner.opening import open_journal
from journal.records.paths import SCRATCH_PREFIX, join
from journal.records.settings import JournalSettings
from journal.records.shards import SHARDS_MAX, shard_of, shards_of
from journal.takeover.volume_creation import create_shards, create_volume
from sos_client.command.output import note, print_json, progress, size_text
from sos_client.command.parameters import AddressList
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from journal.copies.volume_reader import VolumeReader
    from journal.records.location import Location
    from journal.volume import FileStatus, Volume

_SCRATCH: Final = re.compile(rf"{re.escape(SCRATCH_PREFIX)}[0-9a-f]{{8}}", re.ASCII)


@click.command()
@click.argument("source", type=LocationType(), metavar="SOURCE")
@click.argument("target", type=LocationType(), metavar="TARGET")
@click.option("--to-service", type=AddressList(), help="Services of the target's volume, if it is another one.")
@click.option("--shards", type=click.IntRange(2, SHARDS_MAX), help="Spread a new volume over this many journals.")
@click.option("--dry-run", is_flag=True, help="Print what would be written, and change nothing.")
@at_option
@style_options
@access_options
def fork(
    *,
    source: Location,
    target: Location,
    to_service: tuple[str, ...] | None,
    shards: int | None,
    dry_run: bool,
    at: str,
    style: Style,
    access: Access,
) -> None:
    """Make a new path from any moment of another.

    TARGET is in the volume of SOURCE, in another one (--to-service), or in a new one, which is made on the servers.
    Both are written sos://VOLUME/path; the source goes on undisturbed.

    The source is read from the log, the target is written through its service; it appears at once.

    \b
    sos-journal fork sos://payments/q1 sos://payments/q1-again --at batch:41
    sos-journal fork payments payments-test --at 1h --servers a:7400,b:7400,c:7400
    sos-journal fork payments sos://staging/payments --at 1h --to-service s:7420
    """
    if shards is not None and (to_service or target.volume == source.volume):
        raise refused(JournalCode.BAD_REQUEST, "--shards is for a volume that is made now: it has no service yet")
    run_async(_fork, (source, target), (to_service or (), shards), dry_run, at, style, access)


async def _fork(
    ends: tuple[Location, Location],
    made_or_served: tuple[tuple[str, ...], int | None],
    dry_run: bool,  # noqa: FBT001
    at: str,
    style: Style,
    access: Access,
) -> None:
    source, target = ends
    to_service, shard_count = made_or_served
    access = await log_access(access, source.volume)
    async with open_whole_log(access, source.volume) as reader:
        view = LogView(reader, await image_of(reader, moment_of(at, style), path=source.path))
        await warn_of_open_end(view, at)
        files = [new_file(view, status, source.path) async for status in view.walk(source.path)]
        for name in sorted({top for file in files if _SCRATCH.fullmatch(top := _top(file))}):
            note(f"left out: {name}, which an import or fork has written that did not come to its end")
        files = [file for file in files if not _SCRATCH.fullmatch(_top(file))]
        moved = await move_tree(files, home_of(target))
        note_moved(moved, target)
        files = list(moved.files)
        size = sum(file.size for file in files)
        summary: dict[str, object] = {"files": len(files), "bytes": size, "lsn": view.lsn, "target": str(target)}
        summary |= as_of_json(view.moments)
        summary |= {"read_from": view.read_from, "rewritten": moved.rewritten}
        if shard_count is not None:
            summary["shard_bytes"] = _bytes_by_shard(files, target.path, shard_count)
        if not dry_run:
            async with _opened(target, source, to_service, shard_count, access, reader) as volume:
                if await is_taken(volume, target.path):
                    raise refused(JournalCode.ALREADY_EXISTS, f"there is something at {target}; fork to a new path")
                wanted = [file for file in files if file.path or not file.is_directory]
                async with pinned(access, view.moments, verb="fork"):
                    with progress("forking", size) as bar:
                        await write_tree(
                            volume,
                            wanted,
                            target.path,
                            scratch=secrets.token_hex(4),
                            origin={"forked_from": source.volume, "lsn": view.image.lsn},
                            progress=bar.advance,
                        )
    if style.json:
        print_json(summary | {"dry_run": dry_run})
    else:
        verb = "would write" if dry_run else "forked"
        text = f"{verb} {tree_text(files)}, {size_text(size)}, as of {as_of_text(view.moments)}"
        click.echo(f"{text}, to {printable(str(target))}")
        for shard, shard_bytes in enumerate(_bytes_by_shard(files, target.path, shard_count) if shard_count else ()):
            click.echo(f"  shard {shard}: {size_text(shard_bytes)}")


def _bytes_by_shard(files: Sequence[NewFile], root: str, count: int) -> list[int]:
    found = [0] * count
    for file in files:
        found[shard_of(join(root, file.path), count)] += file.size
    return found


@asynccontextmanager
async def _opened(
    target: Location,
    source: Location,
    to_service: tuple[str, ...],
    shard_count: int | None,
    access: Access,
    reader: VolumeReader,
) -> AsyncIterator[Volume]:
    """The target's volume: behind a service, or one that is made now, kept as the source is."""
    if to_service or target.volume == source.volume:
        async with open_service(replace(access, services=to_service or access.services), target.volume) as remote:
            yield remote
        return
    if not access.servers:
        message = f"say where volume {target.volume} is served (--to-service), or shall be made (--servers)"
        raise refused(JournalCode.BAD_REQUEST, message)
    settings = JournalSettings(retention=reader.header.retention)
    if shard_count is None:
        await create_volume(target.volume, access.servers, surroundings=access.surroundings, settings=settings)
        async with open_journal(target.volume, servers=access.servers, surroundings=access.surroundings) as journal:
            yield journal
        return
    await create_shards(target.volume, shard_count, access.servers, surroundings=access.surroundings, settings=settings)
    shards = shards_of(target.volume, shard_count)
    async with AsyncExitStack() as stack:
        journals = [
            await stack.enter_async_context(
                open_journal(shard.name, servers=access.servers, surroundings=access.surroundings)
            )
            for shard in shards
        ]
        yield ShardedVolume(shards, journals, operations=OperationIds(SystemRandom()))


def _top(file: NewFile) -> str:
    return file.path.partition("/")[0]


def new_file(view: LogView, status: FileStatus, root: str) -> NewFile:
    """A file of a moment, for `write_tree`; its path is relative to `root`."""

    def pieces() -> AsyncIterator[bytes]:
        return view.read(status.path)

    return NewFile(
        path=status.path[len(root) :].removeprefix("/"),
        is_directory=status.is_directory,
        size=status.size,
        modified_ms=status.modified_ms,
        pieces=pieces,
    )
