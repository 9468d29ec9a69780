"""`python -m tests.stages`: all tests as CI runs them, in stages, the quickest first, and what became of them.

What fails is run once more, because tests of real processes race with whatever else the machine does. What fails twice
is wrong, and what a seed of the simulation has shown is wrong at once, since no race can cause it. What passes the
second time is listed at the end, so that it is seen and mended, and more than a few of those are wrong, too. A stage
that has no time left is a failure, says so, and is never left out. What only computes runs beside the stages after it,
which mostly wait, and gives way to them. What each part has used of processors is said. The last line is pytest's own.

`--seconds-gone N` takes from all the time what .ci/run has used before.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.test_coverage import COVERED_TESTS

BUILD: Final = Path("build")
MINUTES_MAX: Final = 84
"""Of all that .ci/run does, on a machine that has much else to do."""
OTHER_FAILED: Final = "ended, since another stage failed"
AGAIN_MAX: Final = 5
"""So many tests may fail and then pass, in all stages together."""
END_SECONDS_MAX: Final = 60.0
TIMED_OUT: Final = "no time left"
OPTIONS: Final = ("-q", "--durations=10", "--costs=10", "--timeout=900")
GIVES_WAY: Final = ("nice", "-n", "5")
SUMMARY: Final = re.compile(r"^=* ?\d+ (passed|failed|error|skipped|deselected|xfailed).* in [\d.]+s.*$")
AGAIN: Final = re.compile(r"(?:python -m tests\.(?:simulation|chaos)|make chaos|make fuzz)[ .][^\n]*")
SURE: Final = "python -m tests.simulation "
"""A seed gives the same run again, so there is nothing to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Tests that run one after the other, or in processes side by side, which may go on beside later stages."""

    name: str
    markers: str
    processes: int = 1
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Only what is there."""
    gives_way: bool = False
    """Whether the next stages begin meanwhile, and have the processors when they want them."""


COMPUTING: Final = (
    "tests/simulation",
    "tests/journal",
    "tests/connectors/relay/test_small_world.py",
    "tests/test_coverage.py",
)
"""Their slow tests want processors and nothing else: no other process, no time, no memory is measured."""
_SLOW: Final = "slow and not alone and not spark and not chaos and not soak"

STAGES: Final = (
    Stage(
        name="quick",
        markers="not slow and not spark and not chaos and not soak",
        processes=2,
        options=tuple(f"--ignore={path}" for path in COVERED_TESTS),  # the slow stage runs them, under coverage
    ),
    Stage(name="alone", markers="alone and not chaos and not soak"),
    Stage(name="computing", markers=_SLOW, processes=2, options=("--one-by-one",), paths=COMPUTING, gives_way=True),
    Stage(name="slow", markers=_SLOW, processes=3, options=tuple(f"--ignore={path}" for path in COMPUTING)),
    Stage(name="chaos", markers="chaos and not soak", processes=2, options=("--one-by-one",)),
    Stage(name="spark", markers="spark and not alone and not chaos and not soak", processes=3),
)


@dataclass(slots=True)
class Outcome:
    """What is known so far."""

    seconds_left: float = MINUTES_MAX * 60.0
    again: list[str] = field(default_factory=list)
    """What failed, and passed when it was run once more."""
    summaries: list[str] = field(default_factory=list)
    costs: list[str] = field(default_factory=list)
    """What each part has used of processors, all that it has started and waited for included."""
    repeat: str = ""
    """The command that shows one failure again."""
    sure: bool = False
    """Whether a seed of the simulation has shown something."""

    def take(self, name: str, output: str, *, ended: str = "") -> None:
        """What one process has said; `ended`: why it had to, if it did not by itself."""
        lines = [line for line in output.splitlines() if SUMMARY.match(line)]
        cut = f"{ended}, " if ended else ""
        self.summaries.append(f"{name}: {cut}{lines[-1] if lines else 'it did not come to an end'}")
        commands = AGAIN.findall(output)
        certain = [command for command in commands if command.startswith(SURE)]
        self.sure = self.sure or bool(certain)
        self.repeat = next(iter(certain), self.repeat or next(iter(commands), ""))

    def text(self) -> str:
        """The last lines of CI: all totals, what passed only the second time, the last summary as pytest wrote it."""
        lines = [f"== {one}" for one in [*self.costs, *self.summaries]]
        lines += [f"== FAILED, and passed when run again: {test}" for test in self.again]
        lines += [f"== see it again: {self.repeat}"] if self.repeat else []
        last = self.summaries[-1].partition(": ")[2] if self.summaries else TIMED_OUT
        return "\n".join([*lines, last])


def main() -> int:
    names = [stage.name for stage in STAGES]
    parser = argparse.ArgumentParser(prog="python -m tests.stages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="STAGE", help=f"{', '.join(names)}; or all")
    parser.add_argument("--seconds-gone", type=float, default=0.0, help="what was used before")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no stage {', '.join(sorted(unknown))}")
    wanted = [stage for stage in STAGES if stage.name in options.names or not options.names]
    outcome = Outcome()
    missing = _all_run(wanted, outcome, time.monotonic() + MINUTES_MAX * 60 - options.seconds_gone)
    if not missing:
        _say(outcome.text())
        return 0
    _say(f"== stage {missing[0]} FAILED" + (f"; NOT RUN: {', '.join(missing[1:])}" if missing[1:] else ""))
    _say(outcome.text())
    return 1


def _all_run(wanted: list[Stage], outcome: Outcome, end: float) -> list[str]:
    """The stage that failed, and those that did not run to their end because of it; nothing if all is well."""
    beside: list[Running] = []
    for number, stage in enumerate(wanted):
        outcome.seconds_left = end - time.monotonic()
        if stage.gives_way:
            beside.append(begun(stage))
        elif not passes(stage, outcome):
            for running in beside:
                _collected(running, outcome, 0.0, why=OTHER_FAILED)
            others = [running.stage.name for running in beside] + [one.name for one in wanted[number + 1 :]]
            return [stage.name, *others]
    for number, running in enumerate(beside):
        outcome.seconds_left = end - time.monotonic()
        if not _passed(running, outcome):
            for other in beside[number + 1 :]:
                _collected(other, outcome, 0.0, why=OTHER_FAILED)
            return [other.stage.name for other in beside[number:]]
    return []


def passes(stage: Stage, outcome: Outcome) -> bool:
    """Run a stage, and once more what has failed."""
    _say(f"== tests: {stage.name}, {outcome.seconds_left / 60:.0f} minutes left")
    return _passed(begun(stage), outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The processes of a stage, and what they have said up to now."""

    stage: Stage
    names: list[str]
    processes: list[subprocess.Popen[str]]
    outputs: list[list[str]]
    readers: list[threading.Thread]


def begun(stage: Stage) -> Running:
    """Its processes. The first one's output comes as it is said, unless the stage gives way to others.

    Each takes the next module that none of the others has: who ends well has seen to it that nothing is left out.
    """
    names = [f"{stage.name}-{number}" for number in range(1, stage.processes + 1)]
    names = names if stage.processes > 1 else [stage.name]
    shared = BUILD / f"shared-{stage.name}"
    commands = [[*_pytest(stage, name), *([f"--shared={shared}"] if stage.processes > 1 else [])] for name in names]
    for folder in (shared, *(BUILD / f"pytest-{name}" for name in names)):
        shutil.rmtree(folder, ignore_errors=True)
    return _started(stage, names, commands)


def _passed(running: Running, outcome: Outcome) -> bool:
    """Wait for the processes of a stage, and run once more what has failed."""
    began, stage = time.monotonic(), running.stage
    codes = _collected(running, outcome, outcome.seconds_left, why=TIMED_OUT)
    for name, code in zip(running.names, codes, strict=True):
        if code == 0:
            continue
        failed = last_failed(BUILD / f"pytest-{name}")
        if outcome.sure:
            return False
        if code != 1 or not failed or len(outcome.again) + len(failed) > AGAIN_MAX:
            return False
        command = [*_pytest(stage, name), "--last-failed", "--last-failed-no-failures=none"]
        left = outcome.seconds_left - (time.monotonic() - began)
        once_more = _started(
            dataclasses.replace(stage, gives_way=False), [f"{name}, once more what has failed"], [command]
        )
        if _collected(once_more, outcome, left, why=TIMED_OUT) != [0]:
            return False
        outcome.again += failed
    return True


def last_failed(cache: Path) -> list[str]:
    """The tests that pytest notes as failed."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def _pytest(stage: Stage, name: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", *stage.paths, *OPTIONS, *stage.options, "-m", stage.markers]
    return [*command, "-o", f"cache_dir={BUILD / f'pytest-{name}'}"]


def _started(stage: Stage, names: list[str], commands: list[list[str]]) -> Running:
    before = GIVES_WAY if stage.gives_way else ()
    processes = [
        subprocess.Popen([*before, *one], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for one in commands
    ]
    outputs: list[list[str]] = [[] for _ in processes]
    readers = [
        threading.Thread(target=_read, args=(process, lines), kwargs={"shown": not (number or stage.gives_way)})
        for number, (process, lines) in enumerate(zip(processes, outputs, strict=True))
    ]
    for reader in readers:
        reader.start()
    return Running(stage=stage, names=names, processes=processes, outputs=outputs, readers=readers)


def _collected(running: Running, outcome: Outcome, seconds: float, *, why: str) -> list[int]:
    """The exit codes, when all have ended, or after so long, which `why` says; what was not shown yet is."""
    end, ended = time.monotonic() + seconds, dict[str, str]()
    for name, process in zip(running.names, running.processes, strict=True):
        before = _processor_seconds()
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _say(f"== {name}: {why}")
            ended[name] = why
            _end(process)
        outcome.costs.append(f"{name}: {(_processor_seconds() - before) / 60:.1f} minutes of processors")
    for number, (name, reader) in enumerate(zip(running.names, running.readers, strict=True)):
        reader.join(timeout=10)  # what a killed test has left running may hold the pipe
        output = "".join(running.outputs[number])
        if number or running.stage.gives_way:
            _say(f"== tests: {name}\n{output}")
        outcome.take(name, output, ended=ended.get(name, ""))
    return [process.returncode for process in running.processes]


def _processor_seconds() -> float:
    """Of all processes that were waited for, and of those that they had waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end(process: subprocess.Popen[str]) -> None:
    """As a person would, so that it ends what it has started and says how far it came."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read(process: subprocess.Popen[str], lines: list[str], *, shown: bool) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if shown:
            _say(line.rstrip("\n"))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
