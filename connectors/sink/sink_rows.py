"""The rows that a sink's program is given: a sequence of rows, made when they are looked at. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, NamedTuple, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.wire.row_run import RowRun


class SinkRow(NamedTuple):
    """A row, as its relay sent it: a plain tuple, since there is one for each."""

    offset: int
    key: bytes
    payload: bytes


class SinkRows(Sequence[SinkRow]):
    """Rows of runs that follow each other. Whoever wants nothing but `payloads` does not have a tuple made for each."""

    def __init__(self, runs: Sequence[RowRun]) -> None:
        self._runs = runs

    @property
    def payloads(self) -> list[bytes]:
        """Of all rows."""
        if len(self._runs) == 1:
            return self._runs[0].values
        return list(chain.from_iterable(run.values for run in self._runs))

    def __len__(self) -> int:
        return sum(len(run.values) for run in self._runs)

    def __iter__(self) -> Iterator[SinkRow]:
        for run in self._runs:
            offsets = accumulate(map(len, run.values), initial=run.first)
            keys = repeat(b"") if run.keys is None else run.keys
            yield from map(SinkRow, offsets, keys, run.values)

    @overload
    def __getitem__(self, place: int) -> SinkRow: ...

    @overload
    def __getitem__(self, place: slice) -> list[SinkRow]: ...

    def __getitem__(self, place: int | slice) -> SinkRow | list[SinkRow]:
        return list(self)[place]


def payloads_of(rows: Sequence[SinkRow]) -> list[bytes]:
    """Of all rows."""
    return rows.payloads if isinstance(rows, SinkRows) else [row.payload for row in rows]
