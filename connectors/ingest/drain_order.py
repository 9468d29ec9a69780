"""The order to send all sources elsewhere, as a file of the volume: for one owner of it, known by its epoch.

Pure. Who reads it later, another owner, is not meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DRAIN_FIRST_WORD: Final = "sos-ingest-drain"
DRAIN_VERSION: Final = "1"
DRAIN_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOrder:
    """Where the owner of this epoch sends its sources."""

    epoch: int
    address: str


def drain_text(order: DrainOrder) -> bytes:
    """The content of the file."""
    return f"{DRAIN_FIRST_WORD} {DRAIN_VERSION} {order.epoch} {order.address}\n".encode()


def parse_drain(content: bytes) -> DrainOrder | None:
    """What the file says; None if that is nothing that this version understands."""
    words = content.decode("utf-8", "replace").split()
    if len(words) != 4 or words[:2] != [DRAIN_FIRST_WORD, DRAIN_VERSION]:
        return None
    number = words[2]
    if not (number.isascii() and number.isdigit() and len(number) <= 20):
        return None
    return DrainOrder(epoch=int(number), address=words[3])
