"""A journal as a DataFrame: its records, the files of any moment, Spark's batches. Needs no service and no shim.

    register(spark)
    spark.read.format("sos-journal").option("servers", "a:7400,b:7400,c:7400").load("sos://payments/q1")

Options: `table` (records, files, batches), `at` (as the tool's --at; pinned when the reading is planned), `servers` or
`dir`, `token_file`, `tls_ca` (files that every executor has), `insecure` (true: a token may go out without TLS).
Without `servers` and `dir`: what `SOS_SERVERS` or the profile says, which with_sos_checkpoints has made one for.
Records are read in parallel, a task for each segment. Only the log is asked: nothing here can change a volume.
A volume that is spread over shards is one here; the LSN of a record is of the journal that the row names, and the LSN
of a batch is of the first shard.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import time
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from journal.checkpoint.batches import BatchHistory
from journal.copies.backups import check_moment
from journal.copies.opening import open_named_copies
from journal.copies.volume_reader import open_reader
from journal.errors import JournalCode, JournalError, refused
from journal.records.change import CommitChange, decode_change, paths_of
from journal.records.location import parse_location
from journal.records.moments import AtLsn, parse_moment
from journal.records.paths import is_within
from journal.records.record import Kind, Lsn
from journal.records.settings import Surroundings
from journal.shards.finding import find_shards
from journal.shards.whole_reader import WholeReader, settle
from sos_client.command.profiles import chosen_profile
from sos_client.credentials import tls_context, token_of
from sos_client.net.addresses import split_addresses

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pyspark.sql import SparkSession

    from journal.copies.volume_reader import VolumeReader
    from journal.records.moments import Moment
    from journal.records.record import Record
    from journal.records.shards import Shard

_log = logging.getLogger(__name__)
SCHEMAS: Final = {
    "records": (
        "lsn long, end_lsn long, time timestamp, kind string, path string, target string, payload_bytes long, "
        "record_bytes long, segment string, journal string"
    ),
    "files": "path string, is_directory boolean, size long, modified timestamp",
    "batches": (
        "query string, batch long, planned timestamp, committed timestamp, duration_ms long, lsn long, "
        "state_files int, state_version long"
    ),
}


def register(spark: SparkSession) -> None:
    """Make the format "sos-journal" known to this session."""
    spark.dataSource.register(JournalDataSource)


class JournalDataSource(DataSource):  # type: ignore[misc]
    """Spark makes one for each load(); see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "sos-journal"

    def schema(self) -> str:
        return SCHEMAS[_Question.of(self.options).table]

    def reader(self, schema: Any) -> JournalReader:
        return JournalReader(_Question.of(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The options, checked. Travels to the executors, so it holds names of files and no secrets."""

    volume: str
    path: str
    table: str
    at: str
    servers: str
    directory: str
    token_file: str
    tls_ca: str
    insecure: bool

    @classmethod
    def of(cls, options: dict[str, str]) -> _Question:
        table = options.get("table", "records")
        if table not in SCHEMAS:
            raise refused(JournalCode.BAD_REQUEST, f"table is one of {', '.join(SCHEMAS)}, not {table!r}")
        location = parse_location(options.get("path", ""))
        options = options if {"servers", "dir"} & options.keys() else {**_own_servers(), **options}
        return cls(
            volume=location.volume,
            path=location.path,
            table=table,
            at=options.get("at", "now"),
            servers=options.get("servers", ""),
            directory=options.get("dir", ""),
            token_file=options.get("token_file", ""),
            tls_ca=options.get("tls_ca", ""),
            insecure=options.get("insecure", "").lower() == "true",
        )

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[VolumeReader]:
        """Of the volume; of all its shards, if it is spread."""
        async with AsyncExitStack() as stack:
            try:
                found = await stack.enter_async_context(self.journal(self.volume))
            except JournalError as error:
                shards = await self._shards_instead(error)
                readers = []
                for shard in shards:
                    readers.append(await stack.enter_async_context(self.journal(shard.name)))
                    await settle(readers[-1])
                found = WholeReader(shards, readers)
            yield found

    @asynccontextmanager
    async def journal(self, name: str) -> AsyncIterator[VolumeReader]:
        """Of one journal: the volume itself, or one of its shards."""
        if not self.servers and not self.directory:
            raise refused(JournalCode.BAD_REQUEST, "say where the log is, with the option servers or dir, or a profile")
        unopened: list[str] = []

        def failed(place: str, error: JournalError) -> None:
            _log.warning("%s", error.message)
            unopened.append(place)

        opening = open_named_copies(
            name,
            servers=split_addresses(self.servers),
            directory=self._directory,
            token=self._token,
            tls=self._tls,
            insecure=self.insecure,
            on_failure=failed,
        )
        async with opening as copies:
            yield await open_reader(name, copies, unopened=unopened)

    @property
    def _directory(self) -> Path | None:
        return Path(self.directory) if self.directory else None

    @property
    def _token(self) -> bytes | None:
        return token_of(Path(self.token_file) if self.token_file else None)

    @property
    def _tls(self) -> ssl.SSLContext | None:
        return tls_context(Path(self.tls_ca) if self.tls_ca else None, wanted=False)

    async def _shards_instead(self, error: JournalError) -> tuple[Shard, ...]:
        if error.code is not JournalCode.VOLUME_NOT_FOUND:
            raise error
        surroundings = Surroundings(token=self._token, tls=self._tls, insecure=self.insecure)
        servers = split_addresses(self.servers)
        shards = await find_shards(self.volume, servers=servers, directory=self._directory, surroundings=surroundings)
        if not shards:
            raise error
        return shards


def _own_servers() -> dict[str, str]:
    """Options for the servers that the environment of this process or a profile names."""
    if servers := os.environ.get("SOS_SERVERS"):
        return {"servers": servers}
    profile = chosen_profile(os.environ.get("SOS_PROFILE"))
    way_in = profile.to_servers
    found = {"servers": ",".join(profile.servers), "insecure": str(bool(way_in.insecure))}
    files = {"token_file": way_in.token_file, "tls_ca": way_in.tls_ca}
    return found | {name: str(path) for name, path in files.items() if path is not None}


@dataclass(frozen=True, slots=True)
class LogRange(InputPartition):  # type: ignore[misc]
    """Records that begin in [start, end): a segment of a journal, or the part of one before the pinned moment."""

    journal: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PinnedMoment(InputPartition):  # type: ignore[misc]
    """The moment that files and batches are as of: the LSN in each journal of the volume, by its name."""

    lsns: tuple[tuple[str, int], ...]


class JournalReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver, reads on the executors."""

    def __init__(self, question: _Question) -> None:
        self._question = question

    def partitions(self) -> list[LogRange] | list[PinnedMoment]:
        return trio.run(self._plan)

    def read(self, partition: LogRange | PinnedMoment) -> Iterator[tuple[Any, ...]]:
        return iter(trio.run(self._rows, partition))

    async def _plan(self) -> list[LogRange] | list[PinnedMoment]:
        """Here the moment becomes an LSN; whatever is written later is not in the DataFrame."""
        async with self._question.reader() as reader:
            moment = parse_moment(self._question.at, now_ms=time.time_ns() // 1_000_000, zone=dt.UTC)
            pinned = await self._pinned(reader, moment)
            if self._question.table != "records":
                return [PinnedMoment(tuple(pinned.items()))]
            ranges = [
                LogRange(journal.volume, link.start, min(end for end in (link.end, lsn) if end is not None))
                for journal, lsn in zip(reader.journals, pinned.values(), strict=True)
                for link in journal.chain.links
                if link.start < lsn
            ]
            return ranges or [LogRange(reader.journals[0].volume, 0, 0)]

    async def _pinned(self, reader: VolumeReader, moment: Moment) -> Mapping[str, int]:
        """The LSN in each journal; of several, what belongs together is known of an image only."""
        if len(reader.journals) > 1:
            image = await reader.image(moment, path=self._question.path)
            await check_moment(reader, moment, image.lsn)
            return reader.moments_of(image)
        lsn = await reader.lsn_of(moment, path=self._question.path)
        await check_moment(reader, moment, lsn)
        return {reader.volume: lsn}

    async def _rows(self, part: LogRange | PinnedMoment) -> list[tuple[Any, ...]]:
        if isinstance(part, LogRange):
            async with self._question.journal(part.journal) as journal:
                return await self._records(journal, part)
        async with self._question.reader() as reader:
            lsns = dict(part.lsns)
            return await (self._files if self._question.table == "files" else self._batches)(reader, lsns)

    async def _records(self, reader: VolumeReader, part: LogRange) -> list[tuple[Any, ...]]:
        rows = []
        async with aclosing(reader.records(part.start, part.end)) as records:
            async for record in records:
                path, target = _paths(record)
                if not self._question.path or any(
                    one is not None and is_within(one, self._question.path) for one in (path, target)
                ):
                    rows.append(
                        _record_row(record, path, target, reader, reader.chain.object_at(record.header.lsn).segment)
                    )
        return rows

    async def _files(self, reader: VolumeReader, lsns: Mapping[str, int]) -> list[tuple[Any, ...]]:
        if isinstance(reader, WholeReader):
            image = await reader.image_of(lsns)
        else:
            image = await reader.image(AtLsn(lsn=Lsn(lsns[reader.volume])), path=self._question.path)
        rows = []
        folders = [self._question.path]
        while folders:
            folder, after = folders.pop(), ""
            while True:
                page = image.tree.list_page(folder, after=after)
                for status in page.entries:
                    if status.is_directory:
                        folders.append(status.path)
                    rows.append((status.path, status.is_directory, status.size, _moment(status.modified_ms)))
                if not page.more:
                    break
                after = page.entries[-1].path.rpartition("/")[2]
        return rows

    async def _batches(self, reader: VolumeReader, lsns: Mapping[str, int]) -> list[tuple[Any, ...]]:
        history = BatchHistory()
        async with aclosing(reader.records(0, lsns[reader.journals[0].volume])) as records:
            async for record in records:
                if record.header.kind is not Kind.HEADER:
                    history.note(record.header, decode_change(record.header, record.meta))
        found = history.of(self._question.path)
        if isinstance(reader, WholeReader):
            await reader.count_state(found, lsns)
        return [
            (
                batch.query,
                batch.number,
                _moment(batch.planned_ms),
                _moment(batch.committed_ms),
                batch.duration_ms,
                batch.committed_lsn,
                batch.state_files,
                batch.state_versions,
            )
            for batch in found
        ]


def _record_row(
    record: Record, path: str | None, target: str | None, reader: VolumeReader, segment: str
) -> tuple[Any, ...]:
    header = record.header
    return (
        header.lsn,
        header.end_lsn,
        _moment(header.time_ms),
        header.kind.name.lower(),
        path,
        target,
        _payload_bytes(record),
        header.record_bytes,
        segment,
        reader.volume,
    )


def _payload_bytes(record: Record) -> int:
    """A large file's bytes are in its pieces, which have no path: its commit tells the size."""
    if record.header.kind is Kind.COMMIT:
        change = decode_change(record.header, record.meta)
        assert isinstance(change, CommitChange)
        return change.size
    return record.header.payload_bytes


def _paths(record: Record) -> tuple[str | None, str | None]:
    if record.header.kind is Kind.HEADER:
        return None, None
    path, target, *_ = (*paths_of(decode_change(record.header, record.meta)), None, None)
    return path, target


def _moment(milliseconds: int | None) -> dt.datetime | None:
    return None if milliseconds is None else dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
