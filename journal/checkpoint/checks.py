"""Whether a Spark checkpoint fits together, and what to do if not, in plain words. Pure.

Belongs here: the rules between offsets, commits and state files. What a path or a file means is in
layout.py; which
state is whole, in state_checks.py. Whether the bytes are what was written, the journal knows.

The state of a query after batch N is version N+1 of every store. A version can be read if there is a whole file
(snapshot, zip) of it or of an earlier one, and every delta or changelog from there on; nothing at all is version 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from journal.checkpoint.layout import (
    Checkpoint,
    CommitFile,
    LogFormatError,
    NewerLogError,
    OffsetFile,
    StateFile,
    StoreId,
    parse_checksum,
    parse_commit,
    parse_offsets,
    parse_query_id,
)
from journal.checkpoint.operator_metadata import OperatorStores, operator_paths, parse_operator, schema_path_of
from journal.checkpoint.state_checks import KnownOperators, StateChains, expected_stores, has_no_key, sst_files
from journal.records.shards import shard_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from journal.records.shards import Shard

_SCHEMA: Final = re.compile(r"state/(\d{1,9})/0/_metadata/schema", re.ASCII)
SHOWN_MAX: Final = 5  # of many things that are wrong in the same way


class Severity(IntEnum):
    """How bad it is: the verdict is the worst finding's."""

    OK = 0
    NOTE = 1
    WARNING = 2
    FAILURE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing, and what to do about it."""

    severity: Severity
    what: str
    advice: str = ""
    path: str = ""


@dataclass(slots=True)
class Diagnosis:
    """What was found, and from which batch the query can go on."""

    findings: list[Finding] = field(default_factory=list)
    query_id: str | None = None
    last_planned: int | None = None
    last_committed: int | None = None
    resumable: int | None = None  # the newest committed batch whose state is complete

    @property
    def severity(self) -> Severity:
        return max((finding.severity for finding in self.findings), default=Severity.OK)


def wanted_contents(checkpoint: Checkpoint) -> list[str]:
    """The small files that `diagnose` looks into, and the zips of the state that the query would start from."""
    paths = [f"offsets/{batch}" for batch in checkpoint.offsets] + [f"commits/{batch}" for batch in checkpoint.commits]
    paths += [path for path in checkpoint.files if path.endswith(".crc") or path == "metadata"]
    paths += [path for path in checkpoint.files if _SCHEMA.fullmatch(path)]
    paths += operator_paths(checkpoint.files, batch=checkpoint.last_committed)
    if checkpoint.last_committed is not None:
        newest = [versions.get(checkpoint.last_committed + 1, []) for versions in checkpoint.state.values()]
        paths += [state.path for files in newest for state in files if state.kind == "zip"]
    return [path for path in paths if path in checkpoint.files]


def diagnose(
    checkpoint: Checkpoint, contents: Mapping[str, bytes], *, home: str, shard: Shard | None = None
) -> Diagnosis:
    """Everything that is wrong with a checkpoint.

    `contents`: the files that `wanted_contents` names. `home`: the checkpoint's own address, `sos://VOLUME/path`.
    `shard`: these are the files of one shard of the volume; what lies in the others is not missed.
    """
    doctor = _Doctor(checkpoint, contents, home, shard)
    doctor.look_at_query_id()
    doctor.look_at_logs()
    doctor.look_at_operators()
    doctor.look_at_state()
    doctor.look_at_checksums()
    doctor.look_at_leftovers()
    return doctor.diagnosis


class _Doctor:
    def __init__(self, checkpoint: Checkpoint, contents: Mapping[str, bytes], home: str, shard: Shard | None) -> None:
        self.checkpoint = checkpoint
        self.contents = contents
        self.home = home
        self.shard = shard
        self.operators: list[OperatorStores] = []
        self.offsets: dict[int, OffsetFile] = {}
        self.commits: dict[int, CommitFile] = {}
        self.diagnosis = Diagnosis(last_planned=checkpoint.last_planned, last_committed=checkpoint.last_committed)

    def _find(self, severity: Severity, what: str, advice: str = "", path: str = "") -> None:
        self.diagnosis.findings.append(Finding(severity=severity, what=what, advice=advice, path=path))

    def look_at_query_id(self) -> None:
        try:
            data = self.contents.get("metadata")
            self.diagnosis.query_id = None if data is None else parse_query_id(data)
        except LogFormatError as error:
            self._find(
                Severity.FAILURE,
                f"the file `metadata` cannot be used: {error}",
                "restore this file from an earlier moment; without it the query gets another id",
                "metadata",
            )
            return
        if self.diagnosis.query_id is None and (self.checkpoint.offsets or self.checkpoint.commits):
            self._find(
                Severity.WARNING,
                "the file `metadata` is missing, which holds the query's id",
                "the query can go on, but under another id; sinks that remember the id will not know it",
                "metadata",
            )

    def look_at_logs(self) -> None:
        for batch in sorted(self.checkpoint.offsets):
            try:
                self.offsets[batch] = parse_offsets(self.contents.get(f"offsets/{batch}", b""))
            except LogFormatError as error:
                self._broken_log(f"offsets/{batch}", batch, error)
        for batch in sorted(self.checkpoint.commits):
            try:
                self.commits[batch] = parse_commit(self.contents.get(f"commits/{batch}", b""))
            except LogFormatError as error:
                self._broken_log(f"commits/{batch}", batch, error)
        self._look_at_order()

    def _broken_log(self, path: str, batch: int, error: LogFormatError) -> None:
        if isinstance(error, NewerLogError):
            advice = "a newer Spark wrote it: look with a newer sos-journal"
            self._find(Severity.WARNING, f"{path} cannot be checked: {error}", advice, path)
            return
        newest = batch in (self.diagnosis.last_planned, self.diagnosis.last_committed)
        self._find(
            Severity.FAILURE if newest else Severity.WARNING,
            f"{path} cannot be used: {error}",
            f"restore the checkpoint at an earlier moment, for instance batch:{max(0, batch - 1)}"
            if newest
            else "Spark reads only the newest ones; it matters when you go back to this batch",
            path,
        )

    def _look_at_order(self) -> None:
        planned, committed = self.diagnosis.last_planned, self.diagnosis.last_committed
        if committed is not None and committed not in self.checkpoint.offsets:
            self._find(
                Severity.FAILURE,
                f"batch {committed} is committed, but its plan offsets/{committed} is missing",
                f"restore offsets/{committed} from the moment batch:{committed}",
                f"offsets/{committed}",
            )
        elif planned is not None and planned - (-1 if committed is None else committed) > 1 and committed is not None:
            self._find(
                Severity.WARNING,
                f"batches up to {planned} are planned, but only those up to {committed} are committed",
                "with asynchronous progress tracking this is normal; otherwise commit files are missing",
            )
        for name, log in (("offsets", self.checkpoint.offsets), ("commits", self.checkpoint.commits)):
            gaps = _gaps(sorted(log))
            if gaps:
                self._find(
                    Severity.WARNING,
                    f"{name} has gaps: {_some(gaps)} missing",
                    "with asynchronous progress tracking this is normal; otherwise somebody deleted them",
                    name,
                )

    def look_at_operators(self) -> None:
        for path in operator_paths(self.checkpoint.files, batch=self.diagnosis.last_committed):
            try:
                operator = parse_operator(self.contents.get(path, b""))
            except LogFormatError as error:
                advice = "restore this file; the state reader needs it, a running query does not"
                self._find(Severity.WARNING, f"{path} cannot be used: {error}", advice, path)
                continue
            self.operators.append(operator)
            self._look_at_schemas(path, operator)

    def _look_at_schemas(self, path: str, operator: OperatorStores) -> None:
        for address in dict.fromkeys(operator.schema_addresses):
            relative = schema_path_of(address)
            if relative is None or address != f"{self.home}/{relative}":
                self._find(
                    Severity.FAILURE,
                    f"{path} names a schema file of another place: {address}",
                    "the query does not start with it, or reads that file instead of its own; `import` or `fork` the "
                    "checkpoint to a new path, which rewrites the names",
                    path,
                )
            elif relative not in self.checkpoint.files:
                self._find(Severity.FAILURE, f"{relative} is missing, which {path} names", _BACK, relative)

    def _stores_after(self, batch: int) -> list[StoreId]:
        newest = self.offsets.get(-1 if self.diagnosis.last_planned is None else self.diagnosis.last_planned)
        schemas = {path: match for path in self.contents if (match := _SCHEMA.fullmatch(path))}
        keyless = frozenset(int(match[1]) for path, match in schemas.items() if has_no_key(self.contents[path]))
        known = KnownOperators(operators=tuple(self.operators), keyless=keyless)
        return expected_stores(self.checkpoint, known, self.offsets.get(batch, newest), self.commits.get(batch))

    def _stores_here_after(self, batch: int) -> list[StoreId]:
        return [store for store in self._stores_after(batch) if self._is_here(store)]

    def _is_here(self, store: StoreId) -> bool:
        if self.shard is None:
            return True
        return shard_of(f"state/{store.operator}/{store.partition}", self.shard.count) == self.shard.index

    def look_at_state(self) -> None:
        chains = StateChains(checkpoint=self.checkpoint, commits=self.commits)
        last = self.diagnosis.last_committed
        expected = [] if last is None else self._stores_after(last)
        stores = [store for store in expected if self._is_here(store)]
        if self.shard is not None and len(stores) < len(expected):
            self._find(
                Severity.NOTE,
                f"only shard {self.shard.index} of {self.shard.count} was looked at: {len(stores)} of {len(expected)} "
                "state stores",
                f"`sos-journal doctor {self.home}` looks at all of them",
            )
        if last is None or not stores:
            self.diagnosis.resumable = last
            return
        self._note_abandoned(stores)
        missing = [store for store in stores if not chains.readable(store, last)]
        if not missing:
            self.diagnosis.resumable = last
            self._look_at_zips(chains, stores, last)
            return
        earlier = [
            batch
            for batch in sorted(self.checkpoint.commits, reverse=True)
            if batch in self.checkpoint.offsets
            and all(chains.readable(store, batch) for store in self._stores_here_after(batch))
        ]
        self.diagnosis.resumable = earlier[0] if earlier else None
        advice = (
            f"the newest batch with complete state is {earlier[0]}: restore or fork it at batch:{earlier[0]}"
            if earlier
            else "no batch here has complete state: look for an earlier moment with `batches`, and restore that"
        )
        for store in missing[:SHOWN_MAX]:
            self._find(Severity.FAILURE, f"{store}: {chains.lack(store, last)}", advice)
        if len(missing) > SHOWN_MAX:
            self._find(Severity.FAILURE, f"the same in {len(missing) - SHOWN_MAX} more stores", advice)

    def _note_abandoned(self, stores: list[StoreId]) -> None:
        abandoned = sorted({store.partition for store in self.checkpoint.state.keys() - set(stores)})
        if abandoned:
            self._find(
                Severity.NOTE,
                f"partitions {_some(abandoned)} are not used any more: the state was repartitioned to fewer",
                "they are harmless; going back to a batch before that needs them",
            )

    def _look_at_zips(self, chains: StateChains, stores: list[StoreId], batch: int) -> None:
        for store in stores:
            for state in chains.files_of(store, batch + 1):
                data = self.contents.get(state.path)
                if state.kind == "zip" and data is not None:
                    self._look_at_zip(state, data)

    def _look_at_zip(self, state: StateFile, data: bytes) -> None:
        try:
            needed = sst_files(data)
        except LogFormatError as error:
            self._find(Severity.FAILURE, f"{state.path} cannot be used: {error}", _BACK, state.path)
            return
        folder = state.path.rpartition("/")[0]
        for name, size in needed.items():
            status = self.checkpoint.files.get(f"{folder}/SSTs/{name}")
            if status is None:
                self._find(Severity.FAILURE, f"{state.path} needs SSTs/{name}, which is missing", _BACK, state.path)
            elif status.size != size:
                what = f"SSTs/{name} has {status.size} bytes, but {state.path} was written with {size}"
                self._find(Severity.FAILURE, what, _BACK, status.path)

    def look_at_checksums(self) -> None:
        for path, data in self.contents.items():
            checksum = parse_checksum(data) if path.endswith(".crc") else None
            main = self.checkpoint.files.get(path.removesuffix(".crc"))
            if checksum is None or main is None:
                continue
            if main.size != checksum.size or main.crc not in (None, checksum.crc):
                what = f"{path.removesuffix('.crc')} is not the file that Spark's checksum beside it was made for"
                self._find(Severity.FAILURE, what, _BACK, path)

    def look_at_leftovers(self) -> None:
        if self.checkpoint.temporary:
            self._find(
                Severity.NOTE,
                f"{len(self.checkpoint.temporary)} temporary files are left over: {_some(self.checkpoint.temporary)}",
                "they are harmless; another file manager left them, and they may be deleted",
            )


_BACK: Final = "restore or fork the checkpoint at an earlier moment; `batches` shows them"


def _gaps(batches: list[int]) -> list[int]:
    """Up to some hundred numbers missing between the first and the last."""
    found: list[int] = []
    for before, after in pairwise(batches):
        found.extend(range(before + 1, min(after, before + 100)))
        if len(found) > 100:
            break
    return found


def _some(items: list[int] | list[str]) -> str:
    shown = ", ".join(str(item) for item in items[:SHOWN_MAX])
    return shown if len(items) <= SHOWN_MAX else f"{shown} and {len(items) - SHOWN_MAX} more"
