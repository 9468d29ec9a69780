"""What a driver says when it wants a batch committed: the manifest (STAGING.md).

Pure. What is wrong with one is a RefusedByVolumeError with a sentence for whoever wrote the query.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from journal.errors import JournalCode, RefusedByVolumeError, refused
from journal.records.paths import check_path
from sos_client.wire.names import check_name

VERSION: Final = 2
"""In version 1 a query staged under its id alone, so that a fork could not be at the relay of its original."""
VERSIONS_READ: Final = (1, 2)
MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024
SINKS_MAX: Final = 64
ATTEMPTS: Final = 5
ATTEMPTS_MAX: Final = 1000
BATCH_MAX: Final = 2**63 - 1
COOKIE_BYTES_MAX: Final = 1024

_QUERY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_PLACE: Final = re.compile(r"[A-Za-z0-9_-]{1,81}", re.ASCII)
_DIGITS: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_PLAN: Final = re.compile(r"[0-9a-f]{64}|", re.ASCII)
_BATCH: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_CHECKPOINT: Final = re.compile(r"sos://(?P<volume>[^/]+)(?:/(?P<path>.*))?", re.DOTALL)
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})", re.ASCII)
_FIELDS: Final = frozenset(
    ("version", "query", "batch", "run", "checkpoint", "sinks", "order", "cookie", "attempts", "parts", "plan")
)
_MAY_BE_ABSENT: Final = frozenset(("cookie", "attempts", "plan"))


class RowOrder(Enum):
    """In which order the rows of a batch go out."""

    PARTITION = "partition"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """A winning attempt: the name of its file, and what should be in it."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchManifest:
    """A batch that is to be committed."""

    query: str
    place: str
    """Of this query with this checkpoint: where it stages, and what it is called at its sinks."""
    batch: int
    run: str
    volume: str
    checkpoint: str  # its path in the volume
    sinks: tuple[str, ...]
    order: RowOrder
    cookie: bytes
    attempts: int
    parts: tuple[StagedPart, ...]
    plan: str  # which rows of its sources are this batch, as a hash; empty: it was not said

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


def staged_place(components: tuple[str, ...]) -> tuple[str, int, str, str]:
    """Place, batch, run and part of `PLACE/BATCH/RUN/PART`."""
    if len(components) == 4:
        place, batch, run, part = components
        if all((_PLACE.fullmatch(place), _BATCH.fullmatch(batch), _NAME.fullmatch(run), _NAME.fullmatch(part))):
            return place, int(batch), run, part
    raise _bad(f"{'/'.join(components)[:300]} is not where a staged file can be: write PLACE/BATCH/RUN/PART")


def is_place(text: str) -> bool:
    """Whether a query can stage there."""
    return _PLACE.fullmatch(text) is not None


def place_of(query: str, checkpoint: str) -> str:
    """Where a query stages whose checkpoint is there: a fork has the id of its original, and another checkpoint."""
    return f"{query}-{hashlib.sha256(checkpoint.encode()).hexdigest()[:_DIGITS]}"


def parse_manifest(data: bytes, *, place: str, batch: int) -> BatchManifest:
    """The manifest of this batch."""
    try:
        fields = json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _bad(f"the manifest is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise _bad("the manifest is not a JSON object")
    unknown, absent = fields.keys() - _FIELDS, _FIELDS - _MAY_BE_ABSENT - fields.keys()
    if unknown or absent:
        raise _bad(f"fields of the manifest: unknown {sorted(unknown)}, absent {sorted(absent)}")
    if fields["version"] not in VERSIONS_READ:
        raise _bad(f"a manifest of version {fields['version']!r}: this relay knows versions up to {VERSION}")
    volume, checkpoint = _checkpoint(fields["checkpoint"])
    query = _text(fields, "query", _QUERY)
    expected = query if fields["version"] == 1 else place_of(query, fields["checkpoint"])
    if place != expected or fields["batch"] != batch:
        raise _bad("the manifest is of another query, checkpoint or batch than its path")
    return BatchManifest(
        query=query,
        place=place,
        batch=batch,
        run=_text(fields, "run", _NAME),
        volume=volume,
        checkpoint=checkpoint,
        sinks=_sinks(fields["sinks"]),
        order=_order(fields["order"]),
        cookie=_cookie(fields.get("cookie", "")),
        attempts=_number(fields.get("attempts", ATTEMPTS), "attempts", 1, ATTEMPTS_MAX),
        parts=_parts(fields["parts"]),
        plan=_text({"plan": ""} | fields, "plan", _PLAN),
    )


def _bad(message: str) -> RefusedByVolumeError:
    return refused(JournalCode.BAD_REQUEST, message)


def _text(fields: dict[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = fields[name]
    if not isinstance(value, str) or not form.fullmatch(value):
        raise _bad(f"the manifest's {name} is {str(value)[:100]!r}, which is not allowed")
    return value


def _number(value: Any, name: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _bad(f"the manifest's {name} is {str(value)[:100]}: write a number from {least} to {most}")
    return value


def _checkpoint(value: Any) -> tuple[str, str]:
    found = _CHECKPOINT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _bad(
            f"the checkpoint is at {str(value)[:300]!r}: decisions are kept beside it, on a volume; "
            "put it at sos://VOLUME/path"
        )
    path = (found["path"] or "").rstrip("/")
    check_path(path)
    return check_name(found["volume"]), path


def _sinks(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= SINKS_MAX:
        raise _bad(f"write 1 to {SINKS_MAX} sinks, as HOST:PORT,…")
    for address in value:
        found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
        if found is None or not 0 < int(found["port"]) < 1 << 16:
            raise _bad(f"{str(address)[:200]!r} is not the address of a sink: write HOST:PORT")
    if len(set(value)) != len(value):
        raise _bad(f"a sink is named twice in {', '.join(value)}")
    return tuple(value)


def _order(value: Any) -> RowOrder:
    try:
        return RowOrder(value)
    except ValueError:
        raise _bad(f"the order is {str(value)[:100]!r}: write partition or sequence") from None


def _cookie(value: Any) -> bytes:
    if not isinstance(value, str) or len(cookie := value.encode("utf-8", "replace")) > COOKIE_BYTES_MAX:
        raise _bad(f"the cookie is not a text of at most {COOKIE_BYTES_MAX} bytes")
    return cookie


def _parts(value: Any) -> tuple[StagedPart, ...]:
    parts = []
    for entry in value if isinstance(value, list) else [None]:
        if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str):
            raise _bad("the manifest's parts are not a list of [name, rows, bytes]")
        name, rows, size = entry
        if not _NAME.fullmatch(name):
            raise _bad(f"{name[:100]!r} is not the name of a staged file")
        parts.append(
            StagedPart(name=name, rows=_number(rows, "rows", 0, BATCH_MAX), bytes=_number(size, "bytes", 0, BATCH_MAX))
        )
    if len({part.name for part in parts}) != len(parts):
        raise _bad("the manifest names a staged file twice")
    return tuple(parts)
