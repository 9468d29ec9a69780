"""Which state a Spark checkpoint has whole. Pure.

The state of a query after batch N is version N+1 of every store. A version can be read if there is a whole file
(snapshot, zip) of it or of an earlier one, and every delta or changelog from there on; nothing at all is version 0.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.checkpoint_layout import LogFormatError, StoreId, parse_sst_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from journal.checkpoint_layout import Checkpoint, CommitLog, OffsetLog, OperatorStores, StateFile

ZIP_METADATA_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChains:
    """The state files of a checkpoint, and which of them the commit log counts."""

    checkpoint: Checkpoint
    commits: Mapping[int, CommitLog]

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
        """Files of one version:

        in checkpoint format 2 there may be others, of attempts that failed, which do not count.
        """
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


def expected_stores(
    checkpoint: Checkpoint, operators: Iterable[OperatorStores], newest: OffsetLog | None
) -> list[StoreId]:
    """Stores that must exist: those that operators' metadata names, and those that are there in any partition."""
    expected = set(checkpoint.state)
    for known in operators:
        for name, partitions in known.stores.items():
            expected |= {StoreId(operator=known.operator, partition=number, store=name) for number in range(partitions)}
    shuffled = newest.shuffle_partitions if newest is not None else None
    for operator, store in {(one.operator, one.store) for one in expected} if shuffled else ():
        numbers = [one.partition for one in expected if (one.operator, one.store) == (operator, store)]
        for number in range(min(shuffled or 0, max(numbers) + 1)):
            expected.add(StoreId(operator=operator, partition=number, store=store))
    return sorted(expected)


def sst_files(data: bytes) -> dict[str, int]:
    """What a RocksDB zip refers to below SSTs/, with sizes. LogFormatError if it is no such zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.getinfo("metadata").file_size > ZIP_METADATA_BYTES_MAX:
                raise LogFormatError("its list of files is too large")
            return parse_sst_list(archive.read("metadata"))
    except (zipfile.BadZipFile, KeyError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise LogFormatError("it is cut short, or no zip of RocksDB") from error
