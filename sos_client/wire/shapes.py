"""What a msgpack value may be, said once: how it is checked when it is read and when it is written. Pure.

A `Shape` says it of one value, an `ArrayShape` of the fields of a class, each annotated with its shape:

    class Stat:
        object: Annotated[str, TEXT]

A field's test is a line of Python over the name `it`, and each array gets one function with the tests of all of its
fields in it, compiled at import as dataclasses compile theirs: a call for every field takes as long as all the rest.
Whatever does not fit is a ProtocolError when it is read and a MisuseError when it is to be written; who keeps records
or catalogs translates that once, around the whole decoding.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_type_hints

from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.limits import CRC_MAX, OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_IT: Final = re.compile(r"\bit\b")
_SEEN_BY_TESTS: Final[Mapping[str, object]] = {"isfinite": isfinite}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a value must be, in words and as a test of `it`.

    `reads` makes of a value that passed the test what the program has, or raises ProtocolError; `writes` goes back.
    """

    what: str
    test: str = "True"
    reads: Callable[[Any], object] | None = None
    writes: Callable[[Any], object] | None = None

    def fits(self) -> Callable[[object], bool]:
        """The test as a function, for a value that stands alone."""
        fits: Callable[[object], bool] = _compiled("fits", f"def fits(it):\n    return {self.test}", {})
        return fits


def whole(maximum: int = OFFSET_MAX, *, minimum: int = 0, what: str = "") -> Shape:
    """A whole number in these bounds (True and False are none)."""
    return Shape(what=what or f"{minimum} to {maximum}", test=f"type(it) is int and {minimum} <= it <= {maximum}")


def text(bytes_max: int | None = None, *, bytes_min: int = 0) -> Shape:
    """A text of so many bytes in UTF-8; without a maximum whatever was let in by the limits of `unpack`."""
    if bytes_max is None:
        return Shape(what="text", test="type(it) is str")
    # A character is one byte to four, so that most texts are measured without being encoded.
    encoded = f"len(it) <= {bytes_max} and len(it.encode('utf-8', 'replace')) <= {bytes_max}"
    short = f"len(it) <= {bytes_max // 4} or {encoded}"
    least = f" and len(it) >= {bytes_min}" if bytes_min else ""
    what = f"at most {bytes_max} bytes of UTF-8" if not bytes_min else f"{bytes_min} to {bytes_max} bytes of UTF-8"
    return Shape(what=what, test=f"type(it) is str and ({short}){least}")


def exact_bytes(*sizes: int, what: str = "") -> Shape:
    """Binary of one of these sizes."""
    fits = f"len(it) == {sizes[0]}" if len(sizes) == 1 else f"len(it) in {sizes!r}"
    return Shape(what=what or " or ".join(f"{size} bytes" for size in sizes), test=f"type(it) is bytes and {fits}")


FLAG: Final = Shape(what="true or false", test="type(it) is bool")
NUMBER: Final = whole(what="0 to 2^63-1")
CRC: Final = whole(CRC_MAX, what="0 to 2^32-1")
FINITE: Final = Shape(what="a finite 64-bit float", test="type(it) is float and isfinite(it)")
TEXT: Final = text()
BINARY: Final = Shape(what="binary", test="type(it) is bytes")
ANY: Final = Shape(what="anything")


def optional(shape: Shape) -> Shape:
    """The same, or nil."""
    return Shape(
        what=f"nil or {shape.what}",
        test=f"it is None or ({shape.test})",
        reads=None if shape.reads is None else _or_none(shape.reads),
        writes=None if shape.writes is None else _or_none(shape.writes),
    )


def _or_none(convert: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: None if value is None else convert(value)


def array_of(shape: Shape, most: int, *, at_least: int = 0) -> Shape:
    """This many values, each of this shape, as a tuple."""
    test = f"type(it) is list and {at_least} <= len(it) <= {most}"
    if shape.test != "True":
        test += f" and all({_renamed(shape.test, 'one')} for one in it)"
    reads, writes = shape.reads, shape.writes
    return Shape(
        what=f"an array of {at_least} to {most}, each {shape.what}",
        test=test,
        reads=tuple if reads is None else lambda values: tuple([reads(value) for value in values]),
        writes=list if writes is None else lambda values: [writes(value) for value in values],
    )


class ArrayShape(Generic[T]):
    """An array of fixed length whose elements are the fields of what `make` makes, in order."""

    def __init__(self, make: Callable[..., T], fields: Mapping[str, Shape], *, name: str, by_name: bool = True) -> None:
        self.name = name
        self.fields = dict(fields)
        self._make = make
        self._by_name = by_name

    # Compiled when they are first needed: a command that says one thing to one server does not wait for all of them.

    @cached_property
    def read(self) -> Callable[[object], T]:
        """The object for these elements, or ProtocolError."""
        given = {f"_r{n}": shape.reads for n, shape in enumerate(self.fields.values())}
        found: Callable[[object], T] = _compiled(
            "read", self._reading(), {**given, "_make": self._make, "_short": self._short, "_unfit": self._unfit}
        )
        return found

    @cached_property
    def write(self) -> Callable[[T], list[object]]:
        """The elements of an object, which are not looked at."""
        given = {f"_w{n}": shape.writes for n, shape in enumerate(self.fields.values())}
        found: Callable[[T], list[object]] = _compiled("write", self._writing(), given)
        return found

    @cached_property
    def checked(self) -> Callable[[T], list[object]]:
        """The elements of an object, if they are what they must be; else MisuseError."""
        given = {"write": self.write, "_unwritable": self._unwritable}
        found: Callable[[T], list[object]] = _compiled("checked", self._checking(), given)
        return found

    @classmethod
    def of(cls, made: type[T], **replaced: Shape) -> ArrayShape[T]:
        """Of a dataclass or NamedTuple whose fields are annotated with shapes; `replaced` are not."""
        hints = get_type_hints(made, include_extras=True)
        if dataclasses.is_dataclass(made):
            names = [field.name for field in dataclasses.fields(made)]
            by_name = any(field.kw_only for field in dataclasses.fields(made))
        else:
            names, by_name = list(hints), False
        shapes = {name: replaced.get(name) or shape_of(hints[name]) for name in names}
        return cls(made, shapes, name=made.__name__, by_name=by_name)

    def shape(self, *, checked: bool = False) -> Shape:
        """As an element of another array."""
        return Shape(what=f"a {self.name}", reads=self.read, writes=self.checked if checked else self.write)

    def _reading(self) -> str:
        names = [f"v{n}" for n in range(len(self.fields))]
        lines = ["def read(values):", f"    if type(values) is not list or len(values) != {len(names)}: raise _short()"]
        if names:
            lines.append(f"    {', '.join(names)}, = values")
        made = []
        for n, (field, shape) in enumerate(self.fields.items()):
            if shape.test != "True":
                lines.append(f"    if not ({_renamed(shape.test, names[n])}): raise _unfit({field!r})")
            value = names[n] if shape.reads is None else f"_r{n}({names[n]})"
            made.append(f"{field}={value}" if self._by_name else value)
        return "\n".join([*lines, f"    return _make({', '.join(made)})"])

    def _writing(self) -> str:
        values = (
            f"made.{field}" if shape.writes is None else f"_w{n}(made.{field})"
            for n, (field, shape) in enumerate(self.fields.items())
        )
        return f"def write(made):\n    return [{', '.join(values)}]"

    def _checking(self) -> str:
        lines, names = ["def checked(made):", "    values = write(made)"], [f"v{n}" for n in range(len(self.fields))]
        if names:
            lines.append(f"    {', '.join(names)}, = values")
        for name, (field, shape) in zip(names, self.fields.items(), strict=True):
            if shape.test != "True":
                lines.append(f"    if not ({_renamed(shape.test, name)}): raise _unwritable({field!r}, {name})")
        return "\n".join([*lines, "    return values"])

    def _short(self) -> ProtocolError:
        return ProtocolError(f"{self.name} is an array of {len(self.fields)} elements")

    def _unfit(self, field: str) -> ProtocolError:
        return ProtocolError(f"{self.name}.{field} must be {self.fields[field].what}")

    def _unwritable(self, field: str, value: object) -> MisuseError:
        return MisuseError(f"{self.name}.{field} must be {self.fields[field].what}, not {value!r}")


def shape_of(annotation: Any) -> Shape:
    """The shape that a field is annotated with."""
    found = [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Shape)]
    if not found:
        raise TypeError(f"{annotation} has no shape")
    return found[0]


def _renamed(test: str, name: str) -> str:
    return _IT.sub(name, test)


def _compiled(name: str, source: str, given: Mapping[str, object]) -> Any:
    """The one function that this source defines. Nothing in it comes from outside of the program."""
    namespace: dict[str, Any] = {**_SEEN_BY_TESTS, **given}
    exec(compile(source, f"<shape: {source.splitlines()[0]}>", "exec"), namespace)
    return namespace[name]
