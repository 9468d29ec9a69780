"""How things look: aligned columns, sizes and times for people, JSON for programs, colour on terminals only.

Everything that comes from outside (paths, addresses, values of marks) passes `printable`: a file name must not be able
to move the cursor.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.progress import Progress

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
GOOD, BAD, DOUBTFUL, QUIET = "green", "red", "yellow", "bright_black"


def size_text(size: int) -> str:
    """A number of bytes as people say it: 1.5 KiB."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def count_text(count: int, one: str, several: str = "") -> str:
    """A number of things: 1 file, 2 files."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def time_text(time_ms: int | None, zone: dt.tzinfo | None) -> str:
    """A time in the zone (None: local), to the millisecond; "-" for none."""
    if time_ms is None:
        return "-"
    try:
        time = dt.datetime.fromtimestamp(time_ms / 1000, tz=dt.UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    suffix = "Z" if zone is dt.UTC else ""
    return f"{time:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03}{suffix}"


def duration_text(milliseconds: int | None) -> str:
    """A length of time as people say it."""
    if milliseconds is None:
        return "-"
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def ago_text(time_ms: int | None, now_ms: int) -> str:
    """How long ago a time is, roughly, in one unit: 5 min ago. "-" for none; a clock may be ahead, too."""
    if time_ms is None:
        return "-"
    seconds = max(0, now_ms - time_ms) // 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def json_text(value: object) -> str:
    """One line of JSON, escaped: a person may look at it, too. Bytes are shown in hexadecimal."""
    return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_default))


def print_json(value: object, *, err: bool = False) -> None:
    """A line on standard output, or on standard error. `run_command` escapes what it cannot encode."""
    click.echo(json_text(value), err=err)


def _json_default(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Columns as wide as they must be; those named in `right` are aligned to the right. Cells may carry colour."""
    if not rows:
        return
    widths = [max(len(click.unstyle(row[column])) for row in [header, *rows]) for column in range(len(header))]
    click.echo(click.style(_line(header, widths, right), bold=True))
    for row in rows:
        click.echo(_line(row, widths, right))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    padded = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - len(click.unstyle(cell)))
        padded.append(space + cell if column in right else cell + space)
    return "  ".join(padded).rstrip()


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, values aligned."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{name:<{width}}  {value}".rstrip())


def note(message: str) -> None:
    """A remark for the person at the terminal, on stderr, so that output stays clean."""
    click.secho(printable(message), fg=DOUBTFUL, err=True)


def remark(message: str) -> None:
    """What is always said, on stderr, and seldom needed."""
    click.secho(printable(message), fg=QUIET, err=True)


class ProgressBar:
    """Shows how far something is; on a terminal as a bar, elsewhere not at all."""

    def __init__(self, bar: Progress | None, title: str, total_bytes: int | None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task(title, total=total_bytes)

    def advance(self, count: int) -> None:
        """This many bytes more are done."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, count)

    def reached(self, position: int, total_bytes: int | None = None) -> None:
        """This many bytes are done, of this total (None: the total that was said before)."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=position, total=total_bytes)


@contextmanager
def progress(title: str, total_bytes: int | None) -> Iterator[ProgressBar]:
    """A bar on stderr while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield ProgressBar(None, title, total_bytes)
        return
    # Imported where it is used: a service, and whoever only asks something, need not wait for it.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        yield ProgressBar(bar, title, total_bytes)
