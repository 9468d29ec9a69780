"""Charts as SVG text: lines over a logarithmic axis, and bars against a goal. Pure; same input, same bytes.

Colours are given by classes, with a second set for readers whose system is dark; nothing else decides how it looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.benchmarks.curves import Chart, Curve

WIDTH: Final = 720
HEIGHT: Final = 330
LEFT, RIGHT, TOP, BOTTOM = 84, 20, 44, 66
BAR_LEFT: Final = 390
BAR_TOLD: Final = 618
BAR_STEP: Final = 26
BAR_SCALE_MAX: Final = 3.0
"""Times the goal; a bar that would be longer ends in an arrow."""
TICKS: Final = 5
CURVES_MAX: Final = 4

STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.small { font-size: 11px; fill: #57606a; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.goal { stroke: #24292f; stroke-width: 1.5; stroke-dasharray: 4 3; }
.line { fill: none; stroke-width: 2; }
.c0 { stroke: #0969da; } .c1 { stroke: #bc4c00; } .c2 { stroke: #1a7f37; } .c3 { stroke: #8250df; }
.f0 { fill: #0969da; } .f1 { fill: #bc4c00; } .f2 { fill: #1a7f37; } .f3 { fill: #8250df; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.small { fill: #9198a1; }
.grid { stroke: #3d444d; }
.goal { stroke: #e6edf3; }
.c0 { stroke: #58a6ff; } .c1 { stroke: #f0883e; } .c2 { stroke: #3fb950; } .c3 { stroke: #bc8cff; }
.f0 { fill: #58a6ff; } .f1 { fill: #f0883e; } .f2 { fill: #3fb950; } .f3 { fill: #bc8cff; }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A ratio as a part of its goal: at 1 it is reached."""

    name: str
    of_goal: float
    told: str


def line_chart(chart: Chart) -> str:
    """Lines from zero upwards, x logarithmic where it spans more than a factor of ten; a distribution with per cent
    upwards."""
    assert len(chart.curves) <= CURVES_MAX
    curves, names = chart.curves, (chart.x, chart.y)
    if chart.distribution:
        curves = tuple(replace(curve, points=tuple((y, x) for x, y in curve.points)) for curve in curves)
        names = (chart.y, chart.x)
    places = sorted({x for curve in curves for x, _ in curve.points})
    top = nice_top(max(y for curve in curves for _, y in curve.points))
    labels, across = _even_scale(places) if chart.distribution else _scale(places)
    parts = [_text(LEFT, 22, chart.title, "title")]
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        y = _height(value, top)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(_text(LEFT - 8, y + 4, short(value), "small", anchor="end"))
    parts += [_text(across[x], HEIGHT - BOTTOM + 18, chart.read_x(x), "small", anchor="middle") for x in labels]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36, names[0], "small", anchor="middle"))
    parts.append(_text(LEFT, TOP - 6, names[1], "small"))
    for number, curve in enumerate(curves):
        parts += _curve(curve, number, across, top)
    if len(curves) > 1:
        parts += _legend([curve.name for curve in curves])
    return _document(WIDTH, HEIGHT, chart.title, parts)


def bar_chart(title: str, bars: list[Bar]) -> str:
    """One bar for each ratio, all against the same dashed line: its goal."""
    height = TOP + BAR_STEP * len(bars) + 30
    room = BAR_TOLD - 24 - BAR_LEFT
    goal = BAR_LEFT + room / BAR_SCALE_MAX
    parts = [_text(12, 22, title, "title")]
    for number, bar in enumerate(bars):
        y = TOP + BAR_STEP * number
        length = room * min(bar.of_goal, BAR_SCALE_MAX) / BAR_SCALE_MAX
        colour = 2 if bar.of_goal >= 1 else 1
        parts.append(_text(BAR_LEFT - 8, y + 14, bar.name, "small", anchor="end"))
        parts.append(f'<rect x="{BAR_LEFT}" y="{y + 2}" width="{length:.1f}" height="16" class="f{colour}"/>')
        if bar.of_goal > BAR_SCALE_MAX:
            parts.append(_text(BAR_LEFT + length + 4, y + 14, "→", "small"))
        parts.append(_text(BAR_TOLD, y + 14, bar.told, "small"))
    bottom = TOP + BAR_STEP * len(bars)
    parts.append(_line(goal, TOP - 4, goal, bottom + 4, "goal"))
    parts.append(_text(goal, bottom + 20, "goal", "small", anchor="middle"))
    return _document(WIDTH, height, title, parts)


def nice_top(value: float) -> float:
    """The end of an axis that has this value on it: 1, 2, 2.5, 4, 5, 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value)


def short(value: float) -> str:
    """A number for an axis."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    if value >= 10_000:
        return f"{value / 1e3:g} k"
    return f"{value:.4g}"


def _scale(places: list[float]) -> tuple[list[float], dict[float, float]]:
    """Which x are labelled, and where on the page each lies."""
    logarithmic = places[0] > 0 and places[-1] / places[0] > 10
    values = [math.log(x) if logarithmic else x for x in places]
    span = (values[-1] - values[0]) or 1.0
    room = WIDTH - RIGHT - 40 - LEFT - 30
    labels = places if len(places) <= 2 * TICKS else places[:: len(places) // TICKS]
    return labels, {x: LEFT + 30 + room * (value - values[0]) / span for x, value in zip(places, values, strict=True)}


def _even_scale(places: list[float]) -> tuple[list[float], dict[float, float]]:
    """The same from zero on, labelled at round numbers."""
    top = nice_top(places[-1])
    labels = [top * tick / TICKS for tick in range(TICKS + 1)]
    return labels, {x: LEFT + (WIDTH - RIGHT - LEFT) * x / top for x in (*labels, *places)}


def _height(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _curve(curve: Curve, number: int, across: dict[float, float], top: float) -> Iterable[str]:
    points = [(across[x], _height(y, top)) for x, y in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" class="line c{number}"/>'
    for (x, y), (_, value) in zip(points, curve.points, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="f{number}"><title>{short(value)}</title></circle>'


def _legend(names: list[str]) -> Iterable[str]:
    x = float(LEFT)
    for number, name in enumerate(names):
        yield f'<rect x="{x:.1f}" y="{HEIGHT - 20}" width="10" height="10" class="f{number}"/>'
        yield _text(x + 15, HEIGHT - 11, name, "small")
        x += 15 + 7 * len(name) + 20


def _text(x: float, y: float, words: str, kind: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _document(width: int, height: int, title: str, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>", ""])
