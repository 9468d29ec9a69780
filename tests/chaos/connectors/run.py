"""A crash test from end to end: strike in rounds, measure how long what was sent needs to come out, judge the sinks.

The events of a round overlap: several processes are killed at once, and others while those come back. Each event has
its own wait for all that was sent before its processes were up again; a round ends when all of them are through.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_integration.pipelines.service_process import ProcessError
from tests.chaos.connectors.events import ConnectorEvent, rounds, rounds_of_one
from tests.chaos.connectors.report import ConnectorReport, PlayedRound
from tests.chaos.connectors.stage import INGEST, VOLUME, ConnectorStage
from tests.chaos.stage import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.chaos.connectors.events import Blow

RECOVERY_SECONDS_MAX: Final = 900.0
"""Only that a pipeline goes on is judged, not when: starting a driver has taken 100 s on a machine with much to do."""
_EVENTS_MAX: Final = 100_000
_SAYS_SO: Final = ("FENCED", "Multiple streaming jobs detected")


@dataclass(frozen=True, slots=True)
class Strike:
    """One event that is over."""

    up_at: float
    """When its processes were up again."""


def connector_crash_test(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    events_max: int = _EVENTS_MAX,
    variant: Variant | None = None,
    kinds: Sequence[ConnectorEvent] = (),
    recovery_seconds: float = RECOVERY_SECONDS_MAX,
    say: Callable[[str], None] = lambda _: None,
) -> ConnectorReport:
    """Until time or events have run out, or something is found. `kinds`, over and over, replaces the plan.

    ProcessError when it does not begin: that is not a finding. Ctrl-C ends it, too: the report has what was done.
    """
    report = ConnectorReport(seed=seed)
    chance = random.Random(seed)
    with ExitStack() as stack:
        stage = ConnectorStage(folder, stack, variant=variant or Variant())
        stage.produce()
        stage.wait_lines_out(1, seconds=RECOVERY_SECONDS_MAX)
        play = RoundPlayer(stage, report, recovery_seconds=recovery_seconds, say=say)
        try:
            for blows in rounds_of_one(chance, kinds) if kinds else rounds(chance):
                play.play(blows[: events_max - report.events])
                report.findings = stage.findings()
                if play.seconds > seconds or report.findings or report.events >= events_max:
                    break
            report.seconds = play.seconds
            _finish(stage, report, recovery_seconds)
        except ProcessError as error:
            report.findings += [*stage.findings(), str(error)]
        except KeyboardInterrupt:
            report.interrupted = True
        report.lines = report.lines or stage.watch.position
        report.seconds = report.seconds or play.seconds
    return report


class RoundPlayer:
    """Plays rounds, and notes in the report how long each event took."""

    def __init__(
        self,
        stage: ConnectorStage,
        report: ConnectorReport,
        *,
        recovery_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._report = report
        self._recovery_seconds = recovery_seconds
        self._say = say
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the first one."""
        return time.monotonic() - self._began

    def play(self, blows: Sequence[Blow]) -> None:
        """Returns when all that was sent is out. ProcessError when it does not come out."""
        began, running = time.monotonic(), []
        try:
            with ThreadPoolExecutor(max_workers=len(blows)) as threads:
                for blow in blows:
                    time.sleep(blow.pause_seconds)
                    running.append(threads.submit(self._strike, blow))
        except KeyboardInterrupt:
            self._stage.watch.note("somebody has ended it")  # so that none of the threads waits on
            raise
        up_at = max(strike.result().up_at for strike in running)
        self._stage.watch.look_again()
        now = time.monotonic()
        self._report.rounds.append(PlayedRound(len(blows), now - began, now - up_at))
        self._say(
            f"{self.seconds:7.1f} s  {self._report.events:5}  round {len(self._report.rounds)}: {len(blows)} events in "
            f"{now - began:.1f} s, all committed {now - up_at:.1f} s after the last process was up; "
            f"{self._report.events / self.seconds * 3600:.0f} events an hour, {self._stage.lines} lines of each stream"
        )

    def _strike(self, blow: Blow) -> Strike:
        began, chance = time.monotonic(), random.Random(blow.seed)
        try:
            _ACTIONS[blow.kind](self._stage, chance)
            up_at = time.monotonic()
            self._stage.wait_lines_out(self._stage.lines, seconds=self._recovery_seconds)
        except ProcessError as error:
            self._stage.watch.note(f"{blow.kind}: {error}")  # so that nobody else waits for long
            raise
        recovery = time.monotonic() - began
        self._report.recoveries[blow.kind].append(recovery)
        self._say(f"{self.seconds:7.1f} s  {self._report.events:5}  {blow.kind}: committed after {recovery:.1f} s")
        return Strike(up_at)


def _sleepwalk(stage: ConnectorStage) -> None:
    error = stage.sleepwalk()
    if not any(said in error for said in _SAYS_SO):
        stage.watch.note(f"a driver that was superseded failed without saying so: {error}")


_ACTIONS: Final[dict[ConnectorEvent, Callable[[ConnectorStage, random.Random], None]]] = {
    ConnectorEvent.PRODUCER: lambda stage, chance: stage.kill_producer(chance),
    ConnectorEvent.LISTENER: lambda stage, chance: stage.kill_listener(chance),
    ConnectorEvent.SERVER: lambda stage, chance: stage.cut_servers(chance, 1),
    ConnectorEvent.QUORUM: lambda stage, chance: stage.cut_servers(chance, 2),
    ConnectorEvent.SERVICE: lambda stage, chance: stage.kill_service(chance),
    ConnectorEvent.RELAY: lambda stage, chance: stage.kill_relay(chance),
    ConnectorEvent.SINK: lambda stage, chance: stage.kill_sink(chance),
    ConnectorEvent.SINKS: lambda stage, chance: stage.kill_sinks(chance),
    ConnectorEvent.EXECUTOR: lambda stage, _: stage.kill_executor(),
    ConnectorEvent.DRIVER: lambda stage, _: stage.kill_driver(),
    ConnectorEvent.MACHINE: lambda stage, _: stage.lose_machine(),
    ConnectorEvent.ZOMBIE: lambda stage, _: _sleepwalk(stage),
    ConnectorEvent.BLACKOUT: lambda stage, chance: stage.black_out(chance),
}


def _finish(stage: ConnectorStage, report: ConnectorReport, recovery_seconds: float) -> None:
    """Everything that was sent comes out; all that the sinks have is judged once more, and the logs verified."""
    stage.stop_producing()
    stage.wait_lines_out(stage.lines, seconds=recovery_seconds)
    stage.watch.look_again()
    stage.watch.stop()
    stage.kill_for_good()
    report.lines = stage.lines
    report.findings = stage.findings()
    followers, verdicts = stage.followers()
    for follower in followers:
        position = follower.look()
        report.findings += follower.findings
        if position < stage.lines:
            report.findings.append(f"{position} of {stage.lines} lines are out at the end")
    report.findings += verdicts.findings
    for volume in (VOLUME, INGEST):
        report.findings += _verified(stage, volume)


def _verified(stage: ConnectorStage, volume: str) -> list[str]:
    addresses = ",".join(server.address for server in stage.servers)
    command = [sys.executable, "-m", "journal", "verify", f"sos://{volume}", "--servers", addresses]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return []
    return [f"sos-journal verify of {volume} ended with {finished.returncode}: {finished.stdout}{finished.stderr}"]
