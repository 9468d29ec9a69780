"""`sos://VOLUME/path` as people write it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from journal.records.paths import check_path
from sos_client.wire.errors import SosError
from sos_client.wire.names import check_name

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
        raise ValueError(f"{text[:200]!a} is not a location: write sos://VOLUME/path, or VOLUME alone")
    volume, _, path = rest.partition("/")
    try:
        return Location(volume=check_name(volume), path=check_path(path.removesuffix("/")))
    except SosError as error:
        raise ValueError(getattr(error, "message", str(error))) from error
