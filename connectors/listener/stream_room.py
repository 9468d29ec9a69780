"""Who may make new streams, which stay for ever: a volume has room for so many, and one token may have its share of it.

Pure. A listener counts the streams that were made through it; those from before are nobody's, so that each listener
begins with shares of what is left, as claims and pins are shared out (decision 0609).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.ingest.known_streams import NAMES_CHARACTERS_MAX, STREAMS_KNOWN_MAX

if TYPE_CHECKING:
    from connectors.ingest.known_streams import KnownStreams


@dataclass(slots=True)
class _Made:
    streams: int = 0
    names_characters: int = 0


class StreamRoom:
    """Of one volume. `token` is the name of a connection's token; empty where there are none, and no shares."""

    def __init__(self, streams: KnownStreams) -> None:
        self._streams = streams
        self._made: dict[str, _Made] = {}
        self.refused = ""
        """Why a new stream was refused last."""

    def refusal(self, token: str) -> str:
        """Why a connection with this token may not make another stream; empty: it may."""
        self.refused = self._refusal(token)
        return self.refused

    def _refusal(self, token: str) -> str:
        known, characters = len(self._streams.names), self._streams.names_characters
        if self._streams.full:
            return f"the volume has all the streams it can have: {known:,}, with names of {characters:,} characters"
        made = self._made.get(token)
        if not token or made is None:
            return ""
        for own, present, most, what in (
            (made.streams, known, STREAMS_KNOWN_MAX, "streams"),
            (made.names_characters, characters, NAMES_CHARACTERS_MAX, "characters of names"),
        ):
            if 2 * own >= most - (present - own):
                return f"token {token!r} has made {own:,} {what}, half of the room that others leave in the volume"
        return ""

    def made(self, token: str, name: str) -> None:
        """A stream with this name was made."""
        if token:
            made = self._made.setdefault(token, _Made())
            made.streams += 1
            made.names_characters += len(name)
