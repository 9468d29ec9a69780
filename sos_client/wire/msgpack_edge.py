"""The one place that touches msgpack. Every limit is explicit; anything odd is a ProtocolError.

Without limits 2.5 kB of nested array headers make the decoder reserve tens of megabytes.
"""

from __future__ import annotations

from typing import Final, cast

import msgpack

from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.limits import REQUEST_ARRAY_MAX, TEXT_BYTES_MAX

_PACKER: Final = msgpack.Packer(use_bin_type=True)
"""Kept, since making one takes five times as long as packing a small message. It runs no Python code, so that threads
cannot meet in it."""


def pack(value: object) -> bytes:
    """The shortest msgpack of nested lists, dicts by str, str, bytes, int, float, bool, None; else MisuseError."""
    try:
        packed: bytes = _PACKER.pack(value)
    except (TypeError, ValueError, OverflowError) as error:
        _PACKER.reset()
        raise MisuseError(f"cannot be sent as msgpack: {error}") from error
    return packed


def array_header(count: int) -> bytes:
    """What comes before this many packed values to make an array of them."""
    return cast("bytes", _PACKER.pack_array_header(count))


def pack_large(value: object) -> bytes:
    """As `pack`, for what is larger than a message: no buffer of its size is kept."""
    return cast("bytes", msgpack.packb(value, use_bin_type=True))


def unpack(
    data: bytes | bytearray | memoryview,
    *,
    array_max: int = REQUEST_ARRAY_MAX,
    map_max: int = 0,
    string_bytes_max: int = TEXT_BYTES_MAX,
    binary_bytes_max: int = TEXT_BYTES_MAX,
) -> object:
    """The one value that `data` is, or ProtocolError: too large, cut short, bytes after it, bad UTF-8, extensions."""
    try:
        value: object = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_array_len=array_max,
            max_map_len=map_max,
            max_str_len=string_bytes_max,
            max_bin_len=binary_bytes_max,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"not the msgpack that was expected: {error or type(error).__name__}") from error
    return value
