"""A crash test from end to end: play the plan, measure how long what was sent needs to come out, judge the sinks."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Final

from spark_integration.pipelines.service_process import ProcessError
from tests.chaos.connectors.events import ConnectorEvent, plan
from tests.chaos.connectors.report import ConnectorReport
from tests.chaos.connectors.stage import INGEST, VOLUME, ConnectorStage
from tests.chaos.stage import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

RECOVERY_SECONDS_MAX: Final = 240.0
_EVENTS_MAX: Final = 100_000
_SAYS_SO: Final = ("FENCED", "Multiple streaming jobs detected")


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

    ProcessError when it does not begin: that is not a finding.
    """
    report = ConnectorReport(seed=seed)
    chance = random.Random(seed)
    with ExitStack() as stack:
        stage = ConnectorStage(folder, stack, variant=variant or Variant())
        stage.produce()
        stage.wait_lines_out(1, seconds=RECOVERY_SECONDS_MAX)
        began = time.monotonic()
        try:
            for kind in islice(_script(chance, kinds), events_max):
                if time.monotonic() - began > seconds or report.findings:
                    break
                recovery = _play(stage, kind, chance, report, recovery_seconds)
                say(f"{time.monotonic() - began:6.1f} s  {report.events:5}  {kind}: committed after {recovery:.1f} s")
            report.seconds = time.monotonic() - began
            _finish(stage, report, recovery_seconds)
        except ProcessError as error:
            report.findings.append(str(error))
        report.seconds = report.seconds or time.monotonic() - began
    return report


def _script(chance: random.Random, kinds: Sequence[ConnectorEvent]) -> Iterator[ConnectorEvent]:
    while True:
        yield from kinds or plan(chance)


def _play(
    stage: ConnectorStage,
    kind: ConnectorEvent,
    chance: random.Random,
    report: ConnectorReport,
    recovery_seconds: float,
) -> float:
    time.sleep(chance.uniform(0.0, 0.6))
    began = time.monotonic()
    _ACTIONS[kind](stage, chance, report)
    stage.wait_lines_out(stage.lines, seconds=recovery_seconds)
    recovery = time.monotonic() - began
    report.recoveries[kind].append(recovery)
    report.findings += stage.findings()
    return recovery


def _kill_sink(stage: ConnectorStage, chance: random.Random) -> None:
    stage.kill(stage.sinks[chance.choice(sorted(stage.sinks))], chance.uniform(0.0, 1.0))


def _kill_sinks(stage: ConnectorStage, chance: random.Random) -> None:
    for sink in stage.sinks.values():
        sink.kill()
    time.sleep(chance.uniform(2.0, 6.0))
    for sink in stage.sinks.values():
        sink.start_again()


def _sleepwalk(stage: ConnectorStage, report: ConnectorReport) -> None:
    error = stage.sleepwalk()
    if not any(said in error for said in _SAYS_SO):
        report.findings.append(f"a driver that was superseded failed without saying so: {error}")


_ACTIONS: Final[dict[ConnectorEvent, Callable[[ConnectorStage, random.Random, ConnectorReport], None]]] = {
    ConnectorEvent.PRODUCER: lambda stage, chance, _: stage.kill_producer(chance),
    ConnectorEvent.LISTENER: lambda stage, chance, _: stage.kill(stage.listener, chance.uniform(0.0, 1.0)),
    ConnectorEvent.SERVER: lambda stage, chance, _: stage.cut_servers(chance, 1),
    ConnectorEvent.QUORUM: lambda stage, chance, _: stage.cut_servers(chance, 2),
    ConnectorEvent.SERVICE: lambda stage, chance, _: stage.kill(stage.service, chance.uniform(0.0, 1.0)),
    ConnectorEvent.RELAY: lambda stage, chance, _: stage.kill(stage.relay, chance.uniform(0.0, 1.0)),
    ConnectorEvent.SINK: lambda stage, chance, _: _kill_sink(stage, chance),
    ConnectorEvent.SINKS: lambda stage, chance, _: _kill_sinks(stage, chance),
    ConnectorEvent.EXECUTOR: lambda stage, _, __: stage.kill_executor(),
    ConnectorEvent.DRIVER: lambda stage, _, __: stage.kill_driver(),
    ConnectorEvent.MACHINE: lambda stage, _, __: stage.lose_machine(),
    ConnectorEvent.ZOMBIE: lambda stage, _, report: _sleepwalk(stage, report),
    ConnectorEvent.BLACKOUT: lambda stage, chance, _: stage.black_out(chance),
}


def _finish(stage: ConnectorStage, report: ConnectorReport, recovery_seconds: float) -> None:
    """Everything that was sent comes out; all that the sinks have is judged once more, and the logs verified."""
    stage.stop_producing()
    stage.wait_lines_out(stage.lines, seconds=recovery_seconds)
    stage.driver.kill()
    report.lines = stage.lines
    for follower in stage.followers():
        position = follower.look()
        report.findings += follower.findings
        if position < stage.lines:
            report.findings.append(f"{position} of {stage.lines} lines are out at the end")
    for volume in (VOLUME, INGEST):
        report.findings += _verified(stage, volume)


def _verified(stage: ConnectorStage, volume: str) -> list[str]:
    addresses = ",".join(server.address for server in stage.servers)
    command = [sys.executable, "-m", "journal", "verify", f"sos://{volume}", "--servers", addresses]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return []
    return [f"sos-journal verify of {volume} ended with {finished.returncode}: {finished.stdout}{finished.stderr}"]
