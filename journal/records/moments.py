"""Moments of a volume's history, as a person writes them: `now`, an LSN, a time, `batch:N`. Pure.

Belongs here: the spelling. Which LSN a moment is takes a look at the log: volume_reader.py.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from journal.errors import JournalCode, refused
from journal.records.record import NUMBER_MAX, Lsn

_AGO: Final = re.compile(r"(\d{1,9})(s|m|h|d)(?: ?ago)?", re.ASCII)
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BATCH: Final = re.compile(r"batch:(\d{1,18})", re.ASCII)
_LSN: Final = re.compile(r"(?:lsn:)?(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The last acknowledged record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLsn:
    """After the last record that ends at or before this LSN."""

    lsn: Lsn


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """After the last record that is not later than this."""

    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtBatch:
    """Right after the query's `commits/N` was written."""

    batch: int


Moment: TypeAlias = Now | AtLsn | AtTime | AtBatch


def parse_moment(text: str, *, now_ms: int, zone: dt.tzinfo) -> Moment:
    """What `--at` says; times without a zone are in `zone`. RefusedByVolumeError (BAD_REQUEST) if it says nothing."""
    text = text.strip()
    if text in ("", "now"):
        return Now()
    if match := _BATCH.fullmatch(text):
        return AtBatch(batch=int(match[1]))
    if (match := _LSN.fullmatch(text)) and int(match[1]) <= NUMBER_MAX:
        return AtLsn(lsn=Lsn(int(match[1])))
    if match := _AGO.fullmatch(text):
        return AtTime(time_ms=max(0, now_ms - int(match[1]) * _UNIT_MS[match[2]]))
    return AtTime(time_ms=_parse_time(text, zone))


def _parse_time(text: str, zone: dt.tzinfo) -> int:
    try:
        time = dt.datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone)
        milliseconds = round(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = -1
    if milliseconds < 0:
        raise refused(
            JournalCode.BAD_REQUEST,
            f"{text[:100]!a} is not a moment: say now, an LSN, batch:N, a time (2026-05-01T12:30), or 15m (ago)",
        )
    return milliseconds
