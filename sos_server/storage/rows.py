"""What the store knows about namespaces and objects, as rows: each is one change, and one msgpack array on disk.

Rows lie in the commit log (as payloads of object number 0) and in catalog files. Applying one twice changes nothing,
which is what recovery rests on. Pure; what rows do to the store's memory is in `contents.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from sos_client.wire.errors import DamagedError, ProtocolError
from sos_client.wire.msgpack_edge import pack, unpack


@dataclasses.dataclass(frozen=True, slots=True)
class NamespaceMade:
    number: int
    name: str
    incarnation: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Claimed:
    namespace: int
    epoch: int
    holder: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectMade:
    number: int
    namespace: int
    name: str
    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class EpochRaised:
    """An append under a newer claim began."""

    number: int
    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectSealed:
    number: int
    size: int
    crc: int
    time: float


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectDeleted:
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectState:
    """All that a catalog knows of an object. `size`, `crc` and `tail_crc` are of what its file holds, synced.

    `tail_crc` is the CRC of the last chunk as far as it is filled; `sealed_time` is None while it may grow.
    """

    number: int
    namespace: int
    name: str
    epoch: int
    size: int
    crc: int
    tail_crc: int
    sealed_time: float | None
    cut_bytes: int
    damaged: bool


Row = NamespaceMade | Claimed | ObjectMade | EpochRaised | ObjectSealed | ObjectDeleted | ObjectState

# The numbers on disk. Never renumbered, never reused.
KINDS: Final[dict[int, type[Row]]] = {
    1: NamespaceMade,
    2: Claimed,
    3: ObjectMade,
    4: EpochRaised,
    5: ObjectSealed,
    6: ObjectDeleted,
    7: ObjectState,
}
_NUMBERS: Final = {kind: number for number, kind in KINDS.items()}
_FIELDS: Final = {kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in _NUMBERS}
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "name": str,
    "incarnation": bytes,
    "holder": bytes,
    "time": float,
    "sealed_time": (float, type(None)),
    "damaged": bool,
}


def encode_row(row: Row) -> bytes:
    """The row's kind and fields as one msgpack array."""
    kind = type(row)
    return pack([_NUMBERS[kind], *[getattr(row, name) for name in _FIELDS[kind]]])


def decode_row(data: bytes | memoryview) -> Row:
    """The row, or DamagedError. A kind that is not known is damage, too: new kinds come with a new version."""
    try:
        value = unpack(data)
    except ProtocolError as error:
        raise DamagedError(f"not a catalog row: {error}") from error
    if not isinstance(value, list) or not value or not isinstance(value[0], int):
        raise DamagedError("not a catalog row: no kind")
    kind = KINDS.get(value[0])
    if kind is None or len(value) != 1 + len(_FIELDS[kind]):
        raise DamagedError(f"not a catalog row: kind {value[0]} with {len(value) - 1} fields")
    for name, field in zip(_FIELDS[kind], value[1:], strict=True):
        expected = _TYPES.get(name)
        if not (isinstance(field, expected) if expected else _is_natural(field)):
            raise DamagedError(f"not a catalog row: {kind.__name__}.{name}")
    return kind(*value[1:])


def _is_natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
