"""`sos://VOLUME/path` as an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from journal.records.paths import check_path
from sos_client.wire.errors import SosError
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from typing import Any

SCHEME: Final = "sos://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A path in a volume; "" is the volume's root."""

    volume: str
    path: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.volume}/{self.path}"


def parse_location(text: str) -> Location:
    """ValueError says what is wrong with it."""
    rest = text.removeprefix(SCHEME)
    if rest == text and "/" in text:
        raise ValueError(f"{text[:200]!a} is no location: write sos://VOLUME/path, or VOLUME alone")
    volume, _, path = rest.partition("/")
    try:
        return Location(volume=check_name(volume), path=check_path(path.removesuffix("/")))
    except SosError as error:
        raise ValueError(getattr(error, "message", str(error))) from error


class LocationType(click.ParamType[Location]):
    """For click: the argument as a Location."""

    name = "sos://VOLUME/path"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Location:
        if isinstance(value, Location):
            return value
        try:
            return parse_location(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
