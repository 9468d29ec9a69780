"""The limits of the file protocol, each with its reason. Only constants, and what must hold between them."""

from __future__ import annotations

from typing import Final

from journal.records.paths import PATH_BYTES_MAX
from journal.volume import PAGE_ENTRIES_MAX, PUT_BYTES_MAX, READ_PIECE_BYTES_MAX

VERSION: Final = 1
"""One request at a time; the only one that reads and streams files."""
SHARED_VERSION: Final = 2
"""Many requests of one frame at a time, each with a tag."""

FRAME_BYTES_MAX_BEFORE_HELLO: Final = 4 * 1024
"""Before HELLO is accepted nobody may make the service hold more than this."""
FRAME_BYTES_MAX: Final = 2 * 1024 * 1024
"""A connection holds at most one frame, so this bounds the memory of a service with many connections."""
PIECE_BYTES_MAX: Final = 1024 * 1024
"""File bytes in one PUT or DATA. Larger pieces gain nothing and delay the other connections."""
REQUESTS_MAX: Final = 1024
"""In progress on one shared connection; a service reads no more of it until some are answered."""
META_BYTES_MAX: Final = 32 * 1024
"""The msgpack part of a PUT: two long paths' worth, with room."""
PAGE_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""A PAGE is cut here, however many entries were asked for."""

TEXT_BYTES_MAX: Final = 2 * PATH_BYTES_MAX
"""Any text on the wire. Twice a path, so that a path that is too long is refused by name and not as a broken frame."""
BINARY_BYTES_MAX: Final = 64
ARRAY_MAX: Final = PAGE_ENTRIES_MAX
ERROR_FIELDS_MAX: Final = 16
MARK_VALUES_MAX: Final = 64

TOKEN_BYTES: Final = 32
INSTANCE_BYTES: Final = 16
CLIENT_IDS_MAX: Final = 1024
"""Ids that one client lends to its changes. A service keeps 16 answers of each: about 10 MiB of its 64."""
NUMBER_MAX: Final = 2**63 - 1
"""Java has no unsigned 64-bit numbers, so neither has this protocol."""

WAITING_SECONDS: Final = 0.5
"""How often the service says that it still works on a request."""
SILENCE_SECONDS_MAX: Final = 2.0
"""A client that hears nothing for this long while it waits for an answer gives the connection up, and asks elsewhere
with the same operation id, which costs little if it was wrong."""
FRAME_SECONDS_MAX: Final = 30.0
"""A frame that was begun must have come, and an answer must have left, after this long."""
IDLE_SECONDS_MAX: Final = 600.0
"""A connection that asks for nothing is closed; clients open another when they need one."""
WRITE_IDLE_SECONDS_MAX: Final = 3600.0
"""A streamed write that gets no frame is cancelled. Long, since Spark keeps a state file open for a whole batch."""
CLIENT_SECONDS: Final = 120.0
"""How long a client goes on trying by default: longer than the writer waits for a quorum, whose outcome it must see."""

assert PUT_BYTES_MAX <= PIECE_BYTES_MAX >= READ_PIECE_BYTES_MAX
assert PIECE_BYTES_MAX + META_BYTES_MAX + 64 <= FRAME_BYTES_MAX
assert 2 * PATH_BYTES_MAX + 1024 <= META_BYTES_MAX
assert PAGE_BYTES_MAX + 4 * PATH_BYTES_MAX < FRAME_BYTES_MAX
assert 3 * WAITING_SECONDS < SILENCE_SECONDS_MAX < CLIENT_SECONDS
