"""Reading and writing the fields that frames and two-phase messages are made of.

Pure. Reading never believes a length before it has seen that this much is there; what is wrong is a ProtocolError. What
cannot be written is a MisuseError.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Any, Final, TypeVar

from connectors.wire.limits import NAME_BYTES_MAX
from sos_client.wire.errors import MisuseError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")


class FieldReader:
    """The fields of one body, from its beginning to its end."""

    __slots__ = ("_body", "_position", "_what")

    def __init__(self, body: memoryview, what: str) -> None:
        self._body = body
        self._what = what
        self._position = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._body) - self._position

    def numbers(self, struct: Struct) -> tuple[Any, ...]:
        """Fixed fields."""
        if self.left < struct.size:
            raise self._cut()
        values = struct.unpack_from(self._body, self._position)
        self._position += struct.size
        return values

    def take(self, size: int) -> memoryview:
        """The next bytes, as a view."""
        if self.left < size:
            raise self._cut()
        self._position += size
        return self._body[self._position - size : self._position]

    def short_bytes(self) -> memoryview:
        """A u16 length, and that many bytes."""
        (size,) = self.numbers(_U16)
        return self.take(size)

    def name(self) -> bytes:
        """The same, of at most NAME_BYTES_MAX."""
        value = self.short_bytes()
        if len(value) > NAME_BYTES_MAX:
            raise ProtocolError(f"{self._what}: a name of {len(value)} bytes; at most {NAME_BYTES_MAX} are allowed")
        return bytes(value)

    def text(self) -> str:
        """A name in UTF-8."""
        try:
            return self.name().decode("utf-8")
        except UnicodeDecodeError:
            raise ProtocolError(f"{self._what}: a text that is not UTF-8") from None

    def ascii_name(self) -> str:
        """A name in ASCII. Other bytes are kept (as surrogates), so that it can be said again as it came."""
        return self.name().decode("ascii", "surrogateescape")

    def yes_or_no(self) -> bool:
        """A byte that is 0 or 1."""
        value = self.take(1)[0]
        if value > 1:
            raise ProtocolError(f"{self._what}: {value} where only 0 and 1 are allowed")
        return bool(value)

    def counted(self, item_bytes_min: int, read: Callable[[], T]) -> tuple[T, ...]:
        """A u32 count, and that many items, each of at least `item_bytes_min` bytes."""
        (count,) = self.numbers(_U32)
        if count * item_bytes_min > self.left:
            raise self._cut()
        return tuple(read() for _ in range(count))

    def end(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise ProtocolError(f"{self._what}: {self.left} bytes too many")

    def _cut(self) -> ProtocolError:
        return ProtocolError(f"{self._what}: cut short, {len(self._body)} bytes")


def packed(struct: Struct, what: str, *values: int) -> bytes:
    """Fixed fields as bytes."""
    try:
        return struct.pack(*values)
    except StructError:
        raise MisuseError(f"{what}: a number out of its range in {values}") from None


def short(value: bytes, what: str) -> bytes:
    """A name as bytes, its length before it."""
    if len(value) > NAME_BYTES_MAX:
        raise MisuseError(f"{what}: a name of {len(value)} bytes; at most {NAME_BYTES_MAX} are allowed")
    return _U16.pack(len(value)) + value


def short_text(value: str, what: str) -> bytes:
    """The same of a text."""
    return short(value.encode("utf-8", "replace"), what)


def short_ascii(value: str, what: str) -> bytes:
    """The same of what has to be ASCII."""
    try:
        return short(value.encode("ascii", "surrogateescape"), what)
    except UnicodeEncodeError:
        raise MisuseError(f"{what}: {value!r} is not ASCII") from None


def counted(items: list[bytes]) -> bytes:
    """Their number and they."""
    return _U32.pack(len(items)) + b"".join(items)
