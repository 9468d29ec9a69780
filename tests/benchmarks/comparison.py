"""Ours against theirs in one run: alternating rounds, medians, ratios; a table for people and JSON for programs."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

GENERATOR_SHARE_MAX: Final = 0.9
"""Of one processor. Beyond it the load generator, not the server, may be what was measured."""
STOLEN_SHARE_MAX: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measurement that knows how busy the load generator was."""

    value: float
    generator_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the table. `ratio` is always "bigger is better"; `goal` is None where none was set."""

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    goal: float | None
    suite: str
    rounds: int
    ratios: list[float]
    """Of each round, in order: how steady the machine was."""
    generator_share: float
    """The most that the load generator took of one processor while ours was measured."""
    stolen: float
    """The share of the machine's time that the hypervisor gave to other machines (0 to 1)."""

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "reached" if self.ratio >= self.goal else "not reached"


@dataclass(slots=True)
class Report:
    """Collects results and what could not be measured."""

    rounds: int
    suite: str = ""
    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    syncs: dict[str, str] = field(default_factory=dict)
    """What strace saw of each server that is called durable."""

    def compare(
        self,
        name: str,
        ours: Callable[[], float | Reading],
        peer: Callable[[], float | Reading],
        *,
        peer_name: str,
        unit: str,
        goal: float | None,
        smaller_is_better: bool = False,
        rounds: int | None = None,
    ) -> Result:
        """Alternates the two, and takes the median of the ratios of neighbouring rounds."""
        mine: list[Reading] = []
        theirs: list[Reading] = []
        before = machine_time()
        for number in range(rounds or self.rounds):
            order = [(ours, mine), (peer, theirs)]
            for measure, into in order if number % 2 == 0 else reversed(order):
                value = measure()
                into.append(value if isinstance(value, Reading) else Reading(value=value, generator_share=0.0))
        pairs = [(a.value, b.value) for a, b in zip(mine, theirs, strict=True)]
        ratios = [b / a if smaller_is_better else a / b for a, b in pairs]
        return self.add(
            Result(
                name=name,
                ours=statistics.median(a for a, _ in pairs),
                peer=statistics.median(b for _, b in pairs),
                peer_name=peer_name,
                unit=unit,
                ratio=statistics.median(ratios),
                goal=goal,
                suite=self.suite,
                rounds=len(pairs),
                ratios=[round(ratio, 3) for ratio in ratios],
                generator_share=max(reading.generator_share for reading in mine),
                stolen=stolen_share(before, machine_time()),
            )
        )

    def state(
        self,
        name: str,
        ours: float,
        peer: float,
        *,
        peer_name: str,
        unit: str,
        goal: float | None,
        smaller_is_better: bool = True,
    ) -> Result:
        """A figure that is counted, or measured elsewhere, against another or a limit."""
        ratio = peer / ours if smaller_is_better else ours / peer
        return self.add(
            Result(
                name=name,
                ours=ours,
                peer=peer,
                peer_name=peer_name,
                unit=unit,
                ratio=ratio,
                goal=goal,
                suite=self.suite,
                rounds=1,
                ratios=[round(ratio, 3)],
                generator_share=0.0,
                stolen=0.0,
            )
        )

    def add(self, result: Result) -> Result:
        self.results.append(result)
        return result

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason

    def keep_others(self, path: Path, *, measured: set[str]) -> None:
        """Takes over what an earlier run wrote of suites that this one did not measure to their end."""
        found = {(result.name, result.peer_name) for result in self.results}
        for result in [*read_results(path), *read_results(beside(path))]:
            if result.suite not in measured and (result.name, result.peer_name) not in found:
                self.results.append(result)

    def write_json(self, path: Path) -> None:
        """What has a goal goes to this file, in which every goal is a number; the rest to one beside it."""
        path.parent.mkdir(exist_ok=True)
        for to, has_goal in ((path, True), (beside(path), False)):
            rows = [asdict(result) for result in self.results if (result.goal is not None) == has_goal]
            to.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")

    def in_order(self, suites: Sequence[str]) -> None:
        """Sorts by suite, whatever was measured now and what was kept."""
        self.results.sort(key=lambda result: suites.index(result.suite) if result.suite in suites else len(suites))

    def print_table(self, console: Console) -> None:
        table = Table(title="Ours against theirs, medians of alternating rounds")
        for heading in ("what", "ours", "theirs", "peer", "unit", "ratio", "goal", ""):
            table.add_column(heading, justify="right" if heading in {"ours", "theirs", "ratio", "goal"} else "left")
        for result in self.results:
            goal = "" if result.goal is None else f"{result.goal:g}"
            columns = [result.name, figure(result.ours), figure(result.peer), result.peer_name, result.unit]
            table.add_row(*columns, f"{result.ratio:.2f}", goal, result.verdict)
        console.print(table)
        for line in self.remarks():
            console.print(line)

    def remarks(self) -> list[str]:
        """What the reader of the table has to know besides."""
        lines = [f"strace: {name}: {seen}" for name, seen in self.syncs.items()]
        lines += [f"LEFT OUT: {name}: {reason}" for name, reason in self.left_out.items()]
        if self.results:
            busiest = max(self.results, key=lambda result: result.generator_share)
            share = f"{busiest.generator_share:.0%} of one processor"
            told = "is not" if busiest.generator_share <= GENERATOR_SHARE_MAX else "may be"
            lines.append(f"The load generator took at most {share} ({busiest.name}): it {told} the limit.")
            if (stolen := max(result.stolen for result in self.results)) > STOLEN_SHARE_MAX:
                lines.append(
                    f"The machine was shared: up to {stolen:.0%} of its time went to others. Repeat when quiet."
                )
        return lines


def beside(path: Path) -> Path:
    """Where the figures without a goal are."""
    return path.with_name(f"{path.stem}-beside{path.suffix}")


def read_results(path: Path) -> list[Result]:
    """What a run wrote; nothing if there was none, or another version of this suite wrote it."""
    if not path.exists():
        return []
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    known = {entry.name for entry in fields(Result)}
    return [Result(**entry) for entry in entries if set(entry) == known]


def figure(value: float) -> str:
    """A number as a person reads it."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def machine_time() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of all processors since start, in ticks."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    return [int(word) for word in first.split()[1:9]]


def stolen_share(before: list[int], after: list[int]) -> float:
    """Share of the time that the hypervisor gave to other machines."""
    passed = [end - start for start, end in zip(before, after, strict=True)]
    return passed[7] / max(1, sum(passed))


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
