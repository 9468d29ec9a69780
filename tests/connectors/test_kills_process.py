"""Everything between producers and servers is killed under load, hundreds of times: all is there once, and in order.

`SOS_SOAK_KILLS=300 pytest -m soak tests/connectors/test_kills_process.py` is what is promised; CI has a handful.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.connectors.test_listen_process import Process, play, running, stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KILLS: Final = int(os.environ.get("SOS_SOAK_KILLS", "300"))
KILLS_OF_A_ROUND: Final = 10
SECONDS_FOR_A_KILL: Final = 60.0
"""On a busy machine; on a quiet one two or three."""
LINES_AT_ONCE: Final = 5
PAUSE_SECONDS: Final = 0.05


class Machine(Process):
    """A listener whose directory is lost with it: it comes back with nothing but the servers."""

    def __init__(self, listener: Process, directory: Path) -> None:
        self._listener = listener
        self._directory = directory

    def end(self, *_: object) -> None:
        self._listener.end()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        self._listener.start()


class Producer(Process):
    """`sos-connector send` of a file that grows until `finish`."""

    def __init__(self, number: int, directory: Path, listener: Process) -> None:
        self._prefix = b"producer-%d " % number
        self._file = directory / f"lines-{number}"
        self._file.touch()
        self._log = directory / f"producer-{number}.log"
        self._listener = listener
        self._address = listener.addresses["ready"]
        self._sending: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write)
        self._writer.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "connectors", "send", str(self._file), "--follow", "--to", self._address]
            self._sending = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, *_: object) -> None:
        if self._sending is not None:
            self._sending.kill()
            self._sending.wait()
            self._sending = None

    def stop(self) -> None:
        """Kill it; nothing is written any more."""
        self._over.set()
        self._writer.join()
        self.end()

    def finish(self) -> None:
        """What was not sent yet is; then all of it is there, once, in order."""
        self.stop()
        command = [sys.executable, "-m", "connectors", "send", str(self._file), "--to", self._address]
        subprocess.run(command, check=True, capture_output=True, timeout=600)

    def check(self, rows: list[tuple[int, int, int, bytes]]) -> int:
        """Its lines in what is stored."""
        lines = [payload for _, _, _, payload in rows if payload.startswith(self._prefix)]
        written = self._file.read_bytes().splitlines()
        assert lines == written
        return len(lines)

    def _write(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_SECONDS):
            with self._file.open("ab") as file:
                file.write(b"".join(self._prefix + b"%d\n" % n for n in range(number, number + LINES_AT_ONCE)))
            number += LINES_AT_ONCE


def end(*producers: Producer) -> None:
    for producer in producers:
        producer.end()


@contextmanager
def producing(number: int, directory: Path, listener: Process) -> Iterator[Producer]:
    producer = Producer(number, directory, listener)
    producer.start()
    try:
        yield producer
    finally:
        producer.stop()


def kill_all_parts(tmp_path: Path, *, kills: int, kills_of_a_round: int, seed: int) -> int:
    """How many lines went through it. Listener, its machine, any server (k - 1 = 1) and producers, one at a time.

    Beside the producers a peer that is never killed, written from the protocol's document, remembers what it was
    acknowledged: each round it looks whether all of it is there.
    """
    order = random.Random(seed)
    with running(tmp_path) as (servers, listener):
        machine = Machine(listener, tmp_path / "cache")
        with producing(1, tmp_path, listener) as one, producing(2, tmp_path, listener) as two:
            for number in range(-(-kills // kills_of_a_round)):
                parts = [listener, machine, *servers, one, two]
                order.shuffle(parts)
                play(parts, listener, kills=kills_of_a_round, seed=1000 * seed + number, quiet=lambda: end(one, two))
                one.start()
                two.start()
            one.finish()
            two.finish()
            rows = stored(listener)
            assert [row[0] for row in rows] == list(range(len(rows)))
            return one.check(rows) + two.check(rows)


@pytest.mark.soak
@pytest.mark.timeout(600 + SECONDS_FOR_A_KILL * KILLS)
def test_hundreds_of_kills(tmp_path: Path) -> None:
    assert kill_all_parts(tmp_path, kills=KILLS, kills_of_a_round=KILLS_OF_A_ROUND, seed=random.randrange(1 << 20)) > 0
