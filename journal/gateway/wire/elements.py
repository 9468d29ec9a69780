"""What one element of a message may be: each function gives the value, or raises ProtocolError. Pure."""

from __future__ import annotations

from typing import Any, Final

from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.volume import FileStatus, OperationId, PathClaim
from sos_client.wire.errors import ProtocolError
from sos_client.wire.msgpack_edge import unpack

_NUMBER_MAX: Final = limits.NUMBER_MAX


def array(body: memoryview, count: int) -> list[Any]:
    values = unpack(
        body,
        array_max=limits.ARRAY_MAX,
        string_bytes_max=limits.TEXT_BYTES_MAX,
        binary_bytes_max=limits.BINARY_BYTES_MAX,
    )
    return items(values, count)


def items(values: object, count: int) -> list[Any]:
    if type(values) is not list or len(values) != count:
        raise ProtocolError(f"an array of {count} elements was expected")
    return values


def text(value: object) -> str:
    if type(value) is not str:
        raise ProtocolError("a text was expected")
    return value


def texts(value: object) -> tuple[str, ...]:
    if type(value) is not list:
        raise ProtocolError("a list of texts was expected")
    return tuple(text(item) for item in value)


def flag(value: object) -> bool:
    if type(value) is not bool:
        raise ProtocolError("true or false was expected")
    return value


def number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ProtocolError("a number from 0 to 2^63-1 was expected")
    return value


def number_or_none(value: object) -> int | None:
    return None if value is None else number(value)


def binary(value: object, size: int) -> bytes:
    if type(value) is not bytes or len(value) != size:
        raise ProtocolError(f"{size} bytes were expected")
    return value


def limit(value: object) -> int:
    if not 1 <= number(value) <= limits.ARRAY_MAX:
        raise ProtocolError(f"a limit from 1 to {limits.ARRAY_MAX} was expected")
    return number(value)


def stamp(value: object) -> m.Stamp:
    operation, claimed, epoch_seen = stamp_parts(value)
    return m.Stamp(operation=operation, claim=claimed, epoch_seen=epoch_seen)


def stamp_parts(value: object) -> tuple[OperationId, PathClaim | None, int]:
    client, sequence, pair, epoch_seen = items(value, 4)
    if type(client) is not bytes or len(client) != limits.INSTANCE_BYTES:
        raise ProtocolError(f"{limits.INSTANCE_BYTES} bytes were expected")
    operation = OperationId(client, number(sequence))
    return operation, None if pair is None else claim(pair), number(epoch_seen)


def claim(value: object) -> PathClaim:
    application, start_time = items(value, 2)
    return PathClaim(application=text(application), start_time=number(start_time))


def claiming_stamp(value: object) -> m.Stamp:
    claiming = stamp(value)
    if claiming.claim is None:
        raise ProtocolError("a CLAIM or RELEASE without the claim")
    return claiming


def status(value: object) -> FileStatus:
    path, is_directory, size, modified_ms = items(value, 4)
    return FileStatus(
        path=text(path), is_directory=flag(is_directory), size=number(size), modified_ms=number(modified_ms)
    )


def pairs(value: object, maximum: int, kinds: tuple[type, ...]) -> tuple[tuple[str, Any], ...]:
    if type(value) is not list or len(value) > maximum:
        raise ProtocolError(f"at most {maximum} pairs were expected")
    pairs = []
    for item in value:
        key, content = items(item, 2)
        if type(content) not in kinds or (type(content) is int and not -_NUMBER_MAX <= content <= _NUMBER_MAX):
            raise ProtocolError("a pair whose value is none of those that belong there")
        pairs.append((text(key), content))
    return tuple(pairs)
