"""What one element of a message may be. An annotation like `Offset` is the Python type plus its shape on the wire."""

from __future__ import annotations

from typing import Annotated, Final

from sos_client.wire import shapes
from sos_client.wire.limits import IDENTITY_BYTES, LIST_ENTRIES_MAX, TEXT_BYTES_MAX, TOKEN_BYTES

_TEXT: Final = shapes.text(TEXT_BYTES_MAX)
_IDENTITY: Final = shapes.exact_bytes(IDENTITY_BYTES)

is_text: Final = _TEXT.fits()
is_token: Final = shapes.exact_bytes(TOKEN_BYTES).fits()
is_identity: Final = _IDENTITY.fits()

Flag = Annotated[bool, shapes.FLAG]
Offset = Annotated[int, shapes.NUMBER]
MaybeOffset = Annotated[int | None, shapes.optional(shapes.NUMBER)]
Epoch = Annotated[int, shapes.NUMBER]
Crc = Annotated[int, shapes.CRC]
MaybeCrc = Annotated[int | None, shapes.optional(shapes.CRC)]
PageLimit = Annotated[int, shapes.whole(LIST_ENTRIES_MAX, minimum=1)]
Seconds = Annotated[float, shapes.FINITE]
Text = Annotated[str, _TEXT]
Identity = Annotated[bytes, _IDENTITY]
Holder = Annotated[bytes, shapes.exact_bytes(0, IDENTITY_BYTES, what=f"{IDENTITY_BYTES} bytes, or none for no claim")]


def is_refusal_field(key: object, value: object) -> bool:
    """Whether this may stand among the fields of an ERROR."""
    if isinstance(value, bytes):
        return is_text(key) and len(value) <= TEXT_BYTES_MAX
    return is_text(key) and (value is None or isinstance(value, int) or is_text(value))
