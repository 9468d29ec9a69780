"""A crash test: play the plan on the stage, measure how long it takes until the next batch, judge the output."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from spark_integration.pipelines.service_process import ProcessError
from tests.chaos.events import Kind, plan
from tests.chaos.stage import PER_FILE, QUERIES, VOLUME, Stage, Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

RECOVERY_SECONDS_MAX: Final = 900.0
"""Only that queries go on is judged, not when: a machine with much to do takes minutes to start a driver."""
_EVENTS_MAX: Final = 100_000
_OUTAGE_SECONDS: Final = (1.2, 5.0)
_SAYS_SO: Final = ("FENCED", "Multiple streaming jobs detected")


@dataclass(slots=True, kw_only=True)
class Report:
    """What happened."""

    seed: int
    seconds: float = 0.0
    recoveries: dict[Kind, list[float]] = field(default_factory=lambda: defaultdict(list))
    files: int = 0
    calls: int = 0
    """Of a client beside Spark, held against the log by the independent checker."""
    findings: list[str] = field(default_factory=list)
    interrupted: bool = False
    """Somebody has ended it: what went on then is not judged."""

    @property
    def events(self) -> int:
        return sum(len(times) for times in self.recoveries.values())

    def text(self) -> str:
        """For people."""
        hours = self.seconds / 3600
        lines = [
            f"seed {self.seed}: {self.events} events in {self.seconds / 60:.1f} min, {self.events / hours:.0f} an hour",
            f"{self.files} files of {PER_FILE} new records went through each of {len(QUERIES)} queries",
            f"{self.calls} calls of a client beside them were held against the log",
            "",
            "| killed with -9 | events | an hour | next batch after, median | at most |",
            "|---|---|---|---|---|",
        ]
        for kind in Kind:
            times = sorted(self.recoveries[kind])
            if times:
                middle = times[len(times) // 2]
                rate = len(times) / hours
                lines.append(f"| {kind} | {len(times)} | {rate:.0f} | {middle:.1f} s | {times[-1]:.1f} s |")
        verdict = "no record was lost, duplicated or changed" if not self.findings else "WRONG"
        verdict += " (up to where somebody has ended it)" if self.interrupted else ""
        return "\n".join([*lines, "", f"verdict: {verdict}", *self.findings]) + "\n"


def crash_test(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    events_max: int = _EVENTS_MAX,
    variant: Variant | None = None,
    kinds: Sequence[Kind] = (),
    recovery_seconds: float = RECOVERY_SECONDS_MAX,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Until time or events have run out, or something is found. `kinds`, over and over, replaces the plan."""
    report = Report(seed=seed)
    chance = random.Random(seed)
    with ExitStack() as stack:
        began = time.monotonic()
        try:
            stage = Stage(folder, stack, variant=variant or Variant())
            stage.produce()
            stage.wait_files_out(1, seconds=RECOVERY_SECONDS_MAX)
            began = time.monotonic()
            for kind in islice(_script(chance, kinds), events_max):
                if time.monotonic() - began > seconds or report.findings:
                    break
                recovery = _play(stage, kind, chance, report, recovery_seconds)
                say(f"{time.monotonic() - began:6.1f} s  {kind}: next batch after {recovery:.1f} s")
            report.seconds = time.monotonic() - began
            _finish(stage, report, recovery_seconds)
        except ProcessError as error:
            report.findings.append(str(error))
        except KeyboardInterrupt:
            report.interrupted = True
        report.seconds = report.seconds or time.monotonic() - began
    return report


def _script(chance: random.Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    while True:
        yield from kinds or plan(chance)


def _play(stage: Stage, kind: Kind, chance: random.Random, report: Report, recovery_seconds: float) -> float:
    time.sleep(chance.uniform(0.0, 0.6))
    before = stage.files_out()
    began = time.monotonic()
    _ACTIONS[kind](stage, chance, report)
    stage.wait_files_out(before + 1, seconds=recovery_seconds)
    recovery = time.monotonic() - began
    report.recoveries[kind].append(recovery)
    report.findings += stage.findings()
    return recovery


def _sleepwalk(stage: Stage, report: Report) -> None:
    error = stage.sleepwalk()
    if not any(said in error for said in _SAYS_SO):
        report.findings.append(f"a driver that was superseded failed without saying so: {error}")


_ACTIONS: Final[dict[Kind, Callable[[Stage, random.Random, Report], None]]] = {
    Kind.SERVER: lambda stage, chance, _: stage.cut_servers(chance, 1),
    Kind.QUORUM: lambda stage, chance, _: stage.cut_servers(chance, 2),
    Kind.SERVICE: lambda stage, chance, _: stage.kill_service(chance),
    Kind.EXECUTOR: lambda stage, _, __: stage.kill_executor(),
    Kind.DRIVER: lambda stage, _, __: stage.kill_driver(),
    Kind.MACHINE: lambda stage, _, __: stage.lose_machine(),
    Kind.ZOMBIE: lambda stage, _, report: _sleepwalk(stage, report),
    Kind.BLACKOUT: lambda stage, chance, _: stage.black_out(chance),
    Kind.OUTAGE: lambda stage, chance, _: stage.leave_without_service(chance.uniform(*_OUTAGE_SECONDS)),
}


def _finish(stage: Stage, report: Report, recovery_seconds: float) -> None:
    """Everything that was produced comes out; the whole output is compared once more, and the log verified."""
    stage.stop_producing()
    time.sleep(0.3)
    stage.wait_files_out(stage.files, seconds=recovery_seconds)
    stage.driver.kill()
    stage.bystander.end()
    for judge in stage.judges():
        report.findings += judge.findings()
        report.files = judge.files
    report.findings += _verified(stage)
    report.calls = len(stage.bystander.calls)
    report.findings += stage.bystander.findings([server.address for server in stage.servers])


def _verified(stage: Stage) -> list[str]:
    addresses = ",".join(server.address for server in stage.servers)
    command = [sys.executable, "-m", "journal", "verify", f"sos://{VOLUME}", "--servers", addresses]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return []
    return [f"sos-journal verify ended with {finished.returncode}: {finished.stdout}{finished.stderr}"]
