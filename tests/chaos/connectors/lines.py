"""What producers send and what sinks must have, computed without Spark, listener or relay. Pure."""

from __future__ import annotations

from typing import Final

from sos_client.wire.checksum import crc32c

STREAMS: Final = ("ä", "b", "c")
PLAIN_SINKS: Final = 2
"""Rows as they were sent go to these, by the number in them."""


def amount(number: int) -> int:
    """What line `number` of a stream adds to its total."""
    return number * 2_654_435_761 % 1000


def line(stream: str, number: int) -> str:
    """Line `number` of a stream, from 0."""
    return f"{stream} {number} {amount(number)}"


def sink_of(number: int) -> int:
    """Which of the plain sinks has the line: the key is its number, in decimal."""
    return crc32c(str(number).encode()) % PLAIN_SINKS


class PlainLines:
    """Judges a plain sink row by row: of each stream, its share of the lines, each once and in order."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._next = {stream: self._own(0) for stream in STREAMS}

    def _own(self, number: int) -> int:
        while sink_of(number) != self._sink:
            number += 1
        return number

    def take(self, row: str) -> str | None:
        """What is wrong with the next row, if anything is."""
        stream = row.partition(" ")[0]
        expected = line(stream, self._next[stream]) if stream in self._next else "a line of one of the streams"
        if row != expected:
            return f"plain sink {self._sink} has {row!r} where {expected!r} was due"
        self._next[stream] = self._own(self._next[stream] + 1)
        return None

    def position(self) -> int:
        """All lines of all streams below this number are there, as far as they are this sink's."""
        return min(self._next.values())


class TotalLines:
    """Judges the sink of totals: `STREAM COUNT SUM`, of each stream ever more, and each sum that of so many lines."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(STREAMS, 0)
        self._sums = [0]

    def take(self, row: str) -> str | None:
        """What is wrong with the next row, if anything is."""
        stream, count_text, sum_text = [*row.split(" "), "", ""][:3]
        if stream not in self._counts or not count_text.isdecimal():
            return f"the sink of totals has {row!r}"
        count = int(count_text)
        if count <= self._counts[stream]:
            return f"the sink of totals has {row!r} after a count of {self._counts[stream]}: a total came again"
        while len(self._sums) <= count:
            self._sums.append(self._sums[-1] + amount(len(self._sums) - 1))
        if sum_text != str(self._sums[count]):
            return f"the sink of totals has {row!r}; {count} lines make {self._sums[count]}"
        self._counts[stream] = count
        return None

    def position(self) -> int:
        """Of each stream, at least so many lines are in its total."""
        return min(self._counts.values())
