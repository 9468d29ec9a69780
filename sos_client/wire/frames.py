"""Cutting a stream of bytes into frames: `u32 big-endian length | u8 type | body`. Knows nothing of what they mean.

The SOS protocol, the file protocol and captures all use it. It is on the hot path of every append: a frame that lies
whole in what was fed is handed out as a view of it, and only a frame that straddles two feeds is copied, once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from sos_client.wire.errors import ProtocolError
from sos_client.wire.limits import LENGTH_BYTES, TYPE_BYTES

FRAME_HEADER: Final = Struct(">IB")
_LENGTH: Final = Struct(">I")
_NOTHING: Final = memoryview(b"")

assert FRAME_HEADER.size == LENGTH_BYTES + TYPE_BYTES


def frame_header(type_code: int, body_bytes: int) -> bytes:
    """The five bytes before a body of this length."""
    return FRAME_HEADER.pack(TYPE_BYTES + body_bytes, type_code)


class FrameSplitter:
    """Bytes in by `feed`, whole frames out by `next_frame`; never keeps more than one frame that is not whole yet.

    After each `feed`, call `next_frame` until it returns None: until then the splitter looks at the fed buffer itself,
    which must not change. `frame_bytes_max` (type and body) may be set at any time and holds from the next frame on.
    """

    __slots__ = ("_data", "_data_bytes", "_partial", "_position", "frame_bytes_max")

    def __init__(self, *, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._data = _NOTHING
        self._data_bytes = 0
        self._position = 0
        self._partial: bytearray | None = None  # the beginning of a frame, from earlier feeds

    @property
    def midway(self) -> bool:
        """Whether a frame has begun and its end has not been fed yet."""
        return self._partial is not None

    @property
    def midway_bytes(self) -> int:
        """How much of a frame that has begun is kept."""
        return 0 if self._partial is None else len(self._partial)

    @property
    def drained(self) -> bool:
        """Whether nothing is left of what was fed, and no frame has begun."""
        return self._position == self._data_bytes and self._partial is None

    @property
    def kept_bytes(self) -> int:
        """How much of what was fed is kept: frames that have not been taken yet, and one that has begun."""
        return self._data_bytes - self._position + (0 if self._partial is None else len(self._partial))

    @property
    def lying(self) -> tuple[memoryview, int, int]:
        """What was fed, where its next frame begins, and where it ends; nothing while a straddling frame is due."""
        if self._partial is not None:
            return _NOTHING, 0, 0
        return self._data, self._position, self._data_bytes

    def skip_to(self, position: int) -> None:
        """Whole frames of what is `lying` there have been taken, up to `position`."""
        self._position = position

    def forget(self) -> None:
        """Let go of everything that is kept; nothing more will be taken."""
        self._partial = None
        self._drained()

    def keep_rest(self) -> None:
        """Take a copy of what is left of the fed buffer, which may change from now on."""
        if self._position < self._data_bytes:
            self.feed(b"")

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes as they came from the peer, in pieces of any length. Errors in them show in `next_frame`."""
        if self._position < self._data_bytes:  # not drained before: keep what is left
            data = b"".join((self._data[self._position :], data))
        self._data = memoryview(data)
        self._data_bytes = len(data)
        self._position = 0

    def next_frame(self) -> tuple[int, memoryview] | None:
        """The next frame's type and body, or None when more bytes are needed.

        The body is a view that is valid until the next `feed`. Raises ProtocolError as soon as the four length bytes
        say nothing, or more than `frame_bytes_max`; nothing can be split after that.
        """
        if self._partial is not None:
            return self._next_straddling(self._partial)
        position = self._position
        data = self._data
        left = self._data_bytes - position
        if left > LENGTH_BYTES:
            length, type_code = FRAME_HEADER.unpack_from(data, position)
            if not 0 < length <= self.frame_bytes_max:
                raise self._bad_length(length)
            if length + LENGTH_BYTES <= left:
                self._position = end = position + LENGTH_BYTES + length
                return type_code, data[position + FRAME_HEADER.size : end]
        if left:
            self._partial = bytearray(data[position:])
            if left == LENGTH_BYTES:
                self._frame_bytes(self._partial)
        self._drained()
        return None

    def _next_straddling(self, partial: bytearray) -> tuple[int, memoryview] | None:
        if not self._top_up(partial, FRAME_HEADER.size):
            if len(partial) == LENGTH_BYTES:
                self._frame_bytes(partial)
            return None
        if not self._top_up(partial, self._frame_bytes(partial)):
            return None
        self._partial = None
        return partial[LENGTH_BYTES], memoryview(partial)[FRAME_HEADER.size :]

    def _top_up(self, partial: bytearray, wanted: int) -> bool:
        """Move bytes from the fed data until `partial` has that many; False when the data does not reach."""
        taken = min(wanted - len(partial), self._data_bytes - self._position)
        if taken > 0:
            partial += self._data[self._position : self._position + taken]
            self._position += taken
        if len(partial) >= wanted:
            return True
        self._drained()
        return False

    def _frame_bytes(self, partial: bytearray) -> int:
        length: int = _LENGTH.unpack_from(partial)[0]
        if not 0 < length <= self.frame_bytes_max:
            raise self._bad_length(length)
        return LENGTH_BYTES + length

    def _drained(self) -> None:
        self._data = _NOTHING
        self._data_bytes = self._position = 0

    def _bad_length(self, length: int) -> ProtocolError:
        return ProtocolError(f"a frame of {length} bytes: 1 to {self.frame_bytes_max} are allowed here")
