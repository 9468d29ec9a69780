"""Where an ingest volume keeps what: names of its files, and the order in which they are read. The format: FORMAT.md.

Pure.
"""

from __future__ import annotations

from typing import Final

ROOT: Final = "ingest"
FORMAT_FILE: Final = f"{ROOT}/format"
FORMAT_TEXT: Final = b"sos-ingest 1\n"
LOG: Final = f"{ROOT}/log"
STREAMS: Final = f"{ROOT}/streams"
READERS: Final = f"{ROOT}/readers"
LISTENER: Final = f"{ROOT}/listener"
STATUS: Final = f"{LISTENER}/status"
"""Of the running listener; in no listing, and not in the volume."""
DRAIN: Final = f"{ROOT}/drain"
SEQUENCE_DIGITS: Final = 20
SEQUENCE_MAX: Final = (1 << 63) - 1

assert len(str(SEQUENCE_MAX)) <= SEQUENCE_DIGITS


def log_file(sequence: int) -> str:
    """The file of messages that begins with this one."""
    return f"{LOG}/{sequence:0{SEQUENCE_DIGITS}d}"


def streams_file(sequence: int) -> str:
    """The file of the streams as they were before this message."""
    return f"{STREAMS}/{sequence:0{SEQUENCE_DIGITS}d}"


def reader_file(name: str) -> str:
    """Where a reader says how far it is."""
    return f"{READERS}/{name}"


def sequence_of(path: str) -> int | None:
    """The number that such a file is named after; None: it is not such a file."""
    name = path.rpartition("/")[2]
    return int(name) if len(name) == SEQUENCE_DIGITS and name.isascii() and name.isdigit() else None
