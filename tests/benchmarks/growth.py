"""How cost grows: with clients, objects, bytes stored, file size, files, members. Writes build/growth.json.

`python -m tests.benchmarks.growth` runs it alone; `--only growth` does so as a part of the benchmarks. Each point is
the median of rounds that visit all points of a curve in turn.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks import growth_journal, growth_server
from tests.benchmarks.comparison import Report, figure
from tests.benchmarks.curves import Chart, write_charts
from tests.benchmarks.load_generator import BUILD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATH: Final = BUILD / "growth.json"
SECONDS: Final = 0.6
FULL_SECONDS: Final = 1.0
SHORT_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far the curves go."""

    objects: tuple[int, ...] = growth_server.OBJECTS
    stored_bytes: tuple[int, ...] = growth_server.STORED_BYTES
    files: tuple[int, ...] = growth_journal.FILES
    image_files: tuple[int, ...] = growth_journal.IMAGE_FILES


SHORT: Final = Extent(
    objects=(10, 100), stored_bytes=(1 << 20, 1 << 30), files=(100, 1_000), image_files=(1_000, 2_000)
)


def suite(report: Report, directory: Path, seconds: float) -> None:
    """As one of the benchmarks: all charts; nothing is compared. Short ones only, and not kept, when time is short."""
    full = seconds >= FULL_SECONDS
    if full:
        write_charts(PATH, measure(directory, SECONDS, rounds=min(3, report.rounds), extent=Extent()))
    else:
        measure(directory, SHORT_SECONDS, rounds=1, extent=SHORT)


def measure(directory: Path, seconds: float, *, rounds: int, extent: Extent) -> list[Chart]:
    """Every chart, one after the other; each cleans its directory up, as some write gigabytes."""
    charts: list[Chart] = []
    for name, part in _parts(seconds, rounds, extent).items():
        place = directory / name
        start = time.monotonic()
        try:
            charts += part(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        print(f"growth: {name}: {time.monotonic() - start:.0f} s", flush=True)
    return charts


def _parts(seconds: float, rounds: int, extent: Extent) -> dict[str, Callable[[Path], list[Chart]]]:
    return {
        "clients": partial(growth_server.by_clients, seconds=seconds, rounds=rounds),
        "objects": partial(growth_server.by_objects, seconds=seconds, rounds=rounds, counts=extent.objects),
        "stored": partial(growth_server.by_stored_bytes, seconds=seconds, rounds=rounds, sizes=extent.stored_bytes),
        "file-size": partial(growth_journal.by_file_size, seconds=seconds, rounds=rounds),
        "files": partial(growth_journal.by_files, seconds=seconds, rounds=rounds, counts=extent.files),
        "images": lambda _: growth_journal.of_images(extent.image_files),
        "members": partial(growth_journal.by_members, seconds=seconds, rounds=rounds),
        "listing": partial(growth_journal.beside_a_listing, seconds=seconds, rounds=rounds, files=extent.files[-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--directory", type=Path, default=BUILD)
    parser.add_argument("--short", action="store_true", help="small numbers, to see that it runs; writes nothing")
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True, parents=True)
    directory = Path(tempfile.mkdtemp(prefix="growth-", dir=options.directory))
    try:
        extent = SHORT if options.short else Extent()
        charts = measure(directory, options.seconds, rounds=options.rounds, extent=extent)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for line in _lines(charts):
        print(line)
    if not options.short:
        write_charts(PATH, charts)


def _lines(charts: list[Chart]) -> Iterator[str]:
    for chart in charts:
        yield f"{chart.title} ({chart.y})"
        for curve in chart.curves:
            points = "  ".join(f"{chart.read_x(x)}: {figure(y)}" for x, y in curve.points)
            yield f"  {curve.name}: {points}"


if __name__ == "__main__":
    main()
