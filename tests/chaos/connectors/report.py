"""What a crash test of connectors has found, for people. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.connectors.events import ConnectorEvent
from tests.chaos.connectors.lines import PLAIN_SINKS, STREAMS

LAST_RUN: Final = "## The last run\n"


@dataclass(slots=True, kw_only=True)
class ConnectorReport:
    """What happened."""

    seed: int
    seconds: float = 0.0
    recoveries: dict[ConnectorEvent, list[float]] = field(default_factory=lambda: defaultdict(list))
    lines: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(len(times) for times in self.recoveries.values())

    def in_document(self, document: str) -> str:
        """docs/effectively-once.md, with this run as the last one."""
        return f"{document.partition(LAST_RUN)[0]}{LAST_RUN}\n{self.text()}"

    def text(self) -> str:
        """For people."""
        hours, minutes = max(self.seconds, 1.0) / 3600, self.seconds / 60
        lines = [
            f"seed {self.seed}: {self.events} events in {minutes:.1f} min, {self.events / hours:.0f} an hour  ",
            f"{self.lines} lines of each of {len(STREAMS)} streams went through two queries to {PLAIN_SINKS + 1} sinks",
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
        verdict = "WRONG" if self.findings else right
        return "\n".join([*lines, "", f"verdict: {verdict}", *self.findings]) + "\n"
