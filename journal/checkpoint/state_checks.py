"""Which state a Spark checkpoint has whole. Pure.

The state of a query after batch N is version N+1 of every store. A version can be read if there is a whole file
(snapshot, zip) of it or of an earlier one, and every delta or changelog from there on; nothing at all is version 0.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from journal.checkpoint.layout import LogFormatError, StoreId, json_object, parse_sst_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from journal.checkpoint.layout import Checkpoint, CommitFile, OffsetFile, StateFile
    from journal.checkpoint.operator_metadata import OperatorStores

_SCHEMA_OPENING: Final = b"\0\2v2\0\0\0\1"  # version 2, a key schema in one piece
ZIP_METADATA_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChains:
    """The state files of a checkpoint, and which of them the commit log counts."""

    checkpoint: Checkpoint
    commits: Mapping[int, CommitFile]

    def readable(self, store: StoreId, batch: int) -> bool:
        """Whether the store's state after this batch is complete."""
        versions = self.checkpoint.state.get(store, {})
        for version in range(batch + 1, 0, -1):
            files = self.files_of(store, version)
            if any(one.whole for one in files):
                return True
            if version not in versions or not files:
                return False
        return True

    def files_of(self, store: StoreId, version: int) -> list[StateFile]:
        """Files of one version. In checkpoint format 2, those of attempts that failed do not count."""
        commit = self.commits.get(version - 1)
        partitions = commit.unique_ids.get(store.operator, ()) if commit else ()
        ids = partitions[store.partition] if store.partition < len(partitions) else ()
        files = self.checkpoint.state.get(store, {}).get(version, [])
        return [one for one in files if not ids or not one.unique_id or one.unique_id in ids]

    def lack(self, store: StoreId, batch: int) -> str:
        """Why the store's state after this batch is not readable, in words."""
        if not self.checkpoint.state.get(store):
            return "there are no state files at all"
        version = batch + 1
        while version > 0 and self.files_of(store, version):
            version -= 1
        return f"the file of version {version} is missing, so the state after batch {batch} cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOperators:
    """What is known of stateful operators besides their files."""

    operators: tuple[OperatorStores, ...]
    keyless: frozenset[int]  # those without a key: all their rows are in partition 0, whatever metadata says


def expected_stores(
    checkpoint: Checkpoint, known: KnownOperators, plan: OffsetFile | None, commit: CommitFile | None
) -> list[StoreId]:
    """Stores that must exist after a batch.

    The commit says how many partitions an operator has, in checkpoint format 2. Otherwise it has as many as the plan
    says, not as metadata of version 1, which an offline repartition leaves as it was. Directories of partitions beyond
    that stay, and are not used any more.
    """
    seen: dict[tuple[int, str], set[int]] = {}
    for one in checkpoint.state:
        seen.setdefault((one.operator, one.store), set()).add(one.partition)
    for described in known.operators:
        for store, partitions in described.stores.items():
            seen.setdefault((described.operator, store), set()).update(range(partitions))
    expected = set()
    for (operator, store), numbers in seen.items():
        count = _partitions(operator, numbers, known, plan, commit)
        for number in numbers if count is None else range(count):
            expected.add(StoreId(operator=operator, partition=number, store=store))
    return sorted(expected)


def _partitions(
    operator: int, numbers: set[int], known: KnownOperators, plan: OffsetFile | None, commit: CommitFile | None
) -> int | None:
    if commit is not None and commit.unique_ids.get(operator):
        return len(commit.unique_ids[operator])
    if operator in known.keyless:
        return 1
    # With files in partition 0 only and no metadata, it may be an operator without a key.
    return plan.shuffle_partitions if plan is not None and max(numbers) > 0 else None


def has_no_key(schema: bytes) -> bool:
    """Whether state/OPERATOR/0/_metadata/schema is of an operator without a key: a total, a limit.

    Java wrote it: the version, the number of pieces of the key's schema, and these, each after its length.
    """
    if not schema.startswith(_SCHEMA_OPENING):
        return False
    length = int.from_bytes(schema[len(_SCHEMA_OPENING) : len(_SCHEMA_OPENING) + 2], "big")
    try:
        fields = json_object(schema[len(_SCHEMA_OPENING) + 2 :][:length].decode()).get("fields")
    except (UnicodeDecodeError, LogFormatError):
        return False
    return isinstance(fields, list) and all(isinstance(one, dict) and one.get("type") == "void" for one in fields)


def sst_files(data: bytes) -> dict[str, int]:
    """What a RocksDB zip refers to below SSTs/, with sizes. LogFormatError if it is not such a zip."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            if archive.getinfo("metadata").file_size > ZIP_METADATA_BYTES_MAX:
                raise LogFormatError("its list of files is too large")
            return parse_sst_list(archive.read("metadata"))
    except (zipfile.BadZipFile, KeyError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise LogFormatError("it is cut short, or no zip of RocksDB") from error
