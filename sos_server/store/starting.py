"""Opening a store's root: its identity, its catalog, and the log files that count, repaired and ready to go on.

Only the process that owns the root changes anything, and only what was never synced is given up. What a log file says
is decided in `recovery.py`; here are the steps and their order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import TYPE_CHECKING, Final

import trio

from journal.disk.disk import Disk, File, OpenMode
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import DamagedError
from sos_server.objects.object_files import OBJECTS_DIRECTORY
from sos_server.objects.object_writing import NO_ROOM
from sos_server.storage.contents import Contents
from sos_server.storage.log_format import BLOCK_BYTES, LogHeader, batch_length, decode_log_header, first_generation
from sos_server.storage.recovery import Generation, Replay, chain_of
from sos_server.store.catalog import CATALOG_DIRECTORY, Catalog
from sos_server.store.log_files import FILES_MIN, LOG_DIRECTORY, LogFile, LogFiles, is_log_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.store.settings import StoreSettings

FORMAT_VERSION: Final = 1
IDENTITY_FILE: Final = "identity"
IDENTITY_BYTES: Final = 16
DIRECTORIES: Final = (LOG_DIRECTORY, CATALOG_DIRECTORY, OBJECTS_DIRECTORY)


@dataclasses.dataclass(slots=True)
class OpenedRoot:
    """What a start found."""

    identity: bytes
    contents: Contents
    catalog: Catalog
    files: LogFiles
    deleted: list[int]
    reports: list[str]


async def open_root(disk: Disk, settings: StoreSettings, random_bytes: Callable[[int], bytes]) -> OpenedRoot:
    """Lock the root and bring everything in it to a state from which commits can go on.

    Raises DiskLockedError, OSError, and DamagedError when what was synced is not there (see `accept_log_damage`).
    """
    await disk.lock()
    identity = await _identity(disk, random_bytes)
    await check_directories(disk)
    contents, catalog = Contents(), Catalog(disk)
    await catalog.load(contents)
    await check_catalog(disk, catalog)
    await catalog.settle()
    files = LogFiles(disk, settings, identity, await _log_bytes_max(disk, settings), random_bytes)
    replay = Replay(contents)
    await _open_logs(disk, settings, files, catalog, replay, identity)
    if replay.reports and not settings.accept_log_damage:
        files.close()
        raise DamagedError("; ".join(replay.reports))
    replay.accept()
    await _make_log_files(files)
    if not catalog.checkpoint.sequence:
        await catalog.write(contents, replay_from=1, open_generation=0)
    return OpenedRoot(identity, contents, catalog, files, replay.deleted, replay.reports)


async def read_identity(disk: Disk) -> bytes | None:
    """The identity that the root was given at its first start; None before that. DamagedError: it makes no sense."""
    if not await disk.exists(IDENTITY_FILE):
        return None
    file = await disk.open(IDENTITY_FILE, OpenMode.READ)
    content = await file.read(0, BLOCK_BYTES)
    file.close()
    try:
        value = json.loads(content)
        version, identity, crc = int(value["format"]), bytes.fromhex(value["identity"]), int(value["crc32c"], 16)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError("the file 'identity' makes no sense; restore it from a copy") from error
    if version != FORMAT_VERSION:
        raise DamagedError(f"the root has format {version}, this server knows format {FORMAT_VERSION} only")
    if crc != crc32c(identity):
        raise DamagedError("the file 'identity' is damaged; restore it from a copy")
    return identity


async def check_directories(disk: Disk) -> None:
    """DamagedError when a directory is missing from a root that has an identity."""
    for directory in DIRECTORIES:
        if not await disk.exists(directory):
            raise DamagedError(f"the directory '{directory}' is missing; restore it from a copy")


async def check_catalog(disk: Disk, catalog: Catalog) -> None:
    """DamagedError when there are objects' files and no catalog, without which none is ever written."""
    if not catalog.checkpoint.sequence and await disk.list_directory(OBJECTS_DIRECTORY):
        raise DamagedError(f"{OBJECTS_DIRECTORY}/ has files, but {CATALOG_DIRECTORY}/ has none; restore it from a copy")


async def _identity(disk: Disk, random_bytes: Callable[[int], bytes]) -> bytes:
    """The root's identity, made durable after the directories and before all else: with it, each of them was there."""
    identity = await read_identity(disk)
    if identity is not None:
        await disk.sync_directory("")  # a server that died before it had synced the name may have left it
        return identity
    for directory in DIRECTORIES:
        if not await disk.exists(directory):
            await disk.make_directory(directory)
        elif await disk.list_directory(directory):
            raise DamagedError("the root has data but no file 'identity'; restore it from a copy")
    await disk.sync_directory("")
    identity = random_bytes(IDENTITY_BYTES)
    crc = f"{crc32c(identity):08x}"
    content = json.dumps({"format": FORMAT_VERSION, "identity": identity.hex(), "crc32c": crc}) + "\n"
    with contextlib.suppress(FileNotFoundError):
        await disk.unlink(f"{IDENTITY_FILE}.new")
    file = await disk.open(f"{IDENTITY_FILE}.new", OpenMode.CREATE)
    await file.write_and_sync(0, [content.encode()])
    file.close()
    await disk.rename(f"{IDENTITY_FILE}.new", IDENTITY_FILE)
    await disk.sync_directory("")
    return identity


async def _log_bytes_max(disk: Disk, settings: StoreSettings) -> int:
    """What the log may take: the setting, but on a small disk a part of what is free."""
    part = int(await disk.free_bytes() * settings.log_part_of_free_bytes)
    return max(FILES_MIN * settings.log_file_bytes_first, min(settings.log_bytes_max, part))


async def _make_log_files(files: LogFiles) -> None:
    """As many as it takes to go on. On a full disk a store that has some starts without: its reads need none."""
    try:
        while len(files.free) + len(files.full) < FILES_MIN or not files.free:
            await files.grow()
    except OSError as error:
        if error.errno not in NO_ROOM or not files.full:
            raise


async def _open_logs(
    disk: Disk, settings: StoreSettings, files: LogFiles, catalog: Catalog, replay: Replay, identity: bytes
) -> None:
    """Replay the generations that count, oldest first; all other files are free."""
    logs: dict[int, LogFile] = {}
    headers: list[LogHeader] = []
    headless: list[int] = []
    await disk.sync_directory(LOG_DIRECTORY)  # a file that a killed server had just made may have no durable name yet
    for name in filter(is_log_file, await disk.list_directory(LOG_DIRECTORY)):
        if (log := await _open_log(disk, f"{LOG_DIRECTORY}/{name}", settings)) is None:
            continue
        header = decode_log_header(await log.file.read(0, BLOCK_BYTES))
        if header is None or header.identity != identity:
            headless.append(await generation_without_header(log.file))
            files.adopt(log)
        else:
            headers.append(header)
            logs[header.generation] = log
    chain = chain_of(headers, catalog.checkpoint, headless=headless)
    replay.reports += chain.reports
    if chain.reports:
        replay.suspect()
    for generation in chain.generations:
        log = logs.pop(generation.header.generation)
        await _replay(log, generation, replay)
        files.adopt(log)
    for log in logs.values():
        files.adopt(log)
    newest = max([catalog.checkpoint.replay_from - 1, *(header.generation for header in headers), *headless])
    files.next_generation = newest + 1


async def generation_without_header(file: File) -> int:
    """What a log file's first batch says that its generation is, 0 when there is none. Its header does not say it."""
    batch = await file.read(BLOCK_BYTES, BLOCK_BYTES)
    length = batch_length(batch)
    if not length or BLOCK_BYTES + length > await file.size():  # what it says is not to be believed yet
        return 0
    return first_generation(await file.read(BLOCK_BYTES, length))


async def _open_log(disk: Disk, path: str, settings: StoreSettings) -> LogFile | None:
    """A log file, or None when a crash kept it from getting its full size; it is removed then."""
    file = await disk.open(path, OpenMode.WRITE)
    size = await file.size()
    if size < settings.buffer_bytes + BLOCK_BYTES and decode_log_header(await file.read(0, BLOCK_BYTES)) is None:
        file.close()
        await disk.unlink(path)
        return None
    return LogFile(file, path, size)


async def _replay(log: LogFile, generation: Generation, replay: Replay) -> None:
    """Apply a file's batches. The newest one's header and last batch may be in the page cache only: they are written
    again and synced before anything rests on them (a sync alone would not do: one may have failed before the start).
    """
    content = memoryview(await log.file.read(0, log.file_bytes))
    scan = replay.scan(content, generation)
    await trio.lowlevel.checkpoint()
    header = generation.header
    log.generation, log.version, log.nonce = header.generation, header.version, header.nonce
    log.used, log.ended = scan.end, True
    log.batches, log.entries = scan.last.number + 1 if scan.last is not None else 0, scan.entries
    if generation.end is None:
        if scan.last is not None:
            await log.file.write(scan.last.start, [content[scan.last.start : scan.last.end]])
        await log.file.write_and_sync(0, [content[:BLOCK_BYTES]])
