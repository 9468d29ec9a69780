"""How far a reader has come, as its file in the volume says it. The format is in FORMAT.md.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from connectors.ingest.places import SEQUENCE_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

READER_FIRST_WORD: Final = "sos-ingest-reader"
READER_VERSION: Final = "1"
READER_BYTES_MAX: Final = 4096
READERS_MAX: Final = 1000
"""They are looked at every second. Beyond this, nothing is deleted until some of them are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPosition:
    """`needs` is the sequence number of the next message that the reader needs; `written_ms`, when it said so.

    A file that is not understood counts as a reader that needs everything.
    """

    name: str
    needs: int
    written_ms: int
    understood: bool = True
    remarks: Mapping[str, str] = field(default_factory=dict)


def reader_text(needs: int, remarks: Mapping[str, str] | None = None) -> bytes:
    """The content of a reader's file."""
    lines = [f"{READER_FIRST_WORD} {READER_VERSION} {needs}"]
    lines += [f"{key} {value}" for key, value in (remarks or {}).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def parse_reader(name: str, content: bytes, written_ms: int) -> ReaderPosition:
    """What a reader's file says."""
    first, *rest = content[:READER_BYTES_MAX].decode("utf-8", "replace").splitlines() or [""]
    words = first.split(" ")
    understood = words[:2] == [READER_FIRST_WORD, READER_VERSION] and len(words) == 3
    number = words[2] if understood else ""
    understood = number.isascii() and number.isdigit() and len(number) <= 20 and int(number) <= SEQUENCE_MAX
    remarks = dict(line.partition(" ")[::2] for line in rest if line)
    return ReaderPosition(
        name=name,
        needs=int(number) if understood else 0,
        written_ms=written_ms,
        understood=understood,
        remarks=remarks if understood else {},
    )
