"""What one element of a message may be. An annotation like `Offset` is the Python type plus its check on the wire."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from sos_client.wire.limits import CRC_MAX, IDENTITY_BYTES, LIST_ENTRIES_MAX, OFFSET_MAX, TEXT_BYTES_MAX, TOKEN_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a value must be, in words and as a test. The test takes any object: it is what types the wire's values."""

    what: str
    holds: Callable[[object], bool]


def _whole(maximum: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and 0 <= value <= maximum


def _optional(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or holds(value)


def _exact_bytes(*sizes: int) -> Callable[[object], bool]:
    return lambda value: type(value) is bytes and len(value) in sizes


def is_text(value: object) -> bool:
    """Whether this is a str that the wire can carry."""
    # A character is at least one byte, so the cheap test comes first; lone surrogates cannot be encoded at all.
    return (
        type(value) is str and len(value) <= TEXT_BYTES_MAX and len(value.encode("utf-8", "replace")) <= TEXT_BYTES_MAX
    )


IS_TOKEN: Final = _exact_bytes(TOKEN_BYTES)
IS_IDENTITY: Final = _exact_bytes(IDENTITY_BYTES)

Flag = Annotated[bool, Check(what="true or false", holds=lambda value: type(value) is bool)]
Offset = Annotated[int, Check(what="0 to 2^63-1", holds=_whole(OFFSET_MAX))]
MaybeOffset = Annotated[int | None, Check(what="nil or 0 to 2^63-1", holds=_optional(_whole(OFFSET_MAX)))]
Epoch = Annotated[int, Check(what="0 to 2^63-1", holds=_whole(OFFSET_MAX))]
Crc = Annotated[int, Check(what="0 to 2^32-1", holds=_whole(CRC_MAX))]
MaybeCrc = Annotated[int | None, Check(what="nil or 0 to 2^32-1", holds=_optional(_whole(CRC_MAX)))]
PageLimit = Annotated[
    int, Check(what=f"1 to {LIST_ENTRIES_MAX}", holds=lambda v: v != 0 and _whole(LIST_ENTRIES_MAX)(v))
]
Seconds = Annotated[
    float, Check(what="a finite 64-bit float", holds=lambda value: type(value) is float and math.isfinite(value))
]
Text = Annotated[str, Check(what=f"at most {TEXT_BYTES_MAX} bytes of UTF-8", holds=is_text)]
Identity = Annotated[bytes, Check(what=f"{IDENTITY_BYTES} bytes", holds=IS_IDENTITY)]
Holder = Annotated[
    bytes, Check(what=f"{IDENTITY_BYTES} bytes, or none for no claim", holds=_exact_bytes(0, IDENTITY_BYTES))
]


def is_refusal_field(key: object, value: object) -> bool:
    """Whether this may stand among the fields of an ERROR."""
    if isinstance(value, bytes):
        return is_text(key) and len(value) <= TEXT_BYTES_MAX
    return is_text(key) and (value is None or isinstance(value, int) or is_text(value))
