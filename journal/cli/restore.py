"""`sos-journal restore` and `sos-journal export`: from a volume to a plain directory."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from journal.checkpoint.operator_metadata import checkpoint_of
from journal.cli.locations import LocationType
from journal.cli.options import Access, Style, access_options, at_option, style_options
from journal.cli.pins import pinned
from journal.cli.views import View, as_of_json, as_of_text, open_view, warn_of_open_end
from journal.errors import JournalCode, refused
from journal.files.plain_directory import Plan, differing, has_content, plan_files, write_directory, write_files
from journal.files.plain_tree import make_directories, open_plain_tree
from sos_client.command.output import count_text, note, print_json, progress, size_text, time_text
from sos_client.command.running import run_async
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.files.plain_directory import PlannedFile
    from journal.files.plain_tree import PlainTree
    from journal.records.location import Location

_TARGET = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("location", type=LocationType())
@click.argument("directory", type=_TARGET)
@click.option("--if-empty", is_flag=True, help="Do nothing, and exit with 0, if the directory has something in it.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and change nothing.")
@at_option
@style_options
@access_options
def restore(
    *, location: Location, directory: Path, if_empty: bool, dry_run: bool, at: str, style: Style, access: Access
) -> None:
    """Write files as of a moment into a directory, all or none.

    They are synced, and keep their times. The directory must not exist or be empty. It appears under its name when it
    is whole.

    \b
    sos-journal restore sos://payments/q1 /tmp/q1-before --at batch:41
    """
    run_async(_restore, location, directory, (if_empty, dry_run), at, style, access)


async def _restore(
    location: Location, directory: Path, options: tuple[bool, bool], at: str, style: Style, access: Access
) -> None:
    if_empty, dry_run = options
    if has_content(directory):
        if if_empty:
            note(f"{directory} has something in it: nothing was done")
            return
        raise refused(JournalCode.NOT_EMPTY, f"{directory} has something in it; --if-empty makes that no error")
    async with open_view(access, location, at, style) as view:
        await warn_of_open_end(view, at)
        plan = await _plan(view, location)
        if dry_run:
            _print_plan(plan.files, style)
            return
        async with pinned(access, view.moments, verb="restore"):
            with progress("restoring", plan.bytes) as bar:
                await write_directory(view, plan, directory, bar.advance)
    _report("restored", plan, view, directory, style)


@click.command()
@click.argument("location", type=LocationType())
@click.argument("directory", type=_TARGET)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and change nothing.")
@at_option
@style_options
@access_options
def export(*, location: Location, directory: Path, dry_run: bool, at: str, style: Style, access: Access) -> None:
    """Bring a directory up to date with a volume.

    Files that are missing or differ are written, nothing is deleted. Whether a file differs is seen by its size and
    time. Links in the directory are not followed. For a faithful copy of a moment use `restore`.

    \b
    sos-journal export sos://payments/q1 /backup/q1
    """
    run_async(_export, location, directory, dry_run, at, style, access)


async def _export(location: Location, directory: Path, dry_run: bool, at: str, style: Style, access: Access) -> None:  # noqa: FBT001
    async with open_view(access, location, at, style) as view:
        await warn_of_open_end(view, at)
        plan = await _plan(view, location)
        with _opened(directory, make=not dry_run) as tree:
            plan = await trio.to_thread.run_sync(differing, plan, tree)
            if dry_run or tree is None:
                _print_plan(plan.files, style)
                return
            async with pinned(access, view.moments, verb="export"):
                with progress("exporting", plan.bytes) as bar:
                    await write_files(view, plan, tree, bar.advance)
    _report("exported", plan, view, directory, style)


@contextmanager
def _opened(directory: Path, *, make: bool) -> Iterator[PlainTree | None]:
    """The directory, made if wanted; None if there is none."""
    if make:
        make_directories(directory.absolute())
    if not directory.exists():
        yield None
        return
    with open_plain_tree(directory) as tree:
        yield tree


async def _plan(view: View, location: Location) -> Plan:
    plan = plan_files([status async for status in view.walk(location.path)], location.path)
    if any(checkpoint_of(file.relative) is not None for file in plan.files):
        note(
            "operators' metadata in it (_metadata/v2) names schema files by their present address: a query that starts "
            "from the directory goes on reading those; `import` and `fork` rewrite the addresses"
        )
    return plan


def _print_plan(files: tuple[PlannedFile, ...], style: Style) -> None:
    for file in files:
        if style.json:
            print_json({"write": file.relative, "size": file.status.size, "modified_ms": file.status.modified_ms})
        else:
            time = time_text(file.status.modified_ms, style.zone)
            click.echo(f"write  {size_text(file.status.size):>10}  {time}  {printable(file.relative)}")


def _report(what: str, plan: Plan, view: View, directory: Path, style: Style) -> None:
    if style.json:
        done = {what: str(directory), "files": len(plan.files), "bytes": plan.bytes, "lsn": view.lsn}
        print_json(done | {"read_from": view.read_from} | as_of_json(view.moments))
    else:
        as_of = f", as of {as_of_text(view.moments)}" if view.moments else ""
        written = f"{what} {count_text(len(plan.files), 'file')}, {size_text(plan.bytes)}"
        click.echo(f"{written}, to {printable(str(directory))}{as_of}")
