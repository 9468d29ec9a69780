"""What the store knows about namespaces and objects, as rows: each is one change, and one msgpack array on disk.

Rows lie in the commit log (as payloads of object number 0) and in catalog files. Applying one twice changes nothing,
which is what recovery rests on. Pure; what rows do to the store's memory is in `contents.py`.

Each field is annotated with what it may be on disk; the annotations are read at import, so they are not postponed here.
"""

import dataclasses
from typing import Annotated, Any, Final

from sos_client.wire.errors import DamagedError, ProtocolError
from sos_client.wire.msgpack_edge import pack, unpack
from sos_client.wire.shapes import BINARY, FLAG, TEXT, ArrayShape, Shape, optional, whole

_FLOAT: Final = Shape(what="a float", test="type(it) is float")

Natural = Annotated[int, whole((1 << 64) - 1)]
Text = Annotated[str, TEXT]
Binary = Annotated[bytes, BINARY]
Time = Annotated[float, _FLOAT]
MaybeTime = Annotated[float | None, optional(_FLOAT)]
Flag = Annotated[bool, FLAG]


@dataclasses.dataclass(frozen=True, slots=True)
class NamespaceMade:
    number: Natural
    name: Text
    incarnation: Binary


@dataclasses.dataclass(frozen=True, slots=True)
class Claimed:
    namespace: Natural
    epoch: Natural
    holder: Binary


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectMade:
    number: Natural
    namespace: Natural
    name: Text
    epoch: Natural


@dataclasses.dataclass(frozen=True, slots=True)
class EpochRaised:
    """An append under a newer claim began."""

    number: Natural
    epoch: Natural


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectSealed:
    number: Natural
    size: Natural
    crc: Natural
    time: Time


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectDeleted:
    number: Natural


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectState:
    """All that a catalog knows of an object. `size`, `crc` and `tail_crc` are of what its file holds, synced.

    `tail_crc` is the CRC of the last chunk as far as it is filled; `sealed_time` is None while it may grow.
    """

    number: Natural
    namespace: Natural
    name: Text
    epoch: Natural
    size: Natural
    crc: Natural
    tail_crc: Natural
    sealed_time: MaybeTime
    cut_bytes: Natural
    damaged: Flag


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
_SHAPES: Final[dict[type[Row], ArrayShape[Any]]] = {kind: ArrayShape.of(kind) for kind in _NUMBERS}


def encode_row(row: Row) -> bytes:
    """The row's kind and fields as one msgpack array."""
    kind = type(row)
    return pack([_NUMBERS[kind], *_SHAPES[kind].write(row)])


def decode_row(data: bytes | memoryview) -> Row:
    """The row, or DamagedError. A kind that is not known is damage, too: new kinds come with a new version."""
    try:
        row: Row = _read(unpack(data))
    except ProtocolError as error:
        raise DamagedError(f"not a catalog row: {error}") from error
    return row


def _read(value: object) -> Any:
    if type(value) is not list or not value or type(value[0]) is not int:
        raise ProtocolError("no kind")
    kind = KINDS.get(value[0])
    if kind is None:
        raise ProtocolError(f"kind {value[0]} with {len(value) - 1} fields")
    return _SHAPES[kind].read(value[1:])
