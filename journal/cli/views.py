"""A volume's tree as of a moment: from the service, or from the log on servers and in a directory, as options say."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import click
import trio

from journal.cli.options import is_now, moment_of
from journal.copies.backups import check_moment, is_end_known, shortfall_of
from journal.copies.extents import group_extents
from journal.copies.opening import open_named_copies
from journal.copies.volume_reader import open_reader
from journal.errors import JournalCode, JournalError, refused
from journal.files.plain_directory import ContentSource
from journal.gateway.client.client import ClientSettings
from journal.gateway.client.opening import open_whole_volume
from journal.gateway.wire.answer_checks import Kept
from journal.gateway.wire.limits import CLIENT_SECONDS
from journal.records.paths import name_of
from journal.records.shards import shards_of
from journal.shards.finding import find_shards
from journal.shards.whole_reader import WholeReader, settle
from sos_client.command.output import note, remark
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.cli.options import Access, Style
    from journal.copies.copies import Copy
    from journal.copies.volume_reader import VolumeReader
    from journal.files.plain_directory import PlannedFile
    from journal.gateway.client.opening import WholeVolume
    from journal.image.image import Image
    from journal.records.location import Location
    from journal.records.moments import Moment
    from journal.records.shards import Shard
    from journal.volume import FileStatus, Page
    from sos_client.wire.errors import SosError

Result = TypeVar("Result")

_MOMENTS_SHOWN: Final = 4
_PATIENCE_SECONDS: Final = 2.0  # a service that is started again is back sooner


class View(ContentSource, Protocol):
    """What the verbs that look at files need."""

    lsn: int | None  # None: whatever the service has now
    moments: Mapping[str, int]  # of each journal that was read from; empty for a service
    read_from: list[str]  # addresses and directories

    async def stat(self, path: str) -> FileStatus:
        """NOT_FOUND if there is nothing."""

    def children(self, path: str) -> AsyncIterator[FileStatus]:
        """What is in a directory, in order, or the file itself."""

    def walk(self, path: str) -> AsyncIterator[FileStatus]:
        """Everything at or below the path, parents first."""


async def _all_pages(page_after: Callable[[str], Awaitable[Page]]) -> AsyncIterator[FileStatus]:
    after, more = "", True
    while more:
        page = await page_after(after)
        for entry in page.entries:
            yield entry
        more = page.more
        after = name_of(page.entries[-1].path) if page.entries else ""


class LogView:
    """From the log."""

    def __init__(self, reader: VolumeReader, image: Image) -> None:
        self.reader = reader
        self.image = image
        self.lsn: int | None = image.lsn
        self.moments = reader.moments_of(image)
        self.read_from = read_from(reader)

    async def stat(self, path: str) -> FileStatus:
        return self.image.tree.stat(path)

    def children(self, path: str) -> AsyncIterator[FileStatus]:
        async def page_after(after: str) -> Page:
            return self.image.tree.list_page(path, after=after)

        return _all_pages(page_after)

    async def walk(self, path: str) -> AsyncIterator[FileStatus]:
        for status in self.image.tree.walk(path):
            yield status

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        return self.reader.read_file(self.image, path, offset, length)

    def groups(self, files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
        grouped = group_extents((file, self.image.tree.extents(file.status.path)) for file in files)
        return [[file for file, _ in group] for group in grouped]

    async def read_group(self, files: Sequence[PlannedFile]) -> list[bytes]:
        extents = [self.image.tree.extents(file.status.path) for file in files]
        if len(files) == 1:
            return [b"".join([await self.reader.read_extent(extent) for extent in extents[0]])]
        return await self.reader.read_group([one for (one,) in extents])


class ServiceView:
    """From a journal service: the present."""

    def __init__(self, volume: WholeVolume, services: Sequence[str]) -> None:
        self.volume = volume
        self.lsn: int | None = None
        self.moments: Mapping[str, int] = {}
        self.read_from = list(services)

    async def stat(self, path: str) -> FileStatus:
        return await self.volume.stat(path)

    def children(self, path: str) -> AsyncIterator[FileStatus]:
        return _all_pages(lambda after: self.volume.list(path, after=after))

    async def walk(self, path: str) -> AsyncIterator[FileStatus]:
        todo = [await self.stat(path)]
        while todo:
            status = todo.pop()
            yield status
            if status.is_directory:
                kept = Kept(what=f"what lies below {path or '/'}")
                kept.add(status.path for status in todo)
                below = []
                async for child in self.children(status.path):
                    kept.add([child.path])
                    below.append(child)
                todo.extend(reversed(below))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        return self.volume.read(path, offset, length)

    def groups(self, files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
        return [[file] for file in files]

    async def read_group(self, files: Sequence[PlannedFile]) -> list[bytes]:
        return [b"".join([piece async for piece in self.read(file.status.path)]) for file in files]


def open_copies(
    access: Access, volume: str, unopened: list[str] | None = None
) -> AbstractAsyncContextManager[list[Copy]]:
    """The copies that the options name and that can be opened, and in `unopened` the others. UnavailableError: none."""
    shown = access.to_servers

    def failed(place: str, error: JournalError) -> None:
        note(f"warning: {error.message}")
        if unopened is not None:
            unopened.append(place)

    return open_named_copies(
        volume,
        servers=access.servers,
        directory=access.directory,
        token=shown.token,
        tls=shown.tls,
        insecure=shown.insecure,
        timeout=access.timeout,
        on_failure=failed,
    )


async def log_access(access: Access, volume: str) -> Access:
    """Where the volume's log is: as the options say, or on the servers that the service names, if it is all they say.

    BAD_REQUEST if they say nothing.
    """
    if access.servers or access.directory is not None:
        return access
    if not access.services:
        raise refused(JournalCode.BAD_REQUEST, "say where the volume is, with --service, --servers or --dir")
    async with open_service(access, volume) as service:
        description = await service.describe()
    return replace(access, servers=description.servers)


@asynccontextmanager
async def open_log(access: Access, volume: str) -> AsyncIterator[VolumeReader]:
    """A reader of one journal, wherever `log_access` finds it. BAD_REQUEST for a volume that is spread over shards."""
    access = await log_access(access, volume)
    async with AsyncExitStack() as stack:
        try:
            reader = await _opened(access, volume, stack)
        except JournalError as error:
            if error.code is JournalCode.VOLUME_NOT_FOUND:
                await check_one_journal(access, volume)
            raise
        _say_source("log", read_from(reader), access)
        yield reader


@asynccontextmanager
async def open_whole_log(access: Access, volume: str) -> AsyncIterator[VolumeReader]:
    """As `open_log`; if the volume is spread over shards, a reader of all of them."""
    access = await log_access(access, volume)
    async with AsyncExitStack() as stack:
        try:
            reader = await _opened(access, volume, stack)
        except JournalError as error:
            shards = await _shards_instead(access, volume, error)
            readers = []
            for shard in shards:
                readers.append(await _opened(access, shard.name, stack))
                await settle(readers[-1])
            reader = WholeReader(shards, readers)
        _say_source("log", read_from(reader), access)
        yield reader


async def _opened(access: Access, volume: str, stack: AsyncExitStack) -> VolumeReader:
    unopened: list[str] = []
    copies = await stack.enter_async_context(open_copies(access, volume, unopened))
    reader = await open_reader(volume, copies, unopened=unopened)
    for problem in reader.problems.values():
        note(f"warning: {problem.message}")
    if shortfall := await shortfall_of(reader):
        note(f"warning: {shortfall}")
    return reader


async def check_one_journal(access: Access, volume: str) -> None:
    """BAD_REQUEST, with their names, if the volume is spread over shards, and a verb is about one journal."""
    shards = await find_shards(
        volume, servers=access.servers, directory=access.directory, surroundings=access.surroundings
    )
    if shards:
        message = f"{volume} is spread over {len(shards)} shards, each with a log and members of its own, and this is"
        message += f" about one of them: name it instead: {shards[0].name} to {shards[-1].name}"
        raise refused(JournalCode.BAD_REQUEST, message, shards=len(shards))


async def _shards_instead(access: Access, volume: str, error: JournalError) -> tuple[Shard, ...]:
    """The shards of a volume that was not found by its name; raises the error if there are none."""
    if error.code is not JournalCode.VOLUME_NOT_FOUND:
        raise error
    shards = await find_shards(
        volume, servers=access.servers, directory=access.directory, surroundings=access.surroundings
    )
    if not shards:
        raise error
    return shards


async def in_each_journal(
    access: Access, location: Location, run: Callable[[Location], Awaitable[Result]], *, heading: bool = False
) -> list[Result]:
    """`run`, which opens the log of one journal, for the volume; if it is spread, for each shard, HOME first.

    `heading`: with the shard's name as a line before what it prints.
    """
    try:
        return [await run(location)]
    except JournalError as error:
        count = error.fields.get("shards")
        if not isinstance(count, int):
            raise
    found = []
    for shard in shards_of(location.volume, count):
        if heading:
            click.echo(click.style(printable(shard.name), bold=True))
        found.append(await run(replace(location, volume=shard.name)))
    return found


def as_of_text(moments: Mapping[str, int]) -> str:
    """What an answer from the log is as of: an LSN; where the volume is spread, those of some shards, by name."""
    if len(moments) == 1:
        return f"LSN {next(iter(moments.values()))}"
    shown = [f"LSN {lsn} of {name}" for name, lsn in [*moments.items()][:_MOMENTS_SHOWN]]
    left = len(moments) - len(shown)
    return ", ".join(shown) + (f", and so on in {left} more" if left else "")


def as_of_json(moments: Mapping[str, int]) -> dict[str, object]:
    """The same for programs, beside the field `lsn`, which is HOME's."""
    return {"moments": dict(moments)} if len(moments) > 1 else {}


def read_from(reader: VolumeReader) -> list[str]:
    """The addresses and directories that a log is read from."""
    labels = [one.label for part in reader.journals for one in part.copies if one.label not in part.problems]
    return list(dict.fromkeys(labels))


def _say_source(what: str, places: Sequence[str], access: Access) -> None:
    """Where an answer comes from is a part of it: another directory or variable would have given another one."""
    other = "SOS_SERVICE" if what == "log" and "SOS_SERVERS" in access.origins else "SOS_SERVERS"
    wanted = [origin for origin in access.origins if origin != other or len(access.origins) == 1]
    origin = f" (from {wanted[0]})" if wanted else ""
    remark(f"reading the {what} at {', '.join(places)}{origin}")


async def image_of(reader: VolumeReader, moment: Moment, *, path: str = "") -> Image:
    """The image of a moment; LOST if that may lie in what a backup lacks."""
    image = await reader.image(moment, path=path)
    await check_moment(reader, moment, image.lsn)
    return image


async def warn_of_open_end(view: View, moment: str) -> None:
    """Before a copy is made: a directory without a mark may have less than there was, and nobody could tell."""
    if is_now(moment) and isinstance(view, LogView) and not await is_end_known(view.reader):
        places = ", ".join(view.read_from)
        note(
            f"warning: nothing says how far the log in {places} should go (name the servers, too): it may lack the last"
        )


def unread_members(reader: VolumeReader, access: Access) -> list[tuple[str, str]]:
    """(address, why) of each member that no copy here is of; none if it is only a directory that is looked into."""
    if not access.servers:
        return []
    return [
        (address, "does not answer" if address in access.servers else "not asked: add it to --servers")
        for address in reader.members_without_copy()
    ]


@asynccontextmanager
async def open_view(access: Access, location: Location, at: str, style: Style) -> AsyncIterator[View]:
    """The present from the service if one is named, otherwise any moment from the log."""
    if access.services and is_now(at):
        _say_source("service", access.services, access)
        async with open_service(access, location.volume) as volume:
            yield ServiceView(volume, access.services)
    else:
        moment = moment_of(at, style)
        async with open_whole_log(access, location.volume) as reader:
            yield LogView(reader, await image_of(reader, moment, path=location.path))


class _Patience:
    """Tells the person who waits for a service that does not answer, once, why, and for how long it may go on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._told = False

    def __call__(self, error: SosError) -> None:
        now = trio.current_time()
        self._since = now if self._since is None else self._since
        if not self._told and now - self._since >= _PATIENCE_SECONDS:
            self._told = True
            note(f"{error}; trying for up to {self._seconds:g} s")


@asynccontextmanager
async def open_service(access: Access, volume: str) -> AsyncIterator[WholeVolume]:
    """The volume behind the services that the options name, whether it is spread over shards or not."""
    if not access.services:
        raise refused(JournalCode.BAD_REQUEST, "changes go through a journal service: name it with --service")
    seconds = CLIENT_SECONDS if access.timeout is None else access.timeout
    shown = access.to_services
    async with open_whole_volume(
        access.services,
        volume,
        token=shown.token,
        tls=shown.tls,
        insecure=shown.insecure,
        client_name="sos-journal",
        settings=ClientSettings(seconds=seconds, on_trouble=_Patience(seconds), shared=True),
    ) as remote:
        yield remote
