"""What a verb prints: for a person or, with --json, one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sos_client.command.output import print_json
from sos_client.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sos_client.client import ObjectInfo


def report(values: Mapping[str, Any], *, as_json: bool, text: str = "", err: bool = False) -> None:
    """Print the values as JSON, or the text (if it is not empty). What a server said passes `printable`."""
    if as_json:
        print_json(values, err=err)
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
