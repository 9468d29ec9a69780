"""Plants every known mistake, one at a time, and finds in how many seeds the simulator sees it.

`python -m tests.simulation.planted_bugs --write` puts the table into docs/testing.md; `--only NAME` shows one.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.simulation import journal_scenario, server_run
from tests.simulation.ingest_bugs import INGEST_BUGS
from tests.simulation.journal_bugs import JOURNAL_BUGS
from tests.simulation.journal_client_bugs import CLIENT_BUGS
from tests.simulation.run_bugs import RUN_BUGS
from tests.simulation.runner import HALVES, simulate_in_order
from tests.simulation.server_bugs import SERVER_BUGS

if TYPE_CHECKING:
    from multiprocessing.pool import Pool

    from tests.simulation.planting import PlantedBug
    from tests.simulation.report import RunReport

BUGS: Final[dict[str, tuple[PlantedBug, ...]]] = {
    "server": (*SERVER_BUGS, *RUN_BUGS),
    "journal": (*JOURNAL_BUGS, *CLIENT_BUGS),
    "ingest": INGEST_BUGS,
}
PROFILE_OF: Final = {"journal": journal_scenario.profile_of, "server": server_run.profile_of}
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "testing.md"
BEGIN: Final = "<!-- planted bugs: written by `make planted-bugs` -->"
END: Final = "<!-- end of planted bugs -->"
CAUSE_CHARACTERS_MAX: Final = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """How a planted bug was caught, if it was."""

    half: str
    bug: PlantedBug
    seeds: int
    report: RunReport | None


def simulate_with(half: str, name: str, seed: int) -> RunReport:
    """One run with one bug planted."""
    (bug,) = (bug for bug in BUGS[half] if bug.name == name)
    with bug.plant():
        return HALVES[half](seed)


def published_seed(half: str, bug: PlantedBug) -> int | None:
    """The seed that caught it when the table was written."""
    row = re.search(rf"^\| {half} \| {re.escape(bug.name)} \|.*?\| (\d+) of ≤", published_table(), re.MULTILINE)
    return None if row is None else int(row[1]) - 1


def published_table() -> str:
    return DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def catch_at(half: str, bug: PlantedBug, seed: int, process: Pool) -> Catch | None:
    """Run one seed; None if it breaks no promise."""
    report = process.apply(simulate_with, (half, bug.name, seed))
    return None if report.violation is None else Catch(half=half, bug=bug, seeds=seed + 1, report=report)


def catch(half: str, bug: PlantedBug, *, workers: int | None = None, like: int | None = None) -> Catch:
    """Run seeds, all from 0 on, until one breaks a promise; first those with the profile of the seed `like`."""
    simulate = partial(simulate_with, half, bug.name)
    for report in simulate_in_order(simulate, seeds_to_try(half, bug.seeds_max, like), workers):
        if report.violation is not None:
            return Catch(half=half, bug=bug, seeds=report.seed + 1, report=report)
    return Catch(half=half, bug=bug, seeds=bug.seeds_max, report=None)


def seeds_to_try(half: str, count: int, like: int | None = None) -> list[int]:
    """What shows a mistake is a profile more than a seed, and the profile follows from the seed."""
    of = PROFILE_OF.get(half)
    if of is None or like is None:
        return list(range(count))
    return sorted(range(count), key=lambda seed: of(seed) is not of(like))


def table(catches: list[Catch]) -> str:
    """The table of docs/testing.md."""
    lines = ["| part | planted bug | what it breaks | caught in seed | by |", "|---|---|---|---|---|"]
    for caught in catches:
        seen = f"{caught.seeds} of ≤ {caught.bug.seeds_max}" if caught.report else f"not in {caught.seeds}"
        cause = _cause(caught.report) if caught.report else "—"
        lines.append(f"| {caught.half} | {caught.bug.name} | {caught.bug.breaks} | {seen} | {cause} |")
    return "\n".join(lines)


def _cause(report: RunReport) -> str:
    """The promise that was broken, without the names of one run."""
    violation = report.violation or ""
    last = violation.strip().splitlines()[-1]
    sentence = last.partition(" s: ")[2] if last.startswith("seed ") else f"the process fell over: {last}"
    sentence = sentence.replace("|", "/")
    return sentence if len(sentence) <= CAUSE_CHARACTERS_MAX else sentence[:CAUSE_CHARACTERS_MAX] + "…"


def write(text: str) -> None:
    """Replace the table in the document."""
    document = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted_bugs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/testing.md")
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs with this in their names")
    parser.add_argument("--half", choices=sorted(BUGS))
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    catches: list[Catch] = []
    for half in [options.half] if options.half else BUGS:
        for bug in BUGS[half]:
            if options.only in bug.name:
                catches.append(catch(half, bug, workers=options.workers))
                sys.stdout.write(table(catches[-1:]).splitlines()[-1] + "\n")
                sys.stdout.flush()
    if options.write:
        write(table(catches))
    return 1 if any(caught.report is None for caught in catches) else 0


if __name__ == "__main__":
    sys.exit(main())
