"""Where Spark Structured Streaming puts what in a checkpoint directory, without Spark. Pure.

Belongs here: what a path means, and what the small text logs say. Which files must exist for a query to go on is in
checkpoint_checks.py. Known: metadata, offsets/N, commits/N, sources/N/M, and state/OPERATOR/PARTITION/[STORE/] with
the files of the HDFS-backed store (delta, snapshot) and of RocksDB (zip, changelog, SSTs), in checkpoint format 1
(`7.zip`) and 2 (`7_ID.zip`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.paths import SCRATCH_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from journal.volume import FileStatus

LOG_BYTES_MAX: Final = (
    16 * 1024 * 1024
)  # offsets of a source with very many partitions; larger files are no offset logs
DEFAULT_STORE: Final = "default"  # what Spark calls the only store of an operator, which lies in the partition itself

_LOG: Final = re.compile(r"(.*?)(?:^|/)(offsets|commits)/(\d{1,18})", re.ASCII | re.DOTALL)
_STATE: Final = re.compile(
    r"state/(\d{1,9})/(\d{1,9})/(?:([^/]+)/)?(\d{1,18})(?:_([^/.]+))?\.(delta|snapshot|zip|changelog)", re.ASCII
)
_TEMPORARY: Final = re.compile(r"(?:^|/)\.[^/]*\.tmp$|(?:^|/)[^/]*\.tmp$", re.ASCII)


class LogFormatError(Exception):
    """A file of the checkpoint does not say what Spark writes there."""


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
class OffsetLog:
    """What offsets/N says: up to where the batch reads, source by source."""

    sources: tuple[str, ...]  # JSON of each source's end offset, "-" for a source without one
    timestamp_ms: int | None
    watermark_ms: int | None
    conf: Mapping[str, str]

    @property
    def shuffle_partitions(self) -> int | None:
        """How many partitions stateful operators have."""
        text = self.conf.get("spark.sql.shuffle.partitions", "")
        return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLog:
    """What commits/N says. `unique_ids`: operator → partition → store by store, in checkpoint format 2."""

    watermark_ms: int | None
    unique_ids: Mapping[int, tuple[tuple[str, ...], ...]]


def parse_offsets(data: bytes) -> OffsetLog:
    """LogFormatError if this is no offset log (empty, cut short, another version)."""
    lines = _lines(data)
    first = lines[0] if lines else ""
    metadata = _json_object(first) if first not in ("", "-") else {}
    for line in lines[1:]:
        if line != "-":
            _json(line)
    conf = metadata.get("conf", {})
    return OffsetLog(
        sources=tuple(lines[1:]),
        timestamp_ms=_integer(metadata.get("batchTimestampMs")),
        watermark_ms=_integer(metadata.get("batchWatermarkMs")),
        conf={str(k): str(v) for k, v in conf.items()} if isinstance(conf, dict) else {},
    )


def parse_commit(data: bytes) -> CommitLog:
    """LogFormatError if this is no commit log (empty, cut short, another version)."""
    lines = _lines(data)
    metadata = _json_object(lines[0]) if lines and lines[0] else {}
    found: dict[int, tuple[tuple[str, ...], ...]] = {}
    ids = metadata.get("stateUniqueIds")
    for operator, partitions in ids.items() if isinstance(ids, dict) else ():
        if not (operator.isdecimal() and isinstance(partitions, list)):
            raise LogFormatError("its state ids are not what Spark writes")
        found[int(operator)] = tuple(
            tuple(str(one) for one in stores) if isinstance(stores, list) else () for stores in partitions
        )
    return CommitLog(watermark_ms=_integer(metadata.get("nextBatchWatermarkMs")), unique_ids=found)


def parse_query_id(data: bytes) -> str:
    """The query's id in the `metadata` file."""
    query_id = _json_object(_decoded(data)).get("id")
    if not isinstance(query_id, str):
        raise LogFormatError("it has no id")
    return query_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStores:
    """How many partitions each store of an operator has: state/OPERATOR/_metadata/metadata."""

    operator: int
    name: str
    stores: Mapping[str, int]


def parse_operator(data: bytes) -> OperatorStores:
    """LogFormatError if this is no operator's metadata."""
    lines = _lines(data)
    metadata = _json_object(lines[0]) if lines else {}
    operator, stores = metadata.get("operatorInfo"), metadata.get("stateStoreInfo")
    if not isinstance(operator, dict) or not isinstance(stores, list):
        raise LogFormatError("it names no operator or no stores")
    partitions: dict[str, int] = {}
    for one in stores:
        count = _integer(one.get("numPartitions")) if isinstance(one, dict) else None
        if count is None:
            raise LogFormatError("a store has no number of partitions")
        partitions[str(one.get("storeName", DEFAULT_STORE))] = count
    number = _integer(operator.get("operatorId"))
    return OperatorStores(
        operator=-1 if number is None else number, name=str(operator.get("operatorName", "?")), stores=partitions
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """What a `.crc` file of Spark's file checksums says about the file beside it."""

    crc: int
    size: int


def parse_checksum(data: bytes) -> Checksum | None:
    """None if it is another kind of checksum (Hadoop's own `.crc` files are binary)."""
    try:
        values = _json_object(_decoded(data))
    except LogFormatError:
        return None
    crc, size = _integer(values.get("value")), _integer(values.get("mainFileSize"))
    if values.get("algorithm") != "CRC32C" or crc is None or size is None:
        return None
    return Checksum(crc=crc & 0xFFFFFFFF, size=size)


def parse_sst_list(data: bytes) -> dict[str, int]:
    """Names below SSTs/ and sizes from the `metadata` entry in a RocksDB zip. LogFormatError if it is none."""
    lines = _lines(data)
    files = (_json_object(lines[0]) if lines else {}).get("sstFiles")
    if not isinstance(files, list):
        raise LogFormatError("it lists no SST files")
    found: dict[str, int] = {}
    for one in files:
        size = _integer(one.get("sizeBytes")) if isinstance(one, dict) else None
        if size is None or not isinstance(one.get("dfsSstFileName"), str):
            raise LogFormatError("an SST file has no name or no size")
        found[one["dfsSstFileName"]] = size
    return found


def _lines(data: bytes) -> list[str]:
    """The lines after the version line."""
    version, *lines = _decoded(data).split("\n")
    if not version:
        raise LogFormatError("it is empty")
    if version not in ("v1", "v2"):
        raise LogFormatError(f"it begins with {version[:20]!a}, not with a version that is known here (v1, v2)")
    return lines[:-1] if lines and not lines[-1] else lines


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise LogFormatError("it is no text") from error


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogFormatError("it is cut short or damaged") from error
    return value


def _json_object(text: str) -> dict[str, object]:
    value = _json(text)
    if not isinstance(value, dict):
        raise LogFormatError("it is not what Spark writes")
    return value


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
