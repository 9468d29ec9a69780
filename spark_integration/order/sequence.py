"""The columns that name the source's order, as numbers that can be compared.

A sequence is a whole number, a date or a timestamp that no two rows share. Where one row becomes several, such as by
`posexplode`, a second column (the part) tells those apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_integration.order.errors import OrderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from connectors.order.natural_runs import Sequences

_ROOM = 2**63 - 1


def column_names(by: str | Sequence[str]) -> tuple[str, ...]:
    """One or two names. OrderError."""
    names = (by,) if isinstance(by, str) else tuple(by)
    if not 1 <= len(names) <= 2:
        raise OrderError(f"a sequence is one column, or two (the sequence and the part): {list(names)}")
    return names


def whole_numbers(column: Any, name: str) -> Sequences:
    """An Arrow column as 64-bit numbers, not copied if it is one already. OrderError."""
    if column.null_count:
        raise OrderError(f"{column.null_count} rows have no {name!r}: a sequence is needed of every row")
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us")).view(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        column = column.cast(pa.int64())
    else:
        raise OrderError(f"{name!r} is {kind}: a sequence is a whole number, a date or a timestamp")
    numbers: Sequences = column.to_numpy(zero_copy_only=False)
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How two columns become one number with the same order: (sequence - base) x parts + (part - part_base)."""

    base: int = 0
    parts: int = 1
    part_base: int = 0

    def packed(self, columns: Sequence[Sequences]) -> Sequences:
        if len(columns) == 1:
            return columns[0]
        sequence, part = columns
        return (sequence - self.base) * self.parts + (part - self.part_base)

    def highest_of(self, sequence: int, columns: int) -> int:
        """What no row with this sequence is above. Perhaps beyond 64 bits."""
        return sequence if columns == 1 else (sequence - self.base + 1) * self.parts - 1

    def told(self, number: int, columns: int) -> tuple[int, ...]:
        """The sequence, and the part, again."""
        if columns == 1:
            return (number,)
        return (number // self.parts + self.base, number % self.parts + self.part_base)


def packing_of(batches: Iterable[Sequence[Sequences]]) -> Packing:
    """For all rows of these. OrderError if their sequences and parts are too far apart for one number."""
    filled = [columns for columns in batches if len(columns[0])]
    if not filled or len(filled[0]) == 1:
        return Packing()
    low, high = (int(choose([choose(columns[0]) for columns in filled])) for choose in (np.min, np.max))
    part_low, part_high = (int(choose([choose(columns[1]) for columns in filled])) for choose in (np.min, np.max))
    parts = part_high - part_low + 1
    if (high - low + 1) * parts > _ROOM:
        raise OrderError(f"sequences from {low} to {high} with parts from {part_low} to {part_high} are more than 2^63")
    return Packing(base=low, parts=parts, part_base=part_low)
