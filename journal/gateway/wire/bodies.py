"""The shapes of the file protocol's messages as msgpack arrays, for both ways. Pure.

Belongs here: which bodies are the array of a message's fields, and the arrays that stand before or among raw bytes.
The raw rest is encoding.py's and decoding.py's.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.elements import INSTANCE, TEXTS
from journal.kept_past import Retention
from journal.volume import OperationId, PathClaim, VolumeDescription
from sos_client.wire.msgpack_edge import unpack
from sos_client.wire.shapes import ANY, FLAG, NUMBER, TEXT, ArrayShape, Shape, optional


def unpacked(body: memoryview) -> object:
    """The one msgpack value that these bytes are, within the limits of the protocol. ProtocolError."""
    return unpack(
        body,
        array_max=limits.ARRAY_MAX,
        string_bytes_max=limits.TEXT_BYTES_MAX,
        binary_bytes_max=limits.BINARY_BYTES_MAX,
    )


def _described(epoch: int, servers: tuple[str, ...], *limits: int) -> m.DescriptionAnswer:
    description = VolumeDescription(servers=servers, retention=Retention(**dict(zip(_LIMITS, limits, strict=True))))
    return m.DescriptionAnswer(epoch=epoch, description=description)


_LIMITS: Final = ("seconds", "bytes")
_DESCRIPTION: Final = ArrayShape(
    _described,
    {
        "epoch": NUMBER,
        "description.servers": TEXTS,
        **{f"description.retention.{name}": NUMBER for name in _LIMITS},
    },
    name="DescriptionAnswer",
    by_name=False,
)
_WITH_RAW_BYTES: Final = frozenset({m.HelloRequest, m.PutRequest, m.AppendRequest, m.FileData})
PLAIN: Final[dict[type[Any], ArrayShape[Any]]] = {
    message: ArrayShape.of(message)
    for message in (*get_args(m.Request), *get_args(m.Answer))
    if message not in _WITH_RAW_BYTES | {m.DescriptionAnswer}
} | {m.DescriptionAnswer: _DESCRIPTION}
"""The messages whose body is an array and nothing else."""


def _values(*values: Any) -> tuple[Any, ...]:
    return values


def _stamp_parts(
    client: bytes, sequence: int, claim: PathClaim | None, epoch_seen: int
) -> tuple[OperationId, PathClaim | None, int]:
    return OperationId(client, sequence), claim, epoch_seen


_STAMP_PARTS: Final = ArrayShape(_stamp_parts, m.STAMP_FIELDS, name="stamp", by_name=False)
HELLO_END: Final = ArrayShape(_values, {"client": TEXT, "instance": INSTANCE}, name="HELLO", by_name=False)
PUT_META: Final = ArrayShape(
    _values,
    {
        "path": TEXT,
        "overwrite": FLAG,
        "crc": ANY,  # which is compared with the bytes' own
        "stamp": Shape(what="a stamp", reads=_STAMP_PARTS.read),
        "modified_ms": optional(NUMBER),
    },
    name="PUT",
    by_name=False,
)
"""Without values in values, for the hot path."""
APPEND_META: Final = ArrayShape(
    _values,
    {"path": TEXT, "size": NUMBER, "modified_ms": NUMBER, "crc": ANY, "stamp": m.STAMP.shape()},
    name="APPEND",
    by_name=False,
)
