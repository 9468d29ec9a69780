"""Looks at all sinks all the time, in a thread of its own, and tells whoever waits how far they are."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.connectors.judge import SinkFollower, Verdicts

LOOK_SECONDS: Final = 0.05


class Watch:
    """`start` it; then `position`, `findings`, `wait_for`."""

    def __init__(self, followers: Sequence[SinkFollower], verdicts: Verdicts) -> None:
        self.position = 0
        self._followers = followers
        self._verdicts = verdicts
        self._notes: list[str] = []
        self._looked = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def findings(self) -> list[str]:
        """What is wrong so far."""
        wrong = [finding for follower in self._followers for finding in follower.findings]
        return wrong + self._verdicts.findings + self._notes

    def note(self, finding: str) -> None:
        """Somebody else has found something."""
        self._notes.append(finding)

    def positions(self) -> list[int]:
        """Of each sink, as it was looked at last."""
        with self._looked:
            return [follower.look() for follower in self._followers]

    def look_again(self) -> None:
        """At everything that is committed, from its beginning."""
        with self._looked:
            for follower in self._followers:
                follower.look_again()

    def wait_for(self, count: int, seconds: float) -> bool:
        """Whether all sinks have come so far, or something is wrong, within this time."""
        with self._looked:
            return self._looked.wait_for(lambda: self.position >= count or bool(self.findings), seconds)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(LOOK_SECONDS):
                with self._looked:
                    self.position = min(follower.look() for follower in self._followers)
                    self._looked.notify_all()
        finally:
            if not self._stopped.is_set():  # threading has printed why
                self.note("whoever looks at the sinks has ended by itself")
