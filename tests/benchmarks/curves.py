"""Curves: what growth measures, what charts draw, and the JSON between them."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a chart: (x, y) in order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart. `key` is its file's name. `unit_of_x`: "bytes" makes 1048576 read as 1 MiB."""

    key: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    unit_of_x: str = ""
    note: str = ""
    """How it was measured, and what in it is a stand-in."""
    distribution: bool = False
    """x is per cent: drawn with x upwards and y across, as distributions are."""

    def read_x(self, x: float) -> str:
        """A place on the x axis as a person says it."""
        return read_bytes(x) if self.unit_of_x == "bytes" else f"{x:,.0f}"


def read_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.0f} TiB"


def measured_curve(name: str, measures: Mapping[float, Callable[[], float]], *, rounds: int) -> Curve:
    """The median at each x, of rounds that visit every x in turn: a slow moment does not bend one point alone."""
    return measured_curves({name: measures}, rounds=rounds)[0]


def measured_curves(measures: Mapping[str, Mapping[float, Callable[[], float]]], *, rounds: int) -> tuple[Curve, ...]:
    """The same for several curves, side by side at each x."""
    found: dict[str, dict[float, list[float]]] = {name: {x: [] for x in of} for name, of in measures.items()}
    for number in range(rounds):
        places = sorted({x for of in measures.values() for x in of}, reverse=bool(number % 2))
        for x in places:
            for name, of in measures.items():
                if x in of:
                    found[name][x].append(of[x]())
    return tuple(
        Curve(name=name, points=tuple((x, statistics.median(found[name][x])) for x in sorted(found[name])))
        for name in measures
    )


def write_charts(path: Path, charts: list[Chart]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(chart) for chart in charts], indent=2) + "\n", encoding="utf-8")


def read_charts(path: Path) -> list[Chart]:
    """What was measured; nothing if it never was."""
    if not path.exists():
        return []
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [_chart(entry) for entry in entries]


def _chart(entry: dict[str, Any]) -> Chart:
    curves = tuple(
        Curve(name=curve["name"], points=tuple((x, y) for x, y in curve["points"])) for curve in entry["curves"]
    )
    return Chart(**{**entry, "curves": curves})
