"""What stands on command lines: addresses, lengths of time, sizes, files. Each says how it is to be written."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Final

import click

from sos_client.net.addresses import split_addresses
from sos_client.wire.errors import MisuseError

FILE: Final = click.Path(path_type=Path, dir_okay=False)
DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)
PRESENT_DIRECTORY: Final = click.Path(path_type=Path, file_okay=False, exists=True)

_AGE: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,9})([KMGT]?)(?:iB|B)?", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class AddressList(click.ParamType[tuple[str, ...]]):
    """For click: HOST:PORT, or several with commas between them."""

    name = "HOST:PORT,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            addresses = split_addresses(str(value))
        except MisuseError as error:
            self.fail(str(error), param, ctx)
        return addresses or self.fail("no address: write HOST:PORT", param, ctx)


class OneAddress(click.ParamType[str]):
    """For click: one HOST:PORT."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        addresses = AddressList().convert(str(value), param, ctx)
        if len(addresses) != 1:
            self.fail(f"{str(value)[:200]!a} is not one address: write HOST:PORT", param, ctx)
        return addresses[0]


class Age(click.ParamType[int]):
    """For click: a length of time in seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)[:100]!a} is not a length of time: write 90s, 30m, 12h or 7d", param, ctx)
        return int(match[1]) * _SECONDS[match[2]]


class Seconds(click.FloatRange):
    """For click: seconds, as a number or as 90s, 2m, 1h. Nan, a number of any range to click, would be endless."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if match := _AGE.fullmatch(str(value)):
            value = int(match[1]) * _SECONDS[match[2]]
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail("nan is not a number of seconds", param, ctx)
        return seconds


def age_text(seconds: int) -> str:
    """As `Age` reads it: 7d."""
    return next(f"{seconds // each}{unit}" for unit, each in reversed(_SECONDS.items()) if seconds % each == 0)


def size_text_exact(size: int) -> str:
    """As `Size` reads it: 64M."""
    return next(f"{size // each}{unit}" for unit, each in reversed(_BYTES.items()) if size % each == 0)


class Size(click.ParamType[int]):
    """For click: a number of bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)[:100]!a} is not a size: write 500M, 20G or a number of bytes", param, ctx)
        return int(match[1]) * _BYTES[match[2]]
