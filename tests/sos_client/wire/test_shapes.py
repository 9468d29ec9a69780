"""Shapes: each says exactly what it takes, either way, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import pytest

from sos_client.wire.errors import MisuseError, ProtocolError
from sos_client.wire.shapes import (
    ANY,
    BINARY,
    CRC,
    FINITE,
    FLAG,
    NUMBER,
    TEXT,
    ArrayShape,
    Shape,
    array_of,
    exact_bytes,
    optional,
    shape_of,
    text,
    whole,
)


@pytest.mark.parametrize(
    ("shape", "fitting", "unfit"),
    [
        (FLAG, [True, False], [0, 1, None, "true"]),
        (NUMBER, [0, 2**63 - 1], [-1, 2**63, True, 1.0, "1", None]),
        (whole(5, minimum=-2), [-2, 0, 5], [-3, 6, False]),
        (CRC, [0, 2**32 - 1], [2**32]),
        (FINITE, [0.0, -1.5], [float("nan"), float("inf"), 1, True]),
        (TEXT, ["", "ä" * 5000], [b"", 5, None]),
        (text(8), ["", "12345678", "äöüß", "€€"], ["123456789", "äöüßa", "€€€", b"1"]),
        (text(8, bytes_min=1), ["1"], ["", "123456789"]),
        (BINARY, [b"", bytes(100)], ["", None]),
        (exact_bytes(2), [b"ab"], [b"", b"a", b"abc", "ab", bytearray(2)]),
        (exact_bytes(0, 2), [b"", b"ab"], [b"a"]),
        (optional(NUMBER), [None, 3], [-1, False]),
        (array_of(NUMBER, 2), [[], [1], [1, 2]], [[1, 2, 3], [1, -1], (1,), None]),
        (array_of(array_of(FLAG, 1), 2, at_least=1), [[[]], [[True], [False]]], [[], [[1]], [True]]),
        (ANY, [None, [], "x"], []),
    ],
    ids=lambda value: value.what if isinstance(value, Shape) else "",
)
def test_what_fits(shape: Shape, fitting: list[object], unfit: list[object]) -> None:
    fits = shape.fits()
    assert [value for value in fitting if not fits(value)] == []
    assert [value for value in unfit if fits(value)] == []
    both = ArrayShape(lambda it: it, {"it": shape}, name="one", by_name=False)
    for value in fitting:
        both.read([value])
    for value in unfit:
        with pytest.raises(ProtocolError, match=r"one\.it must be "):
            both.read([value])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    city: Annotated[str, text(20, bytes_min=1)]
    streets: Annotated[tuple[str, ...], array_of(TEXT, 3)] = ()


class Point(NamedTuple):
    x: Annotated[int, NUMBER]
    y: Annotated[int | None, optional(NUMBER)]


PLACE = ArrayShape.of(Place)
POINT = ArrayShape.of(Point)


def test_a_dataclass_there_and_back() -> None:
    place = Place(city="Bern", streets=("a", "b"))
    assert PLACE.write(place) == PLACE.checked(place) == ["Bern", ["a", "b"]]
    assert PLACE.read(["Bern", ["a", "b"]]) == place


def test_a_named_tuple_there_and_back() -> None:
    assert POINT.read([1, None]) == Point(1, None)
    assert POINT.checked(Point(1, 2)) == [1, 2]


@pytest.mark.parametrize("values", [None, (), "ab", [], ["Bern"], ["Bern", [], 1]])
def test_what_is_not_an_array_of_the_fields(values: object) -> None:
    with pytest.raises(ProtocolError, match="Place is an array of 2 elements"):
        PLACE.read(values)


def test_what_cannot_be_written_is_the_callers_mistake() -> None:
    with pytest.raises(MisuseError, match=r"Place\.city must be 1 to 20 bytes of UTF-8, not ''"):
        PLACE.checked(Place(city=""))
    assert PLACE.write(Place(city="")) == ["", []]


def test_arrays_in_arrays() -> None:
    route = ArrayShape(
        lambda start, rest: [start, *rest],
        {"start": POINT.shape(), "rest": array_of(optional(POINT.shape(checked=True)), 5)},
        name="route",
        by_name=False,
    )
    written = ArrayShape(lambda it: it, {"start": POINT.shape(checked=True)}, name="written")

    @dataclass
    class Started:
        start: Point

    assert written.checked(Started(Point(1, 2))) == [[1, 2]]
    assert route.read([[1, 2], [[3, None], None]]) == [Point(1, 2), Point(3, None), None]
    with pytest.raises(ProtocolError, match=r"Point\.x must be 0 to 2\^63-1"):
        route.read([[1, 2], [[-3, None]]])


def test_fields_of_fields_can_be_named() -> None:
    flat = ArrayShape(lambda city, x: (city, x), {"place.city": TEXT, "point.x": NUMBER}, name="flat", by_name=False)

    @dataclass
    class Both:
        place: Place
        point: Point

    assert flat.checked(Both(Place(city="Bern"), Point(7, None))) == ["Bern", 7]  # type: ignore[arg-type]
    assert flat.read(["Bern", 7]) == ("Bern", 7)


def test_nothing_at_all_is_an_array_too() -> None:
    nothing: ArrayShape[dict[str, object]] = ArrayShape(dict, {}, name="nothing")
    assert nothing.read([]) == {}
    assert nothing.checked({}) == []
    with pytest.raises(ProtocolError):
        nothing.read([1])


def test_a_field_without_a_shape_is_found_at_once() -> None:
    with pytest.raises(TypeError, match="has no shape"):
        shape_of(Annotated[int, "a remark"])
