"""`python -m tests.stages`: all tests as CI runs them, in stages, the quickest first, and what became of them.

What fails is run once more, because tests of real processes race with whatever else the machine does. What fails twice
is wrong, and what a seed of the simulation has shown is wrong at once, since no race can cause it. What passes the
second time is listed at the end, so that it is seen and mended, and more than a few of those are wrong, too. A stage
that has no time left is a failure, says so, and is never left out. The last line is pytest's own.

`--seconds-gone N` takes from all the time what .ci/run has used before.
"""

from __future__ import annotations

import argparse
import json
import re
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
"""Of all that .ci/run does, on a machine that has much else to do. On two quiet cores it takes about fifty."""
AGAIN_MAX: Final = 5
"""So many tests may fail and then pass, in all stages together."""
END_SECONDS_MAX: Final = 60.0
TIMED_OUT: Final = "no time left"
OPTIONS: Final = ("-q", "--durations=10", "--timeout=900")
SUMMARY: Final = re.compile(r"^=* ?\d+ (passed|failed|error|skipped|deselected|xfailed).* in [\d.]+s.*$")
AGAIN: Final = re.compile(r"(?:python -m tests\.(?:simulation|chaos)|make chaos|make fuzz)[ .][^\n]*")
SURE: Final = "python -m tests.simulation "
"""A seed gives the same run again, so there is nothing to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Tests that run one after the other, or in two parts side by side."""

    name: str
    markers: str
    parts: int = 1
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Only what is there."""


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
        parts=2,
        options=tuple(f"--ignore={path}" for path in COVERED_TESTS),  # the slow stage runs them, under coverage
    ),
    Stage(name="computing", markers=_SLOW, parts=2, options=("--any-part",), paths=COMPUTING),
    Stage(name="slow", markers=_SLOW, parts=2, options=tuple(f"--ignore={path}" for path in COMPUTING)),
    Stage(name="alone", markers="alone and not chaos and not soak"),
    Stage(name="chaos", markers="chaos and not soak", parts=2, options=("--any-part",)),
    Stage(name="spark", markers="spark and not alone and not chaos and not soak", parts=2),
)


@dataclass(slots=True)
class Outcome:
    """What is known so far."""

    seconds_left: float = MINUTES_MAX * 60.0
    again: list[str] = field(default_factory=list)
    """What failed, and passed when it was run once more."""
    summaries: list[str] = field(default_factory=list)
    repeat: str = ""
    """The command that shows one failure again."""
    sure: bool = False
    """Whether a seed of the simulation has shown something."""

    def take(self, name: str, output: str, *, timed_out: bool = False) -> None:
        lines = [line for line in output.splitlines() if SUMMARY.match(line)]
        cut = f"{TIMED_OUT}, " if timed_out else ""
        self.summaries.append(f"{name}: {cut}{lines[-1] if lines else 'it did not come to an end'}")
        commands = AGAIN.findall(output)
        certain = [command for command in commands if command.startswith(SURE)]
        self.sure = self.sure or bool(certain)
        self.repeat = next(iter(certain), self.repeat or next(iter(commands), ""))

    def text(self) -> str:
        """The last lines of CI: all totals, what passed only the second time, the last summary as pytest wrote it."""
        lines = [f"== {summary}" for summary in self.summaries]
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
    outcome, began = Outcome(), time.monotonic() - options.seconds_gone
    for stage in wanted:
        outcome.seconds_left = MINUTES_MAX * 60 - (time.monotonic() - began)
        if not passes(stage, outcome):
            break
    else:
        _say(outcome.text())
        return 0
    not_run = [other.name for other in wanted[wanted.index(stage) + 1 :]]
    _say(f"== stage {stage.name} FAILED" + (f"; NOT RUN: {', '.join(not_run)}" if not_run else ""))
    _say(outcome.text())
    return 1


def passes(stage: Stage, outcome: Outcome) -> bool:
    """Run a stage, and once more what has failed."""
    began = time.monotonic()
    names = [f"{stage.name}-{part}" if stage.parts > 1 else stage.name for part in range(1, stage.parts + 1)]
    commands = [
        [*_pytest(stage, name), *([f"--part={part}/{stage.parts}"] if stage.parts > 1 else [])]
        for part, name in enumerate(names, start=1)
    ]
    for name in names:
        shutil.rmtree(BUILD / f"pytest-{name}", ignore_errors=True)
    codes = _run(names, commands, outcome, outcome.seconds_left)
    for name, code in zip(names, codes, strict=True):
        if code == 0:
            continue
        failed = last_failed(BUILD / f"pytest-{name}")
        if outcome.sure:
            return False
        if code != 1 or not failed or len(outcome.again) + len(failed) > AGAIN_MAX:
            return False
        command = [*_pytest(stage, name), "--last-failed", "--last-failed-no-failures=none"]
        left = outcome.seconds_left - (time.monotonic() - began)
        if _run([f"{name}, once more what has failed"], [command], outcome, left) != [0]:
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


def _run(names: list[str], commands: list[list[str]], outcome: Outcome, seconds: float) -> list[int]:
    """Side by side; the first one's output as it comes, the others' after it. Their exit codes."""
    _say(f"== tests: {' and '.join(names)}, {seconds / 60:.0f} minutes left")
    running = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for one in commands]
    outputs: list[list[str]] = [[] for _ in running]
    readers = [
        threading.Thread(target=_read, args=(process, lines), kwargs={"shown": number == 0})
        for number, (process, lines) in enumerate(zip(running, outputs, strict=True))
    ]
    for reader in readers:
        reader.start()
    end, timed_out = time.monotonic() + seconds, set[str]()
    for name, process in zip(names, running, strict=True):
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _say(f"== {name}: {TIMED_OUT}")
            timed_out.add(name)
            _end(process)
    for number, (name, reader) in enumerate(zip(names, readers, strict=True)):
        reader.join(timeout=10)  # what a killed test has left running may hold the pipe
        output = "".join(outputs[number])
        if number:
            _say(f"== tests: {name}\n{output}")
        outcome.take(name, output, timed_out=name in timed_out)
    return [process.returncode for process in running]


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
