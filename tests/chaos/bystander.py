"""A client beside Spark on the same volume, that writes down what it is told: the independent checker judges it.

What Spark's own answers were nobody can see from outside. This client goes through the same kills, takeovers and lost
caches, and the log that holds its changes is read with Spark's in between.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalError
from sos_client.client import open_client
from tests.chaos.recording import Recorder
from tests.histories.checker import Call, check
from tests.histories.log_bytes import read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.histories.log_bytes import LogRecord

LOOK_SECONDS: Final = 5.0
"""The service may have another address then."""
NAME: Final = "bystander"


class Bystander(threading.Thread):
    """From `start` to `end`."""

    def __init__(self, address: Callable[[], str], volume: str) -> None:
        super().__init__(daemon=True)
        self.calls: list[Call] = []
        self._address = address
        self._volume = volume
        self._ended = threading.Event()
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            trio.run(self._live)
        except Exception as error:
            self._failure = error

    async def _live(self) -> None:
        recorder = Recorder(NAME, random.Random(1), self.calls)
        while not self._ended.is_set():
            with trio.move_on_after(LOOK_SECONDS):
                try:
                    await recorder.run([self._address()], self._volume)
                except JournalError:
                    await trio.sleep(0.2)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def findings(self, servers: Sequence[str]) -> list[str]:
        """What does not fit the log that the servers have; of what others changed only that it is in order."""
        if self._failure is not None:
            return [f"{NAME}: ended by {self._failure!r}"]
        records = trio.run(_records, servers, self._volume)
        mine = {call.operation[0] for call in self.calls if call.operation is not None}
        strangers = {record.client.hex() for record in records} - mine
        return [f"{NAME}: {finding}" for finding in check(self.calls, records, strangers=strangers)[:5]]


async def _records(servers: Sequence[str], volume: str) -> list[LogRecord]:
    """All that there is: what was acknowledged last may be on some of the servers only."""
    objects: list[dict[str, bytes]] = []
    for server in servers:
        async with open_client(server) as client:
            listed = [info async for info in client.list_all(volume)]
            segments = [one.name for one in listed if ".seg" in one.name and one.size]
            objects.append({name: await client.get(volume, name) for name in segments})
    return read_log(objects)
