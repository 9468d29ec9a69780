"""Mistakes on the way of runs, straight to an object's own file, as data. See `server_bugs`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from journal.disk.disk import OpenMode
from sos_client.wire.checksum import crc32c
from sos_server.objects.object_files import directory_of, path_of
from sos_server.objects.object_writing import ObjectWriter
from sos_server.storage import recovery
from sos_server.storage.log_format import NOTE, ROW_NUMBER
from sos_server.storage.object_layout import data_position
from sos_server.store.appender import Appender
from sos_server.store.runs import RunAppend, Runs
from tests.simulation.planting import PlantedBug, replaced, together, wrapped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sos_server.storage.contents import StoredObject
    from sos_server.store.runs import GatheredRun
    from tests.simulation.planting import Right


async def _write_only(right: Right, runs: Runs, stored: StoredObject, offset: int, content: Any, **named: Any) -> Any:
    """The run is in the page cache when its note goes into the log."""
    disk = runs.writer._disk
    if not await disk.exists(path_of(stored.number)):
        return await right(runs, stored, offset, content, **named)
    file = await disk.open(path_of(stored.number), OpenMode.WRITE)
    await file.write(data_position(offset), [content])
    file.close()
    return None


async def _leave_the_name(right: Right, runs: Runs, stored: StoredObject, *args: Any, has_name: bool) -> Any:
    if not has_name:
        await runs.writer._make_directories({directory_of(stored.number)})
    return await right(runs, stored, *args, has_name=True)


async def _go_on_at_once(right: Right, append: RunAppend, run: GatheredRun) -> None:
    """The next run does not wait until this one has its note."""
    run.memory = memoryview(bytearray(run.memory) + b"not to be used again")
    nursery = append._runs._nursery
    assert nursery is not None
    nursery.start_soon(right, append, run)


@contextlib.asynccontextmanager
async def _no_turn(_: ObjectWriter, *__: object) -> AsyncIterator[None]:
    yield


def _take_back_and_go_on(appender: Appender) -> None:
    if (append := appender._run_append) is not None:
        appender._run_append = None
        written, crc = append.put_in
        appender.stored.unsynced_bytes -= appender.written - written
        appender.stored.namespace.used_bytes -= appender.written - written
        appender.written, appender.crc = written, crc


def _whatever_the_note_says(replay: recovery.Replay, log: memoryview, batch: Any, generation: int) -> None:
    """A start does not compare a note's CRC."""
    for (number, offset, _, crc), position, payload in batch.payloads(log):
        whole = crc32c(payload) == crc
        if number & NOTE:
            replay._add_note(number ^ NOTE, offset, payload, generation)
        elif number != ROW_NUMBER:
            replay._add_bytes(number, offset, payload, crc, generation, position, whole=whole)
        elif whole:
            replay._add_row(payload)
        else:
            replay.reports.append(f"log generation {generation}: the row at byte {position} is damaged")


RUN_BUGS: Final = (
    PlantedBug(
        name="run noted before its sync",
        breaks="the log has the note of a run that is in the page cache only",
        plant=wrapped(Runs, "_write_file", _write_only),
    ),
    PlantedBug(
        name="name of a run's file not synced",
        breaks="the log has the note of a run whose file has no durable name",
        plant=wrapped(Runs, "_write_file", _leave_the_name),
    ),
    PlantedBug(
        name="notes out of order",
        breaks="a run does not wait for the note of the one before, so that its own may be in the log first",
        plant=wrapped(RunAppend, "_write", _go_on_at_once),
    ),
    PlantedBug(
        name="copy and run in one file at once",
        breaks="a file is copied to while a run is written to it, and a sync that fails takes both with it",
        plant=together(replaced(ObjectWriter, "copying", _no_turn), replaced(ObjectWriter, "running", _no_turn)),
        seeds_max=800,
    ),
    PlantedBug(
        name="run of an evicted append noted",
        breaks="a run that was on its way when its append was taken away is noted all the same",
        plant=replaced(Appender, "_drop_runs", _take_back_and_go_on),
    ),
    PlantedBug(
        name="CRC of a note not compared",
        breaks="a start believes a note that rotted in the log",
        plant=replaced(recovery.Replay, "_apply", _whatever_the_note_says),
        seeds_max=800,
    ),
)
