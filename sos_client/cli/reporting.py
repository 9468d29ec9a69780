"""What a verb prints: for a person or, with --json, one JSON object; and how long transfers show where they are."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sos_client.client import ObjectInfo

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def report(values: Mapping[str, Any], *, as_json: bool, text: str, err: bool = False) -> None:
    """Print the values as JSON, or the text (if it is not empty). What a server said passes `printable`."""
    if as_json:
        click.echo(printable(json.dumps(values)), err=err)
    elif text:
        click.echo("\n".join(map(printable, text.split("\n"))), err=err)


def object_values(info: ObjectInfo) -> dict[str, Any]:
    """An object as JSON has it. The CRC is eight hexadecimal digits."""
    return {
        "name": info.name,
        "size": info.size,
        "sealed": info.sealed,
        "epoch": info.epoch,
        "crc32c": f"{info.crc:08x}",
        "cut_bytes": info.cut_bytes,
        "damaged": info.damaged,
        "server_time": info.server_time,
    }


@contextlib.contextmanager
def progress_bar(what: str, total: int | None, *, start: int = 0) -> Iterator[Callable[[int], None]]:
    """A function that shows how far a transfer is; on a terminal as a bar, elsewhere not at all."""
    if not sys.stderr.isatty():
        yield lambda _position: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, completed=start)
        yield lambda position: bar.update(task, completed=position)
