"""What can be set, each said once: default, meaning, bounds, flag. Pure.

A group of settings is a frozen dataclass whose fields are annotated with a ``Setting``. Files of settings are read by
it (settings.py), ``command/setting_flags.py`` makes options of it, the reference in docs/operations.md is written from
it, and the program takes it as it is. What belongs to a group is each program's own affair.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance


class Form(enum.StrEnum):
    """How a setting is written on a command line, where its text alone does not tell."""

    ADDRESS = "HOST:PORT"
    FILE = "FILE"
    DIRECTORY = "DIRECTORY"
    AGE = "TIME"
    SIZE = "SIZE"
    SWITCH = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """What is to be known of a setting beside its name and its default."""

    meaning: str
    """In one line, for the reference and for --help."""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    flag: str = ""
    """What the command line calls it; empty: it has none."""
    form: Form | None = None
    fixed: bool = False
    """It holds from start to end: a change takes a restart."""

    @property
    def parameter(self) -> str:
        """What the flag is called among the parameters of a command."""
        return self.flag.removeprefix("--").replace("-", "_")


def declared(kind: type[Any]) -> dict[str, Setting]:
    """The settings of such a group by the names of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    annotated = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in dataclasses.fields(kind)}
    return {name: one for name, notes in annotated.items() for one in notes if isinstance(one, Setting)}


def said(kind: type[Any], parameters: Mapping[str, object]) -> dict[str, Any]:
    """The fields of such a group for which a command line says something."""
    given = {name: parameters.get(one.parameter) for name, one in declared(kind).items() if one.flag}
    return {name: value for name, value in given.items() if value is not None}


def values_of(part: DataclassInstance) -> dict[str, Any]:
    """The fields of a dataclass as they are; `dataclasses.asdict` would go into them."""
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
