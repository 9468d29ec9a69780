"""How much of anything the wire may carry, each with its reason. Numbers only; what enforces them is elsewhere."""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = 1

LENGTH_BYTES: Final = 4
"""A frame begins with its length, big-endian, counting the type and the body but not itself."""
TYPE_BYTES: Final = 1
DATA_HEADER_BYTES: Final = 12
"""The offset and the CRC before the raw bytes of a DATA frame."""

FRAME_BYTES_MAX: Final = 4 << 20
"""One frame is gathered in memory before it is looked at, so this bounds what one connection can make its peer keep."""
FRAME_BYTES_MAX_LEAST: Final = 1 << 20
"""What any server takes once it has answered HELLO, so that a client need not cut control bodies or `DATA_BYTES`."""
FRAME_BYTES_MAX_BEFORE_HELLO: Final = 4 << 10
"""Nobody unknown gets more memory than this. HELLO needs under 200 bytes."""
REQUEST_BYTES_MAX: Final = 16 << 10
"""What a server takes of a frame outside an append: no request needs 2 KiB, and somebody who may only read could make
it keep a frame of the full size on each connection."""
CONTROL_BYTES_MAX: Final = 1 << 20
"""The largest msgpack body: a full LISTING of the longest names is about a fifth of it."""
DATA_BYTES_MAX: Final = FRAME_BYTES_MAX - TYPE_BYTES - DATA_HEADER_BYTES
DATA_BYTES: Final = 256 << 10
"""How senders cut a long run of bytes: large enough that the header does not show, small enough to share a socket."""

NAME_BYTES_MAX: Final = 128
"""Namespaces and objects are file names on the server (255 bytes there, some of which its suffixes need)."""
TEXT_BYTES_MAX: Final = 1024
"""Sentences for people, client names. Longer than a name on purpose: a name that is too long gets BAD_NAME."""
TOKEN_BYTES: Final = 32
IDENTITY_BYTES: Final = 16
"""Server identities, incarnations, holders, client instances: 128 random bits each."""

OFFSET_MAX: Final = (1 << 63) - 1
"""Offsets, sizes and epochs fit a signed 64-bit integer, so every language has a type for them."""
EPOCHS_AHEAD_MAX: Final = 1 << 20
"""An epoch is at most this plus one for each second since 1970, so that no claim uses them up, and none takes a member
so far ahead that the others cannot follow. Who only reads epochs allows as much again, as clocks differ."""
CRC_MAX: Final = (1 << 32) - 1

LIST_ENTRIES_MAX: Final = 1000
"""One page of a LISTING."""
ERROR_FIELDS_MAX: Final = 16
REQUEST_ARRAY_MAX: Final = 16
"""No request has more elements; without such a limit nested msgpack headers cost a thousand times their length."""
PIPELINED_REQUESTS_MAX: Final = 1024
"""Requests sent and not yet answered on one connection."""

assert DATA_BYTES <= DATA_BYTES_MAX
assert DATA_BYTES < FRAME_BYTES_MAX_LEAST <= FRAME_BYTES_MAX
assert FRAME_BYTES_MAX_BEFORE_HELLO < REQUEST_BYTES_MAX < CONTROL_BYTES_MAX <= FRAME_BYTES_MAX
assert LIST_ENTRIES_MAX * (NAME_BYTES_MAX + 72) < CONTROL_BYTES_MAX, "a full page must fit into one frame"
assert FRAME_BYTES_MAX < 1 << 31, "a frame's length must fit a signed 32-bit integer (Java)"
