"""What Spark says of a stateful operator: which partitions it has, and where the files of its state's schema are.

Pure. It is in state/OPERATOR/_metadata. Version 1 is one file, `metadata`. Version 2 (`transformWithState`) is a file
for each start of the query, `v2/N`, valid from batch N on. It names the files of the state's schema by whole addresses,
so a checkpoint that is copied to another place must have them rewritten: else the query does not start, or reads
the schema of where it came from.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.checkpoint.layout import DEFAULT_STORE, LogFormatError, integer_of, json_object, log_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

METADATA_VERSION: Final = 2

_PATH: Final = re.compile(r"state/(\d{1,9})/_metadata/(?:metadata|v2/(\d{1,18}))", re.ASCII)
_VERSIONED: Final = re.compile(r"(?:(.+)/)?state/\d{1,9}/_metadata/v2/\d{1,18}", re.ASCII | re.DOTALL)
_SCHEMA_FOLDER: Final = re.compile(r"/(state/\d{1,9}/_stateSchema/[^/].*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStores:
    """How many partitions each store of an operator has, and where it says that its schema files are."""

    operator: int
    name: str
    stores: Mapping[str, int]
    schema_addresses: tuple[str, ...] = ()


def operator_paths(paths: Iterable[str], *, batch: int | None) -> list[str]:
    """Of each operator the metadata that counts after this batch (None: the newest). Relative to the checkpoint."""
    newest: dict[int, tuple[int, str]] = {}
    for path in paths:
        match = _PATH.fullmatch(path)
        if match is None:
            continue
        since = int(match[2] or 0)
        if batch is None or since <= batch:
            newest[int(match[1])] = max(newest.get(int(match[1]), (-1, "")), (since, path))
    return sorted(path for _, path in newest.values())


def parse_operator(data: bytes) -> OperatorStores:
    """LogFormatError if this is not an operator's metadata, NewerLogError if it is of a newer version."""
    metadata = _metadata_of(data)
    partitions: dict[str, int] = {}
    addresses: list[str] = []
    for store in _stores_of(metadata):
        count = integer_of(store.get("numPartitions"))
        if count is None:
            raise LogFormatError("a store has no number of partitions")
        partitions[str(store.get("storeName", DEFAULT_STORE))] = count
        addresses += _addresses_of(store)
    operator = metadata["operatorInfo"]
    assert isinstance(operator, dict)
    number = integer_of(operator.get("operatorId"))
    return OperatorStores(
        operator=-1 if number is None else number,
        name=str(operator.get("operatorName", "?")),
        stores=partitions,
        schema_addresses=tuple(addresses),
    )


def schema_path_of(address: str) -> str | None:
    """Which file of the checkpoint an address names, wherever the checkpoint was; None if it is not a schema file's."""
    match = _SCHEMA_FOLDER.search(address)
    return match[1] if match else None


def moved_metadata(data: bytes, home: str) -> bytes:
    """The same metadata for a checkpoint at `home` (`sos://VOLUME/path`); unchanged if it names no file elsewhere.

    LogFormatError as `parse_operator`.
    """
    metadata = _metadata_of(data)
    is_changed = False
    for store in _stores_of(metadata):
        before = _addresses_of(store)
        paths = [schema_path_of(address) for address in before]
        after = [f"{home}/{path}" if path else address for path, address in zip(paths, before, strict=True)]
        if after != before:
            store["stateSchemaFilePaths"] = after
            is_changed = True
    if not is_changed:
        return data
    version = data.partition(b"\n")[0]
    return version + b"\n" + json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode()


def checkpoint_of(path: str) -> str | None:
    """The checkpoint that a path belongs to, if it is metadata that names schema files; "" is the root."""
    match = _VERSIONED.fullmatch(path)
    return None if match is None else match[1] or ""


def _metadata_of(data: bytes) -> dict[str, object]:
    _, lines = log_lines(data, newest=METADATA_VERSION)
    metadata = json_object(lines[0]) if lines else {}
    if not isinstance(metadata.get("operatorInfo"), dict) or not isinstance(metadata.get("stateStoreInfo"), list):
        raise LogFormatError("it names no operator or no stores")
    return metadata


def _stores_of(metadata: dict[str, object]) -> list[dict[str, object]]:
    stores = metadata["stateStoreInfo"]
    assert isinstance(stores, list)
    if not all(isinstance(store, dict) for store in stores):
        raise LogFormatError("a store has no number of partitions")
    return stores


def _addresses_of(store: dict[str, object]) -> list[str]:
    addresses = store.get("stateSchemaFilePaths", [])
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise LogFormatError("the names of its schema files are not what Spark writes")
    return addresses
