"""What a crash test of connectors has found, for people. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.chaos.connectors.events import ConnectorEvent
from tests.chaos.connectors.lines import PLAIN_SINKS, STREAMS
from tests.chaos.connectors.totals import with_run_added

LAST_RUN: Final = "## The last run\n"


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """Some events at once, and how long it took until everything that was sent before the last was over was out."""

    events: int
    seconds: float
    """From the first kill."""
    recovery_seconds: float
    """From when the last process was up again."""


@dataclass(slots=True, kw_only=True)
class ConnectorReport:
    """What happened."""

    seed: int
    seconds: float = 0.0
    recoveries: dict[ConnectorEvent, list[float]] = field(default_factory=lambda: {kind: [] for kind in ConnectorEvent})
    rounds: list[PlayedRound] = field(default_factory=list)
    lines: int = 0
    findings: list[str] = field(default_factory=list)
    interrupted: bool = False
    """Somebody has ended it: what went on then is not judged."""

    @property
    def events(self) -> int:
        return sum(len(times) for times in self.recoveries.values())

    def in_document(self, document: str) -> str:
        """docs/effectively-once.md, with this run as the last one, and added to those before it."""
        counts = {kind.value: len(times) for kind, times in self.recoveries.items()}
        added = with_run_added(
            document,
            counts,
            minutes=self.seconds / 60,
            lines=self.lines * len(STREAMS),
            found=bool(self.findings),
        )
        return f"{added.partition(LAST_RUN)[0]}{LAST_RUN}\n{self.text()}"

    def text(self) -> str:
        """For people."""
        hours, minutes = max(self.seconds, 1.0) / 3600, self.seconds / 60
        lines = [
            f"seed {self.seed}: {self.events} events in {minutes:.1f} min, {self.events / hours:.0f} an hour  ",
            f"{self.lines} lines of each of {len(STREAMS)} streams went through two queries to {PLAIN_SINKS + 1} sinks",
        ]
        if self.rounds:
            times = sorted(played.recovery_seconds for played in self.rounds)
            most = max(played.events for played in self.rounds)
            lines[-1] += "  "
            lines.append(
                f"{len(self.rounds)} rounds of up to {most} events; all that was sent was committed "
                f"{times[len(times) // 2]:.1f} s (median), at most {times[-1]:.1f} s after all processes\n"
                "of a round were up again"
            )
        lines += [
            "",
            "| killed with -9 | events | an hour | all that was sent is committed after, median | at most |",
            "|---|---|---|---|---|",
        ]
        for kind in ConnectorEvent:
            times = sorted(self.recoveries[kind])
            if times:
                middle, rate = times[len(times) // 2], len(times) / hours
                lines.append(f"| {kind} | {len(times)} | {rate:.0f} | {middle:.1f} s | {times[-1]:.1f} s |")
        right = "per stream each sink has what was sent, each line once and in order; no sink disagrees with another"
        if self.interrupted:
            right += f" (up to round {len(self.rounds)}, after which somebody has ended it)"
        verdict = "WRONG" if self.findings else right
        return "\n".join([*lines, "", f"verdict: {verdict}", *self.findings]) + "\n"
