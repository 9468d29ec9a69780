"""Ctrl-C during a crash test: what was done up to there is reported."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from spark_integration.pipelines.service_process import ProcessError
from tests.chaos.connectors import run
from tests.chaos.connectors.events import ConnectorEvent

if TYPE_CHECKING:
    import pytest


class EndedStage:
    """A stage on which nothing runs, and whose second event is Ctrl-C; whoever waits then waits until told."""

    def __init__(self, *_: object, **__: object) -> None:
        self.lines = 7
        self._kills = 0
        self._noted = threading.Event()
        self.watch = SimpleNamespace(position=5, look_again=lambda: None, note=lambda _: self._noted.set())

    def produce(self) -> None:
        pass

    def findings(self) -> list[str]:
        return []

    def wait_lines_out(self, _count: int, *, seconds: float) -> None:
        if self._kills == 2 and self._noted.wait(seconds):
            raise ProcessError("something is wrong")

    def kill_service(self, _chance: Any) -> None:
        self._kills += 1
        if self._kills == 2:
            os.kill(os.getpid(), signal.SIGINT)


def test_what_was_done_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ConnectorStage", EndedStage)
    report = run.connector_crash_test(Path("nowhere"), seed=1, seconds=600, kinds=[ConnectorEvent.SERVICE])
    assert report.interrupted
    assert (len(report.rounds), report.events, report.lines, report.findings) == (1, 1, 5, [])
    assert "after which somebody has ended it" in report.text()
    assert "WRONG" not in report.text()
