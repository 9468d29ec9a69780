"""What the objects of a namespace stand for: a volume's object, or that object written again. Pure.

SOS servers never overwrite. So a segment or an index snapshot that is damaged on a server is written once more beside
it, as `NAME.01` and so on; sealed, it stands for `NAME` there. Until then the damaged one does: a process that dies on
the way takes nothing from anybody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from journal.errors import damaged

if TYPE_CHECKING:
    from collections.abc import Iterable

_WRITTEN_ANEW: Final = re.compile(r"(.+\.(?:seg|idx))\.([0-9]{2})", re.ASCII)
_NUMBER_MAX: Final = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedObject:
    """An object as a copy has it."""

    name: str  # the volume's
    size: int
    sealed: bool = False
    damaged: bool = False  # its server says so: bytes in it, or at its end, are not what was synced
    stored_as: str = ""  # the server's name of what stands for it there; empty: the same
    others: tuple[CopiedObject, ...] = ()  # what it stands in for, and what was not finished


def standing_objects(stored: Iterable[CopiedObject]) -> dict[str, CopiedObject]:
    """By the volume's names, what stands for each: the newest that is sealed, else the object itself."""
    forms: dict[str, list[tuple[int, CopiedObject]]] = {}
    for one in stored:
        name, number = _parsed(one.name)
        forms.setdefault(name, []).append((number, one))
    standing = {}
    for name, numbered in forms.items():
        if len(numbered) == 1 and not numbered[0][0]:
            standing[name] = numbered[0][1]
            continue
        finished = [(number, one) for number, one in numbered if one.sealed or not number]
        if finished:
            _, best = max(finished, key=lambda pair: pair[0])
            others = tuple(one for _, one in numbered if one is not best)
            standing[name] = replace(best, name=name, stored_as=best.name, others=others)
    return standing


def next_name(present: CopiedObject) -> str:
    """Under which name it can be written again. DAMAGED if that was done too often."""
    names = [present.stored_as or present.name, *(one.name for one in present.others)]
    number = max(_parsed(name)[1] for name in names) + 1
    if number > _NUMBER_MAX:
        raise damaged(f"{present.name} was damaged {_NUMBER_MAX} times: replace the disk that it lies on")
    return f"{present.name}.{number:02}"


def _parsed(name: str) -> tuple[str, int]:
    match = _WRITTEN_ANEW.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)
