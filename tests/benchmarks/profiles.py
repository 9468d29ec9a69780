"""What a profile says: which functions took the processor's time, for each operation. Pure but for reading its JSON."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ROWS_MAX: Final = 14
_THREAD: Final = re.compile(r"thread \((\d+)\)")
_FRAME: Final = re.compile(r"(?P<function>[^ ]+) \((?P<file>[^:)]+)(?::\d+)?\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Time spent in a function itself and in what it calls in C, not in other Python functions."""

    where: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One hot path. Microseconds are of processor time for each operation, of the process that was looked at."""

    path: str
    what: str
    process: str
    operation: str
    per_second: float
    user_microseconds: float
    system_microseconds: float
    lines: tuple[Line, ...]

    @property
    def microseconds(self) -> float:
        return self.user_microseconds + self.system_microseconds


def lines_of(stacks: str, thread_seconds: Mapping[int, float]) -> tuple[Line, ...]:
    """The functions that took most, from collapsed stacks (`thread (7): name;frame;frame COUNT`) of all threads.

    A sample does not tell a thread that computes from one that waits for a disk. So each thread's samples are weighed
    with the processor time that the kernel counted for it (by thread id).
    """
    ended: dict[int, Counter[str]] = defaultdict(Counter)
    for stack in stacks.splitlines():
        frames, _, count = stack.rpartition(" ")
        thread, *called = frames.split(";")
        if called and (identity := _THREAD.match(thread)):
            ended[int(identity[1])][_place(called[-1])] += int(count)
    weights: dict[str, float] = defaultdict(float)
    for thread_id, places in ended.items():
        for place, samples in places.items():
            weights[place] += thread_seconds.get(thread_id, 0.0) * samples / places.total()
    total = sum(thread_seconds.values()) or 1.0
    found = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:ROWS_MAX]
    return tuple(Line(where=where, share=round(weight / total, 4)) for where, weight in found if weight)


def _place(frame: str) -> str:
    """`module: function` of a frame `function (path/module.py:12)`."""
    match = _FRAME.search(frame)
    if match is None:
        return frame
    parts = match["file"].removesuffix(".py").split("/")
    module = ".".join(parts[-2:] if len(parts) > 1 else parts)
    return f"{module}: {match['function']}"


def write_profiles(path: Path, profiles: Iterable[Profile]) -> None:
    """Writes these; keeps those of other paths that are in the file already."""
    kept = {profile.path: profile for profile in read_profiles(path)} if path.exists() else {}
    kept |= {profile.path: profile for profile in profiles}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(kept[name]) for name in sorted(kept)], indent=2) + "\n", encoding="utf-8")


def read_profiles(path: Path) -> list[Profile]:
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [Profile(**{**entry, "lines": tuple(Line(**line) for line in entry["lines"])}) for entry in entries]
