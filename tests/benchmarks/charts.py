"""docs/performance.md and its charts, from what the benchmarks wrote: `python -m tests.benchmarks.charts`.

Takes the figures from build/ to docs/performance/, draws them, and writes the parts of the document between markers.
Without new figures it writes the same bytes again; `--check` says whether it would change anything.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.benchmarks.comparison import Result, figure, read_results
from tests.benchmarks.curves import Chart, read_charts
from tests.benchmarks.load_generator import BUILD
from tests.benchmarks.profiles import Profile, read_profiles
from tests.benchmarks.svg import Bar, bar_chart, line_chart

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT: Final = DOCS / "performance.md"
FIGURES: Final = DOCS / "performance"
SOURCES: Final = ("machine.json", "bench.json", "bench-beside.json", "growth.json", "order.json", "profiles.json")
WRITTEN_BY: Final = "tests.benchmarks.charts"
NAME_CHARACTERS: Final = 62


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if anything would change")
    parser.add_argument("--from", dest="source", type=Path, default=BUILD, help="where the figures are (build/)")
    options = parser.parse_args()
    if options.check:
        wrong = [str(path) for path, text in rendered(FIGURES).items() if not path.exists() or path.read_text() != text]
        print("\n".join(["would change:", *wrong]) if wrong else "as the figures say")
        return 1 if wrong else 0
    FIGURES.mkdir(exist_ok=True)
    for name in SOURCES:
        if (options.source / name).exists():
            shutil.copyfile(options.source / name, FIGURES / name)
    files = rendered(FIGURES)
    for old in FIGURES.glob("*.svg"):
        if old not in files:
            old.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))
    return 0


def rendered(figures: Path) -> dict[Path, str]:
    """Every file that follows from the figures in this directory, and what is to be in it."""
    results = [*read_results(figures / "bench.json"), *read_results(figures / "bench-beside.json")]
    charts = [chart for name in ("growth.json", "order.json") for chart in read_charts(figures / name)]
    files = {figures / f"{chart.key}.svg": line_chart(chart) for chart in charts}
    files[figures / "goals.svg"] = bar_chart("Ratios as parts of their goals", goal_bars(results))
    sections = {
        "machine": machine_table(json.loads((figures / "machine.json").read_text(encoding="utf-8"))),
        "goals": goals_table(results),
        "other figures": others_table(results),
        "profiles": profile_tables(read_profiles(figures / "profiles.json")),
        "growth": growth_section(charts),
    }
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, content in sections.items():
        text = between_markers(text, name, content)
    return files | {DOCUMENT: text}


def between_markers(text: str, name: str, content: str, *, written_by: str = WRITTEN_BY) -> str:
    """The document with this content between the markers of that name. ValueError if they are not there once."""
    begin, end = f"<!-- {name}: written by `python -m {written_by}` -->", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the markers of {name!r} are not there once each, in order")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}"


def table(heading: list[str], rows: list[list[str]], *, right: frozenset[int] = frozenset()) -> str:
    """A table in Markdown; columns in `right` are aligned to the right."""
    rule = ["---:" if number in right else "---" for number in range(len(heading))]
    lines = [heading, rule, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_table(facts: dict[str, str]) -> str:
    return table(["what", "measured on"], [[name, value] for name, value in facts.items()])


def goals_table(results: list[Result]) -> str:
    """What was asked for, in order, and whether it is reached."""
    rows = [
        [
            result.name,
            figure(result.ours),
            f"{result.peer_name}: {figure(result.peer)}",
            result.unit,
            f"{result.ratio:.2f}",
            f"{result.goal:g}",
            spread(result),
            "**reached**" if result.verdict == "reached" else result.verdict,
        ]
        for result in results
        if result.goal is not None
    ]
    heading = ["what", "SOS", "against", "unit", "ratio", "goal", "each round", ""]
    return table(heading, rows, right=frozenset({1, 4, 5}))


def others_table(results: list[Result]) -> str:
    """Figures without a goal."""
    rows = [
        [result.name, figure(result.ours), f"{result.peer_name}: {figure(result.peer)}", result.unit]
        for result in results
        if result.goal is None
    ]
    return table(["what", "SOS", "beside", "unit"], rows, right=frozenset({1})) if rows else "None."


def spread(result: Result) -> str:
    """The least and the most ratio of the rounds."""
    if len(result.ratios) < 2:
        return "counted"
    return f"{min(result.ratios):.2f} – {max(result.ratios):.2f}"


def goal_bars(results: list[Result]) -> list[Bar]:
    return [
        Bar(
            name=shortened(f"{result.name} / {result.peer_name.split(',')[0]}"),
            of_goal=result.ratio / result.goal,
            told=f"{result.ratio:.2f} of {result.goal:g}",
        )
        for result in results
        if result.goal
    ]


def shortened(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"


def growth_section(charts: list[Chart]) -> str:
    """Each chart with the figures behind it."""
    parts = []
    for chart in charts:
        places = [x for x, _ in chart.curves[0].points]
        rows = [[curve.name, *(figure(y) for _, y in curve.points)] for curve in chart.curves]
        heading = [f"{chart.y}, by {chart.x}", *(chart.read_x(x) for x in places)]
        note = f"\n\n{chart.note}" if chart.note else ""
        figures = table(heading, rows, right=frozenset(range(1, len(heading))))
        parts.append(f"### {chart.title}\n\n![{chart.title}](performance/{chart.key}.svg)\n\n{figures}{note}")
    return "\n\n".join(parts)


def profile_tables(profiles: list[Profile]) -> str:
    return "\n\n".join(profile_table(profile) for profile in profiles)


def profile_table(profile: Profile) -> str:
    total = (
        f"**{profile.path}**: {profile.what}.\n{profile.microseconds:.1f} µs of processor time for each"
        f" {profile.operation} in the {profile.process}:\n{profile.user_microseconds:.1f} in Python and C,"
        f" {profile.system_microseconds:.1f} in the kernel."
    )
    rows = [
        [f"`{line.where}`", f"{line.share:.1%}", f"{line.share * profile.microseconds:.2f}"] for line in profile.lines
    ]
    return f"{total}\n\n{table(['function itself', 'share', 'µs'], rows, right=frozenset({1, 2}))}"


if __name__ == "__main__":
    sys.exit(main())
