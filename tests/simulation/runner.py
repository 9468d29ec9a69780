"""Many seeds on all cores: for the tests, for soaking, and for the table of planted bugs."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.pool
import os
import subprocess
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.simulation.ingest_run import simulate_ingest
from tests.simulation.journal_run import simulate_journal
from tests.simulation.server_run import simulate_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.simulation.report import RunReport

HALVES: Final[dict[str, Callable[..., RunReport]]] = {
    "server": simulate_server,
    "journal": simulate_journal,
    "ingest": simulate_ingest,
}
"""What can be simulated."""


HASH_SEED: Final = "0"
ROOT: Final = Path(__file__).resolve().parents[2]
SEEDS_OF_A_COMMIT: Final = 1000
"""More than CI has time for."""


@dataclass(slots=True)
class Summary:
    """What many runs did together."""

    runs: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[RunReport] = field(default_factory=list)

    def add(self, report: RunReport) -> None:
        self.runs += 1
        self.counts += report.counts
        if report.violation is not None:
            self.violations.append(report)


def command_for(half: str, seed: int) -> str:
    """What a person types to see a run again."""
    return f"python -m tests.simulation --half {half} --seeds {seed}..{seed} --trace"


def simulate_many(
    half: str,
    seeds: Iterable[int],
    *,
    seconds: float | None = None,
    runs_min: int = 0,
    workers: int | None = None,
    tell: Callable[[RunReport], None] = lambda _: None,
) -> Summary:
    """Run the seeds, for so long, or until there are `runs_min` of them; `tell` hears of each."""
    summary, began = Summary(), time.monotonic()
    with _reports(half, seeds, workers) as reports:
        for report in reports:
            summary.add(report)
            tell(report)
            if seconds is not None and time.monotonic() - began > seconds and summary.runs >= runs_min:
                break
    summary.seconds = time.monotonic() - began
    return summary


def simulate_in_order(
    simulate: Callable[[int], RunReport], seeds: Iterable[int], workers: int | None = None
) -> Iterator[RunReport]:
    """The reports in the order of the seeds. Whoever has seen enough just stops."""
    with processes(workers) as pool:
        yield from pool.imap(simulate, seeds)


def seeds_of_this_commit() -> Iterable[int]:
    """Other seeds for each commit, the same for one: its number times a thousand, and on. Without git the first."""
    counted = ""
    with suppress(FileNotFoundError):
        command = ["git", "rev-list", "--count", "HEAD"]
        counted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return itertools.count(SEEDS_OF_A_COMMIT * int(counted or 1))


@contextmanager
def _reports(half: str, seeds: Iterable[int], workers: int | None) -> Iterator[Iterator[RunReport]]:
    with processes(workers) as pool:
        yield itertools.chain.from_iterable(
            pool.imap_unordered(HALVES[half], chunk, chunksize=4) for chunk in _chunks(seeds)
        )


def processes(workers: int | None) -> multiprocessing.pool.Pool:
    """One for each processor if None. They all hash alike, so that a seed gives the same order of a set again."""
    os.environ["PYTHONHASHSEED"] = HASH_SEED
    return multiprocessing.get_context("spawn").Pool(workers or os.cpu_count(), maxtasksperchild=200)


def _chunks(seeds: Iterable[int]) -> Iterator[list[int]]:
    """A pool takes all of an iterable at once, and soaking has no end."""
    rest = iter(seeds)
    while chunk := list(itertools.islice(rest, 400)):
        yield chunk
