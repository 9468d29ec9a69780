"""Settings from TOML files, with errors that name the file, the key and what is allowed.

A section of a file is a group of settings (declarations.py). What can be set is each program's own affair.
"""

from __future__ import annotations

import math
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance

    from sos_client.declarations import Setting

    Section = TypeVar("Section", bound=DataclassInstance)
else:
    Section = TypeVar("Section")


class SettingsError(Exception):
    """Somebody has to change a file or a flag; the text says which and to what."""


def read_settings(path: Path, *, what: str = "settings") -> dict[str, Any]:
    """The file as plain values. SettingsError when it is not there, not readable or not TOML."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: cannot read the {what}: {error.strerror}") from error
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits, and for arrays as deep
        raise SettingsError(f"{path}: not a TOML file: {error}") from error


def section(kind: type[Section], table: object, *, where: str) -> Section:
    """One section of a file as its dataclass; ``where`` (file and section) begins every error."""
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: must be a table of settings")
    hints = get_type_hints(kind, include_extras=True)
    check_keys(table, allowed=hints, where=where)
    return kind(**{key: _checked(value, hints[key], f"{where}: {key}") for key, value in table.items()})


def check_keys(table: Mapping[str, object], *, allowed: Mapping[str, object], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise SettingsError(f"{where}: unknown key {key!r}; allowed are {', '.join(sorted(allowed))}")


def _checked(value: object, annotated: Any, where: str) -> object:
    hint, described = get_args(annotated)
    kind = next((arm for arm in get_args(hint) if arm is not type(None)), hint)
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        return Path(value)
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        value = float(value)
    if kind is Path or type(value) is not kind:
        raise SettingsError(f"{where}: must be {_KINDS[kind]}, not {value!r}")
    if isinstance(value, int | float):
        _check_bounds(value, described, where)
    if described.choices and value not in described.choices:
        raise SettingsError(f"{where}: must be one of {', '.join(described.choices)}, not {value!r}")
    return value


def _check_bounds(value: float, described: Setting, where: str) -> None:
    if math.isnan(value):
        raise SettingsError(f"{where}: must be a number, and nan is not one")
    if described.minimum is not None and value < described.minimum:
        raise SettingsError(f"{where}: {value} is too small; the least is {described.minimum}")
    if described.maximum is not None and value > described.maximum:
        raise SettingsError(f"{where}: {value} is too large; the most is {described.maximum}")


_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "a path"}
