"""Where Spark Structured Streaming puts what in a checkpoint directory, without Spark. Pure.

Belongs here: what a path means, and what the small text logs say. Which files must exist for a query to go on is in
checks.py. Known: metadata, offsets/N, commits/N, sources/N/M, and state/OPERATOR/PARTITION/[STORE/] with
the files of the HDFS-backed store (delta, snapshot) and of RocksDB (zip, changelog, SSTs), in checkpoint format 1
(`7.zip`) and 2 (`7_ID.zip`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.records.paths import SCRATCH_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from journal.volume import FileStatus

LOG_BYTES_MAX: Final = (
    16 * 1024 * 1024
)  # offsets of a source with very many partitions; larger files are not offset logs
DEFAULT_STORE: Final = "default"  # what Spark calls the only store of an operator, which lies in the partition itself

_LOG: Final = re.compile(r"(.*?)(?:^|/)(offsets|commits)/(\d{1,18})", re.ASCII | re.DOTALL)
_STATE: Final = re.compile(
    r"state/(\d{1,9})/(\d{1,9})/(?:([^/]+)/)?(\d{1,18})(?:_([^/.]+))?\.(delta|snapshot|zip|changelog)", re.ASCII
)
_VERSION: Final = re.compile(r"v(\d{1,9})", re.ASCII)
OFFSETS_VERSION: Final = (
    2  # Spark 4.2 and newer, where sources have names, or spark.sql.streaming.offsetLog.formatVersion
)
COMMITS_VERSION: Final = 3  # 2: checkpoint format 2; 3: Spark 4.3, where sinks have names
_SST_LIST_VERSION: Final = 1
_TEMPORARY: Final = re.compile(r"(?:^|/)\.[^/]*\.tmp$|(?:^|/)[^/]*\.tmp$", re.ASCII)


class LogFormatError(Exception):
    """A file of the checkpoint does not say what Spark writes there."""


class NewerLogError(LogFormatError):
    """A newer Spark wrote the file: whether it is in order, nobody here can tell."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StoreId:
    """One state store: an operator's, in one partition."""

    operator: int
    partition: int
    store: str = DEFAULT_STORE

    def __str__(self) -> str:
        name = "" if self.store == DEFAULT_STORE else f", store {self.store}"
        return f"operator {self.operator}, partition {self.partition}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A file that a state store wrote for one version."""

    path: str
    store: StoreId
    version: int
    unique_id: str  # checkpoint format 2; empty in format 1
    kind: str

    @property
    def whole(self) -> bool:
        """Whether it has all state of its version, not only what changed since the one before."""
        return self.kind in ("snapshot", "zip")


@dataclass(slots=True)
class Checkpoint:
    """The files of one query's checkpoint, by what they are; paths are relative to it."""

    files: dict[str, FileStatus] = field(default_factory=dict)
    offsets: dict[int, FileStatus] = field(default_factory=dict)
    commits: dict[int, FileStatus] = field(default_factory=dict)
    state: dict[StoreId, dict[int, list[StateFile]]] = field(default_factory=dict)
    temporary: list[str] = field(default_factory=list)

    @property
    def last_committed(self) -> int | None:
        """The newest batch in the commit log."""
        return max(self.commits, default=None)

    @property
    def last_planned(self) -> int | None:
        """The newest batch in the offset log."""
        return max(self.offsets, default=None)


def find_checkpoints(paths: Iterable[str]) -> list[str]:
    """The directories that look like checkpoints: those with an offset or commit log. "" is the volume's root."""
    return sorted({found[0] for path in paths if (found := batch_of(path))})


def batch_of(path: str) -> tuple[str, str, int] | None:
    """(checkpoint, "offsets" or "commits", batch) of a path of such a log anywhere in a volume."""
    match = _LOG.fullmatch(path)
    if match is None or f"/{SCRATCH_PREFIX}" in f"/{path}":
        return None
    return match[1], match[2], int(match[3])


def state_file_of(path: str) -> StateFile | None:
    """What a path relative to a checkpoint says, if it is a state store's file with a version."""
    match = _STATE.fullmatch(path)
    if match is None:
        return None
    store = StoreId(operator=int(match[1]), partition=int(match[2]), store=match[3] or DEFAULT_STORE)
    return StateFile(path=path, store=store, version=int(match[4]), unique_id=match[5] or "", kind=match[6])


def arrange(root: str, statuses: Iterable[FileStatus]) -> Checkpoint:
    """The checkpoint at `root` from all files below it."""
    checkpoint = Checkpoint()
    prefix = f"{root}/" if root else ""
    for status in statuses:
        if status.is_directory or not status.path.startswith(prefix):
            continue
        path = status.path[len(prefix) :]
        checkpoint.files[path] = status
        folder, _, name = path.partition("/")
        if folder in ("offsets", "commits") and name.isdecimal() and name.isascii():
            log = checkpoint.offsets if folder == "offsets" else checkpoint.commits
            log[int(name)] = status
        elif (state := state_file_of(path)) is not None:
            checkpoint.state.setdefault(state.store, {}).setdefault(state.version, []).append(state)
        elif _TEMPORARY.search(path):
            checkpoint.temporary.append(path)
    return checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFile:
    """What offsets/N says: up to where the batch reads, source by source."""

    sources: tuple[str, ...]  # JSON of each source's end offset, "-" for a source without one
    names: tuple[str, ...] = ()  # of the sources, in version 2
    timestamp_ms: int | None
    watermark_ms: int | None
    conf: Mapping[str, str]

    @property
    def shuffle_partitions(self) -> int | None:
        """How many partitions stateful operators have."""
        text = self.conf.get("spark.sql.shuffle.partitions", "")
        return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFile:
    """What commits/N says. `unique_ids`: operator → partition → store by store, in checkpoint format 2."""

    watermark_ms: int | None
    unique_ids: Mapping[int, tuple[tuple[str, ...], ...]]


def parse_offsets(data: bytes) -> OffsetFile:
    """LogFormatError if this is not an offset log (empty, cut short), NewerLogError if it is one of a newer version."""
    version, lines = log_lines(data, newest=OFFSETS_VERSION)
    first = lines[0] if lines else ""
    metadata = json_object(first) if first not in ("", "-") else {}
    sources = lines[1:]
    names: list[str] = []
    if version > 1:
        named = [line.partition(":") for line in sources]
        if not all(colon for _, colon, _ in named):
            raise LogFormatError("a source has no name")
        names, sources = [name for name, _, _ in named], [offset for _, _, offset in named]
    for source in sources:
        if source != "-":
            _json(source)
    conf = metadata.get("conf", {})
    return OffsetFile(
        sources=tuple(sources),
        names=tuple(names),
        timestamp_ms=integer_of(metadata.get("batchTimestampMs")),
        watermark_ms=integer_of(metadata.get("batchWatermarkMs")),
        conf={str(k): str(v) for k, v in conf.items()} if isinstance(conf, dict) else {},
    )


def parse_commit(data: bytes) -> CommitFile:
    """LogFormatError if this is not a commit log (empty, cut short), NewerLogError if it is one of a newer version."""
    _, lines = log_lines(data, newest=COMMITS_VERSION)
    metadata = json_object(lines[0]) if lines and lines[0] else {}
    found: dict[int, tuple[tuple[str, ...], ...]] = {}
    ids = metadata.get("stateUniqueIds")
    for operator, partitions in ids.items() if isinstance(ids, dict) else ():
        if not (operator.isdecimal() and isinstance(partitions, list)):
            raise LogFormatError("its state ids are not what Spark writes")
        found[int(operator)] = tuple(
            tuple(str(one) for one in stores) if isinstance(stores, list) else () for stores in partitions
        )
    return CommitFile(watermark_ms=integer_of(metadata.get("nextBatchWatermarkMs")), unique_ids=found)


def parse_query_id(data: bytes) -> str:
    """The query's id in the `metadata` file."""
    query_id = json_object(_decoded(data)).get("id")
    if not isinstance(query_id, str):
        raise LogFormatError("it has no id")
    return query_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """What a `.crc` file of Spark's file checksums says about the file beside it."""

    crc: int
    size: int


def parse_checksum(data: bytes) -> Checksum | None:
    """None if it is another kind of checksum (Hadoop's own `.crc` files are binary)."""
    try:
        values = json_object(_decoded(data))
    except LogFormatError:
        return None
    crc, size = integer_of(values.get("value")), integer_of(values.get("mainFileSize"))
    if values.get("algorithm") != "CRC32C" or crc is None or size is None:
        return None
    return Checksum(crc=crc & 0xFFFFFFFF, size=size)


def parse_sst_list(data: bytes) -> dict[str, int]:
    """Names below SSTs/ and sizes from the `metadata` entry in a RocksDB zip. LogFormatError if it is not one."""
    _, lines = log_lines(data, newest=_SST_LIST_VERSION)
    files = (json_object(lines[0]) if lines else {}).get("sstFiles")
    if not isinstance(files, list):
        raise LogFormatError("it lists no SST files")
    found: dict[str, int] = {}
    for one in files:
        size = integer_of(one.get("sizeBytes")) if isinstance(one, dict) else None
        if size is None or not isinstance(one.get("dfsSstFileName"), str):
            raise LogFormatError("an SST file has no name or no size")
        found[one["dfsSstFileName"]] = size
    return found


def log_lines(data: bytes, *, newest: int) -> tuple[int, list[str]]:
    """The version, and the lines after it. NewerLogError if it is newer than the newest that is known."""
    version, *lines = _decoded(data).split("\n")
    if not version:
        raise LogFormatError("it is empty")
    match = _VERSION.fullmatch(version)
    if match is None:
        raise LogFormatError(f"it begins with {version[:20]!a}, not with a version")
    if int(match[1]) > newest:
        raise NewerLogError(f"it has version {match[1]}, and this program knows up to {newest}")
    return int(match[1]), lines[:-1] if lines and not lines[-1] else lines


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise LogFormatError("it is not text") from error


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogFormatError("it is cut short or damaged") from error
    return value


def json_object(text: str) -> dict[str, object]:
    value = _json(text)
    if not isinstance(value, dict):
        raise LogFormatError("it is not what Spark writes")
    return value


def integer_of(value: object) -> int | None:
    return value if type(value) is int else None
