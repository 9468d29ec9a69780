"""`sos://VOLUME/path` as an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal.records.location import Location, parse_location

if TYPE_CHECKING:
    from typing import Any


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
