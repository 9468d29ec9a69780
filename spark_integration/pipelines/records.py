"""Small unique records, some of them sent twice, in files of JSON lines. Pure but for writing the files."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

KEYS: Final = 7
REPEATED: Final = 5
"""Each file begins with the last records of the one before: sources deliver twice, and dedup has something to do."""
FIRST_SECOND: Final = 1_699_920_000
"""2023-11-14T00:00:00Z, where _iso begins to count."""

SCHEMA: Final = "id long, key int, value long, at timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRecord:
    """One event; everything about it follows from its id."""

    id: int
    key: int
    value: int
    at: int

    @classmethod
    def of(cls, number: int) -> SentRecord:
        mixed = number * 2_654_435_761 % 2**32
        return cls(id=number, key=mixed % KEYS, value=mixed // KEYS % 1000, at=FIRST_SECOND + number)


def file_records(file_number: int, *, per_file: int) -> list[SentRecord]:
    """What the file of this number holds."""
    start = file_number * per_file
    first = max(0, start - REPEATED)
    return [SentRecord.of(number) for number in range(first, start + per_file)]


def all_records(files: int, *, per_file: int) -> list[SentRecord]:
    """What the first `files` files hold together, repeated records included."""
    return [record for number in range(files) for record in file_records(number, per_file=per_file)]


def write_file(folder: Path, file_number: int, *, per_file: int) -> None:
    """The file appears whole: Spark's file source never sees a part of it."""
    lines = [
        json.dumps(asdict(record) | {"at": _iso(record.at)}) + "\n"
        for record in file_records(file_number, per_file=per_file)
    ]
    unfinished = folder / f".{file_number:06d}.unfinished"
    unfinished.write_text("".join(lines))
    # Spark takes the oldest file first, and takes files of one millisecond in no particular order.
    os.utime(unfinished, (FIRST_SECOND + file_number, FIRST_SECOND + file_number))
    unfinished.rename(folder / f"{file_number:06d}.json")


def _iso(second: int) -> str:
    days, rest = divmod(second - FIRST_SECOND, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"2023-11-{14 + days:02d}T{hours:02d}:{minutes:02d}:{seconds:02d}Z"
