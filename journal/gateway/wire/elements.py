"""What one element of a message may be: annotations that carry the shape on the wire. Pure.

How long texts, binaries and arrays may be at all is a limit of the whole body (limits.py): a path that is too long is
refused by name, it does not break the conversation.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, Final

from journal.gateway.wire import limits
from journal.volume import ClaimedPath, FileStatus, PathClaim
from sos_client.wire.errors import ProtocolError
from sos_client.wire.shapes import (
    ANY,
    FLAG,
    NUMBER,
    TEXT,
    ArrayShape,
    Shape,
    array_of,
    exact_bytes,
    optional,
    whole,
)

INSTANCE: Final = exact_bytes(limits.INSTANCE_BYTES)
CLAIM: Final = ArrayShape(
    lru_cache(maxsize=64)(lambda application, start_time: PathClaim(start_time=start_time, application=application)),
    {"application": TEXT, "start_time": NUMBER},
    name="claim",
    by_name=False,
)
"""Each change of a query carries the same one."""
_STATUS: Final = ArrayShape(
    FileStatus,
    {"path": TEXT, "is_directory": FLAG, "size": NUMBER, "modified_ms": NUMBER},
    name="status",
)
_CLAIMED: Final = ArrayShape(ClaimedPath, {"path": TEXT, "claim": CLAIM.shape()}, name="claimed path")
STATUS: Final = Shape(what="a status", reads=_STATUS.read, writes=itemgetter(slice(len(_STATUS.fields))))  # not the CRC
TEXTS: Final = array_of(TEXT, limits.ARRAY_MAX)

Flag = Annotated[bool, FLAG]
Number = Annotated[int, NUMBER]
MaybeNumber = Annotated[int | None, optional(NUMBER)]
Text = Annotated[str, TEXT]
MaybeText = Annotated[str | None, optional(TEXT)]
Instance = Annotated[bytes, INSTANCE]
Limit = Annotated[int, whole(limits.ARRAY_MAX, minimum=1)]
Status = Annotated[FileStatus, STATUS]
Statuses = Annotated[tuple[FileStatus, ...], array_of(STATUS, limits.ARRAY_MAX)]
ClaimedPaths = Annotated[tuple[ClaimedPath, ...], array_of(_CLAIMED.shape(), limits.ARRAY_MAX)]


def pairs(most: int, kinds: tuple[type, ...]) -> Shape:
    """At most so many of [text, a value of one of these types]."""
    pair = ArrayShape(lambda *both: both, {"key": TEXT, "value": ANY}, name="pair", by_name=False)

    def read(value: Any) -> tuple[tuple[str, Any], ...]:
        found = tuple([pair.read(item) for item in value])
        for _, content in found:
            if type(content) not in kinds or (type(content) is int and abs(content) > limits.NUMBER_MAX):
                raise ProtocolError("a pair with a value of a type that does not belong there")
        return found

    return Shape(what=f"at most {most} pairs", test=f"type(it) is list and len(it) <= {most}", reads=read)
