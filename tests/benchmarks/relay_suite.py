"""The relay and a sink against `dd` through TCP: staged rows of one batch, from the relay's disk to the sink's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

import trio

from connectors.relay.staged_rows import StagedRow
from journal.errors import UnavailableError
from tests.benchmarks import ours
from tests.connectors.relay.staging_driver import staging_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.comparison import Report

BATCH_BYTES_A_SECOND: Final = 64 * 1024 * 1024
"""About so much is sent for each second that a measurement should take."""
PART_BYTES: Final = 8 * 1024 * 1024
ROW_BYTES: Final = {100: None, 1024: 0.5, 64 * 1024: 0.5}
"""By the size of rows: the goal. By the protocol each row is a message of its own, with 31 bytes before it."""
PEER: Final = "dd through TCP, the same fsyncs"


def bytes_to_a_sink(report: Report, directory: Path, seconds: float) -> None:
    """A row for each size: bytes of values from the manifest to its answer."""
    connectors = [sys.executable, "-m", "connectors"]
    with ours.new_volume(directory, members=1) as service:
        command = [*connectors, "relay", "--listen", "127.0.0.1:0", "--service", f"127.0.0.1:{service.port}"]
        with ours.serving("relay", [*command, "--spool", str(directory / "spool")], directory) as relay:
            for row_bytes, goal in ROW_BYTES.items():
                name = f"sink{row_bytes}"
                files = ["--out", str(directory / f"{name}.out"), "--log", str(directory / f"{name}.jsonl")]
                with ours.serving(name, [*connectors, "receive", "--listen", "127.0.0.1:0", *files], directory) as sink:
                    batches = StagedBatches(relay.port, sink.port, row_bytes, int(seconds * BATCH_BYTES_A_SECOND))
                    batches.commit()  # before it counts: connections and decisions are opened
                    report.compare(
                        f"relay to one sink, rows of {row_bytes:,} B",
                        batches.commit,
                        DdThroughTcp(directory, batches.batch_bytes).send,
                        peer_name=PEER,
                        unit="MB/s",
                        goal=goal,
                    )


class StagedBatches:
    """Batches of one query, staged before the time is taken."""

    def __init__(self, relay: int, sink: int, row_bytes: int, batch_bytes: int) -> None:
        self._relay = f"127.0.0.1:{relay}"
        self._sink = f"127.0.0.1:{sink}"
        self._row_bytes = row_bytes
        self._rows = max(1, PART_BYTES // row_bytes)
        self._parts = max(1, batch_bytes // (self._rows * row_bytes))
        self._batch = 0
        self.batch_bytes = self._parts * self._rows * row_bytes

    def commit(self) -> float:
        """One more batch; MB a second."""
        return trio.run(self._commit)

    async def _commit(self) -> float:
        rows = [StagedRow(0, None, b"%0*d" % (self._row_bytes, number)) for number in range(self._rows)]
        query, checkpoint = f"bench-{self._row_bytes}", f"sos://{ours.VOLUME}/q{self._row_bytes}"
        async with staging_driver(self._relay, [self._sink], seconds=600, query=query, checkpoint=checkpoint) as driver:
            parts = [await driver.stage(self._batch, "run", str(part), rows) for part in range(self._parts)]
            began = time.perf_counter()
            while True:
                try:
                    await driver.commit(self._batch, "run", parts)
                except UnavailableError:  # after ten seconds: it goes on
                    continue
                break
            seconds = time.perf_counter() - began
        self._batch += 1
        return self.batch_bytes / seconds / 1e6


class DdThroughTcp:
    """A file through a socket of loopback into another one, with `dd` at both ends, and a log as a sink has it."""

    def __init__(self, directory: Path, size: int) -> None:
        self._source = directory / "dd.in"
        self._target = directory / "dd.out"
        self._log = directory / "dd.log"
        self._size = size
        with self._source.open("wb") as file:
            for _ in range(0, size, PART_BYTES):
                file.write(b"0" * min(PART_BYTES, size))

    def send(self) -> float:
        """MB a second."""
        self._target.unlink(missing_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as server:
            began = time.perf_counter()
            receiver = threading.Thread(target=self._receive, args=(server,))
            receiver.start()
            with socket.create_connection(server.getsockname()) as out:
                subprocess.run(
                    ["dd", f"if={self._source}", "bs=256k"], stdout=out.fileno(), stderr=subprocess.DEVNULL, check=True
                )
            receiver.join()
        return self._source.stat().st_size / (time.perf_counter() - began) / 1e6

    def _receive(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            target = ["dd", f"of={self._target}", "bs=256k", "conv=fdatasync"]
            subprocess.run(target, stdin=connection.fileno(), stderr=subprocess.DEVNULL, check=True)
        with self._log.open("ab", buffering=0) as log:
            for line in (b"prepared\n", b"decided\n", b"committed\n"):
                log.write(line)
                os.fdatasync(log.fileno())
