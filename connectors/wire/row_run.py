"""The rows of a sink's stream, as runs: MESSAGE frames whose ids are byte offsets, laid out and cut many at a time.

Pure. Frames of rows of one size lie at one distance: they are cut sixteen by one call, without Python's work for each.
Rows of many sizes are taken one by one, in as few steps as there can be. Nothing is refused here: whatever is not as
expected is left where it lies, for `session` to look at and to say what is wrong with it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, chain, repeat
from operator import add
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from connectors.wire.alike import ALIKE_BYTES_MAX, TOGETHER, TRY_AGAIN, count_alike
from connectors.wire.codec import MESSAGE_COUNTED_BYTES, MESSAGE_HEAD
from connectors.wire.frames import FrameType
from sos_client.wire.limits import LENGTH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sos_client.wire.frames import FrameSplitter

_MESSAGE: Final = int(FrameType.MESSAGE)
_HEAD_BYTES: Final = MESSAGE_HEAD.size
_BEFORE_ID: Final = Struct(">IBQ")
_AFTER_ID: Final = bytes(10)
"""No event time, no key."""
_ALIKE: Final = Struct(f">{_BEFORE_ID.size}sQ{len(_AFTER_ID)}s")
_START: Final = Struct(">I9sQ8xH")
"""A frame's length, its type and stream together, its id, the length of its key."""
_TYPE_AND_STREAM: Final = Struct(">BQ")

assert _START.size == _ALIKE.size == _HEAD_BYTES


class RowRun(NamedTuple):
    """Rows that follow each other in a stream: each has as its id the bytes of all values before it."""

    first: int
    """The id of the first one."""
    after: int
    """The id that follows."""
    values: list[bytes]
    keys: list[bytes] | None
    """None: no row has one."""


def row_messages(stream_id: int, first: int, values: Sequence[bytes], keys: Sequence[bytes] | None) -> list[bytes]:
    """MESSAGE frames of one or more rows, in pieces to be joined. What does not fit is a mistake of the caller."""
    sizes = list(map(len, values))
    per_row = 2 if keys is None else 3
    pieces = [b""] * (per_row * len(sizes))
    pieces[per_row - 1 :: per_row] = values
    if keys is not None:
        key_sizes = list(map(len, keys))
        pieces[0::3] = _heads(stream_id, first, sizes, map(add, sizes, key_sizes), key_sizes)
        pieces[1::3] = keys
    elif sizes.count(sizes[0]) == len(sizes):
        before = _BEFORE_ID.pack(MESSAGE_COUNTED_BYTES + sizes[0], _MESSAGE, stream_id)
        ids = range(first, first + sizes[0] * len(sizes), sizes[0])
        pieces[0::2] = map(_ALIKE.pack, repeat(before), ids, repeat(_AFTER_ID))
    else:
        pieces[0::2] = _heads(stream_id, first, sizes, sizes, repeat(0))
    return pieces


def _heads(
    stream_id: int, first: int, sizes: Sequence[int], with_keys: Iterable[int], key_sizes: Iterable[int]
) -> Iterable[bytes]:
    lengths = map(MESSAGE_COUNTED_BYTES.__add__, with_keys)
    ids = accumulate(sizes[:-1], initial=first)
    return map(MESSAGE_HEAD.pack, lengths, repeat(_MESSAGE), repeat(stream_id), ids, repeat(0), key_sizes)


def cut_rows(splitter: FrameSplitter, stream_id: int, first: int) -> RowRun | None:
    """Take the MESSAGE frames of this stream that lie whole in what was fed, and whose ids follow `first`.

    None when the next frame is not one. A frame without a value is none.
    """
    data, position, data_end = splitter.lying
    start, length_max = _START.unpack_from, splitter.frame_bytes_max
    wanted = _TYPE_AND_STREAM.pack(_MESSAGE, stream_id)
    values: list[bytes] = []
    keys: list[bytes] | None = None
    after, length_before, try_at = first, -1, 0
    while position + _HEAD_BYTES <= data_end:
        length, type_and_stream, offset, key_bytes = start(data, position)
        if length == length_before and len(values) >= try_at and keys is None:
            alike = _alike(data, position, data_end, after, length, stream_id)
            if alike:
                values += alike
                after += len(alike) * (length - MESSAGE_COUNTED_BYTES)
                position += len(alike) * (LENGTH_BYTES + length)
                continue
            try_at = len(values) + TRY_AGAIN
        length_before = length
        value_at = position + _HEAD_BYTES + key_bytes
        stop = position + LENGTH_BYTES + length
        if offset != after or type_and_stream != wanted or not value_at < stop <= data_end or length > length_max:
            break
        if key_bytes and keys is None:
            keys = [b""] * len(values)
        if keys is not None:
            keys.append(bytes(data[position + _HEAD_BYTES : value_at]))
        values.append(bytes(data[value_at:stop]))
        after += stop - value_at
        position = stop
    if not values:
        return None
    splitter.skip_to(position)
    return RowRun(first, after, values, keys)


def _alike(data: memoryview, position: int, data_end: int, first: int, length: int, stream_id: int) -> list[bytes]:
    """The values of rows of this length without keys, if all that lie there, half of them, or a quarter, are such."""
    size = length - MESSAGE_COUNTED_BYTES
    if size > ALIKE_BYTES_MAX:
        return []
    before = _BEFORE_ID.pack(length, _MESSAGE, stream_id)
    count = count_alike(data, position, data_end, LENGTH_BYTES + length, before)
    lying = data[position : position + count * (LENGTH_BYTES + length)]
    fields = list(chain.from_iterable(_rows(size).iter_unpack(lying)))
    alike = fields[1::4] == list(range(first, first + count * size, size))
    alike = alike and fields[0::4].count(before) == fields[2::4].count(_AFTER_ID) == count
    return fields[3::4] if alike else []


@lru_cache(maxsize=64)
def _rows(size: int) -> Struct:
    return Struct(">" + f"{_ALIKE.format[1:]}{size}s" * TOGETHER)
