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

_LENGTH: Final = re.compile(r"(\d{1,9}) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)", re.ASCII)
_AGO: Final = re.compile(rf"{_LENGTH.pattern}(?: ?{_LENGTH.pattern})?(?: ?ago)?", re.ASCII)
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DAY: Final = re.compile(r"(?:(today|yesterday)(?: |$))?(?:(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII)
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
    if _AGO.fullmatch(text):
        ago_ms = sum(int(count) * _UNIT_MS[unit[0]] for count, unit in _LENGTH.findall(text))
        return AtTime(time_ms=max(0, now_ms - ago_ms))
    if (match := _DAY.fullmatch(text)) and (time_ms := _time_of_day(match, now_ms, zone)) is not None:
        return AtTime(time_ms=time_ms)
    return AtTime(time_ms=_parse_time(text, zone))


def _time_of_day(match: re.Match[str], now_ms: int, zone: dt.tzinfo) -> int | None:
    """`yesterday 14:30`, `today` (its first moment), `14:30` (the last time that it was); None: no such time."""
    day, *clock = match.groups()
    now = dt.datetime.fromtimestamp(now_ms / 1000, zone)
    try:
        hour, minute, second = (int(part or 0) for part in clock)
        time = dt.time(hour, minute, second)
        date = now.date() - dt.timedelta(days=1 if day == "yesterday" else 0)
        found = dt.datetime.combine(date, time, now.tzinfo)
        if day is None and found > now:
            found = dt.datetime.combine(date - dt.timedelta(days=1), time, now.tzinfo)
    except (ValueError, OverflowError):
        return None
    return round(found.timestamp() * 1000)


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
            f"{text[:100]!a} is not a moment: say now, an LSN, batch:N, a time (2026-05-01T12:30, 14:30, "
            "yesterday 14:30), or 15m (ago)",
        )
    return milliseconds
