"""How much of anything the connector protocol may carry, each with its reason. Numbers only.

Pure.
"""

from __future__ import annotations

from typing import Final

U16_MAX: Final = (1 << 16) - 1
U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1

NOTHING_SEEN: Final = U64_MAX
"""The point of reference of a stream of which nothing has come yet. So no message may have this number as its id."""

FRAME_BYTES_MAX: Final = 4 << 20
"""One frame is gathered in memory before it is looked at, so this bounds what one connection can make its peer keep."""
MESSAGE_FRAME_BYTES_MAX: Final = (1 << 20) - 36
"""What a listener takes, type included: with its head, a message alone must fit one change of the ingest volume."""
FRAME_BYTES_MAX_BEFORE_OK: Final = 8 << 10
"""Nobody unknown gets more memory than this: a HELLO with four names at their longest."""
NAME_BYTES_MAX: Final = 1024
"""Names of streams, programs and instances, cookies, versions, addresses, reasons, ids of transactions. The protocol
could carry 65,535 bytes; a listener keeps the name of each of its streams."""
STREAMS_MAX: Final = 16_384
"""Streams that one connection may have open, each about 300 bytes of memory at either end."""

TWO_PHASE_STREAM: Final = 0
"""In a sink's connection, the stream whose messages are those of the two-phase commit."""
DATA_STREAM: Final = 1
"""In a sink's connection, the stream of the rows."""
RANGES_MAX: Final = 1024
"""Ranges in phase 1. A relay sends one."""

assert NAME_BYTES_MAX <= U16_MAX
assert MESSAGE_FRAME_BYTES_MAX < FRAME_BYTES_MAX
assert 4 * (NAME_BYTES_MAX + 2) + 1 <= FRAME_BYTES_MAX_BEFORE_OK < FRAME_BYTES_MAX
