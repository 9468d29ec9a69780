"""Verifies all that is on a server's disk, byte for byte, without starting it and without changing anything.

A start reads the catalog and the log only; this reads every object. It takes the root's lock, so no server writes
meanwhile. Damage is what a reader would be refused; a remark is what is odd and harmless, such as a crash's tail.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import trio

from journal.disk.disk import Disk, OpenMode
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError
from sos_server.objects.object_files import OBJECTS_DIRECTORY, ChunkDamagedError, ObjectFiles, path_of
from sos_server.storage.contents import IN_FILE, Contents, StoredObject
from sos_server.storage.log_format import BLOCK_BYTES, LogHeader, decode_log_header
from sos_server.storage.object_layout import CHUNK_BYTES
from sos_server.storage.recovery import Replay, chain_of
from sos_server.store.catalog import CATALOG_DIRECTORY, Catalog, is_catalog_file
from sos_server.store.log_files import LOG_DIRECTORY, is_log_file
from sos_server.store.starting import check_catalog, check_directories, generation_without_header, read_identity

if TYPE_CHECKING:
    from collections.abc import Callable

READ_BYTES: Final = 16 * CHUNK_BYTES


@dataclasses.dataclass(slots=True)
class CheckReport:
    """What was found. `damage` and `remarks` are sentences for a person; nothing in `damage` means that all is well."""

    identity: bytes | None = None
    namespaces: int = 0
    objects: int = 0
    verified_bytes: int = 0
    damage: list[str] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not self.damage


async def check_root(disk: Disk, *, on_progress: Callable[[int, int], None] | None = None) -> CheckReport:
    """Verify everything. `on_progress(verified bytes, all bytes)` is called now and then.

    Raises DiskLockedError when a server is running on the root, OSError when the disk fails.
    """
    await disk.lock()
    report = CheckReport()
    contents = Contents()
    try:
        report.identity = await read_identity(disk)
        if report.identity is None:
            report.remarks.append("there is no identity: no server was ever started on this root")
            return report
        await check_directories(disk)
        catalog = Catalog(disk)
        await catalog.load(contents)
        await check_catalog(disk, catalog)
        await _check_log(disk, catalog, contents, report)
    except DamagedError as error:
        report.damage.append(str(error))
        return report
    report.namespaces, report.objects = len(contents.namespaces), len(contents.objects)
    await _check_objects(disk, contents, report, on_progress)
    await _check_surplus(disk, contents, report)
    return report


async def _check_log(disk: Disk, catalog: Catalog, contents: Contents, report: CheckReport) -> None:
    """Replay what counts, as a start would, but repair nothing."""
    headers: dict[int, tuple[LogHeader, str]] = {}
    headless: list[int] = []
    for name in filter(is_log_file, await disk.list_directory(LOG_DIRECTORY)):
        file = await disk.open(f"{LOG_DIRECTORY}/{name}", OpenMode.READ)
        header = decode_log_header(await file.read(0, BLOCK_BYTES))
        if header is not None and header.identity == report.identity:
            headers[header.generation] = header, f"{LOG_DIRECTORY}/{name}"
        else:
            headless.append(await generation_without_header(file))
        file.close()
    chain = chain_of([header for header, _ in headers.values()], catalog.checkpoint, headless=headless)
    report.damage += chain.reports
    replay = Replay(contents)
    for generation in chain.generations:
        number = generation.header.generation
        file = await disk.open(headers[number][1], OpenMode.READ)
        content = await file.read(0, await file.size())
        file.close()
        scan = replay.scan(memoryview(content), generation)
        report.verified_bytes += scan.end - BLOCK_BYTES
        if scan.torn is not None:
            report.remarks.append(
                f"log generation {number} ends with a batch that was never synced; the next start cuts it"
            )
    report.damage += replay.reports


async def _check_objects(
    disk: Disk, contents: Contents, report: CheckReport, on_progress: Callable[[int, int], None] | None
) -> None:
    files = ObjectFiles(disk, open_max=1)
    total = sum(stored.copied for stored in contents.objects.values())
    done = 0
    for stored in contents.objects.values():
        where = f"object {stored.namespace.name}/{stored.name}"
        try:
            verified_bytes = await _check_object(files, stored)
        except FileNotFoundError:
            report.damage.append(f"{where}: its file {path_of(stored.number)} is not there")
        except ChunkDamagedError as error:
            report.damage.append(f"{where}: {error} ({path_of(stored.number)})")
        except OSError as error:
            report.damage.append(f"{where}: {error.strerror} ({path_of(stored.number)})")
        else:
            report.verified_bytes += verified_bytes
        if stored.cut_bytes:
            report.remarks.append(f"{where}: {stored.cut_bytes} bytes that were never synced were cut after a crash")
        done += stored.copied
        if on_progress is not None:
            on_progress(done, total)
        await trio.lowlevel.checkpoint()
    files.close()


async def _check_object(files: ObjectFiles, stored: StoredObject) -> int:
    """Every chunk against its CRC, all of it against the object's, and the runs that only the log knows of.

    Returns how many bytes these are.
    """
    crc, verified = 0, stored.copied
    for offset in range(0, stored.copied, READ_BYTES):
        length = min(READ_BYTES, stored.copied - offset)
        piece = await files.read(stored.number, offset, length, copied=stored.copied, tail_crc=stored.tail_crc)
        crc = crc32c(piece.content, crc)
        await trio.lowlevel.checkpoint()
    if crc != stored.copied_crc:
        raise ChunkDamagedError(0)
    for run in stored.logged.pieces(stored.copied, stored.size) if stored.logged is not None else ():
        if run.position != IN_FILE:
            continue  # verified with the log
        if crc32c(await files.read_as_it_is(stored.number, run.offset, run.length)) != run.crc:
            raise ChunkDamagedError(run.offset)
        verified += run.length
        await trio.lowlevel.checkpoint()
    return verified


async def _check_surplus(disk: Disk, contents: Contents, report: CheckReport) -> None:
    """Files of no object (what a crash left of an unfinished copy or delete), and what is not the server's at all."""
    for directory, is_known in ((LOG_DIRECTORY, is_log_file), (CATALOG_DIRECTORY, is_catalog_file)):
        names = await disk.list_directory(directory)
        report.remarks += [f"{directory}/{name} is not the server's" for name in names if not is_known(name)]
    for directory in await disk.list_directory(OBJECTS_DIRECTORY):
        try:
            names = await disk.list_directory(f"{OBJECTS_DIRECTORY}/{directory}")
        except NotADirectoryError:
            report.remarks.append(f"{OBJECTS_DIRECTORY}/{directory} is not the server's")
            continue
        for name in names:
            if _object_number(directory, name) not in contents.objects:
                report.remarks.append(f"{OBJECTS_DIRECTORY}/{directory}/{name} belongs to no object")


def _object_number(directory: str, name: str) -> int | None:
    """Whose file this is; None when it is not where or what an object's file is."""
    try:
        number = int(name, 16)
    except ValueError:
        return None
    return number if path_of(number) == f"{OBJECTS_DIRECTORY}/{directory}/{name}" else None
