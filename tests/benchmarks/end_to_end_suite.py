"""Producer, listener, Spark, relay, sink: rows a second against Spark's own source and sink; how long a row takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from connectors import open_source, serve_sink
from tests.benchmarks import ours
from tests.benchmarks.asked_spark import asked_spark
from tests.benchmarks.end_to_end_query import ROW_BYTES
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from connectors import SinkRow, SinkTransaction
    from tests.benchmarks.comparison import Report

ROWS_A_SECOND: Final = 400_000
"""So many are sent for each second that a measurement should take: as many as one batch of the peer has, so that the
start of `send`, which is part of ours, weighs no more than a tenth."""
MADE_ROWS_A_SECOND: Final = 400_000
"""In a batch of Spark's own source, for each such second: so large that what each batch costs weighs little."""
BATCHES: Final = 4
LATENCY_RATE: Final = 1000
LATENCY_SECONDS_MIN: Final = 5.0
WARM_UP_SECONDS: Final = 10.0
COMMITTED_SECONDS_MAX: Final = 300.0


def end_to_end(report: Report, directory: Path, seconds: float) -> None:
    """Rows a second from `sos-connector send` to committed; and P50 and P99 of a message at 1,000 a second."""
    rows = int(ROWS_A_SECOND * seconds)
    with ExitStack() as stack:
        way = Way(directory, stack)
        made = {"rows": int(MADE_ROWS_A_SECOND * seconds), "batches": BATCHES, "warm_up": 2}
        way.asked(made)
        with way.to_file() as committed:
            for _ in range(2):  # before it counts: the JVM compiles what it runs often
                way.rows_per_second(rows, committed)
            report.compare(
                f"end to end, producer to committed, rows of {ROW_BYTES} B",
                lambda: way.rows_per_second(rows, committed),
                lambda: float(way.asked(made)),
                peer_name="Spark's rate-micro-batch into files",
                unit="rows/s",
                goal=0.5,
            )
        latencies, took = way.latencies(max(LATENCY_SECONDS_MIN, 10 * seconds))
    batch = took["triggerExecution"]
    for name, share in (("P50", 0.5), ("P99", 0.99)):
        report.state(
            f"{name} from send to committed, {LATENCY_RATE:,} messages a second",
            1000 * latencies[int(share * (len(latencies) - 1))],
            batch,
            peer_name=f"a batch (addBatch {took['addBatch']:.0f} ms of it)",
            unit="ms",
            goal=None,
        )


class Way:
    """Everything on this machine, with one SOS server; sinks come and go."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._sinks = 0
        self._lines = 0
        servers = stack.enter_context(ours.sos_servers(directory, [free_port()]))
        ours.make_volume(servers)
        service = stack.enter_context(ours.service(directory, servers, local=directory / "journal"))
        self._service = f"127.0.0.1:{service.port}"
        connectors = [sys.executable, "-m", "connectors"]
        self._files = f"127.0.0.1:{free_port()}"
        listen = [*connectors, "listen", "--volume", "ingest", "--create", "--servers", servers]
        listen += ["--dir", str(directory / "ingest"), "--files", self._files, "--listen", "127.0.0.1:0"]
        self._listener = stack.enter_context(ours.serving("listener", listen, directory))
        relay = [*connectors, "relay", "--service", self._service, "--spool", str(directory / "spool")]
        self._relay = stack.enter_context(ours.serving("relay", [*relay, "--listen", "127.0.0.1:0"], directory))
        self._spark = stack.enter_context(asked_spark("end_to_end_query", directory, self._service, str(directory)))

    def asked(self, what: dict[str, Any]) -> Any:
        """Spark's answer."""
        return self._spark(what)

    @contextmanager
    def to_file(self) -> Iterator[Callable[[], int]]:
        """A query into a file; how many rows are committed there."""
        out, log = self._directory / "sink.out", self._directory / "sink.jsonl"
        command = [sys.executable, "-m", "connectors", "receive", "--out", str(out), "--log", str(log)]
        with ours.serving("sink", [*command, "--listen", "127.0.0.1:0"], self._directory) as sink:
            self._start(sink.port)
            yield lambda: _committed_rows(log)
            self.asked({"stop": True})

    def _start(self, port: int) -> None:
        self._sinks += 1
        checkpoint = f"sos://{ours.VOLUME}/end-to-end{self._sinks}"
        relay = f"127.0.0.1:{self._relay.port}"
        told = {"files": self._files, "relay": relay, "connect": f"127.0.0.1:{port}", "checkpoint": checkpoint}
        self.asked({"start": told})

    def rows_per_second(self, rows: int, committed: Callable[[], int]) -> float:
        """From the start of `sos-connector send` until the last row is committed."""
        lines = self._directory / f"lines{self._lines}"
        lines.write_text("".join(f"{number:0{ROW_BYTES}d}\n" for number in range(rows)))
        before, began = committed(), time.perf_counter()
        command = [sys.executable, "-m", "connectors", "send", str(lines), "--to", f"127.0.0.1:{self._listener.port}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while committed() < before + rows:
            if time.perf_counter() - began > COMMITTED_SECONDS_MAX:
                raise RuntimeError(f"only {committed() - before} of {rows} rows are committed")
            time.sleep(0.02)
        self._lines += 1
        return rows / (time.perf_counter() - began)

    def latencies(self, seconds: float) -> tuple[list[float], dict[str, float]]:
        """Of each message that was sent after the warm-up, ascending; and what Spark's batches took."""
        port = free_port()
        found = trio.run(self._latencies, port, seconds)
        return sorted(found), self.asked({"stop": True})

    async def _latencies(self, port: int, seconds: float) -> list[float]:
        sink = TimedSink()
        async with trio.open_nursery() as nursery:
            log = self._directory / "timed.jsonl"
            nursery.start_soon(lambda: sink.serve(f"127.0.0.1:{port}", log))
            await trio.sleep(0.5)
            await trio.to_thread.run_sync(self._start, port)
            count = int((WARM_UP_SECONDS + seconds) * LATENCY_RATE)
            await _send_steadily(f"127.0.0.1:{self._listener.port}", count)
            with trio.fail_after(COMMITTED_SECONDS_MAX):
                while sink.last < count - 1:  # noqa: ASYNC110 - it is a figure that somebody else counts up
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        return sink.latencies[-int(seconds * LATENCY_RATE) :]


class TimedSink:
    """Rows begin with when they were sent; what counts is when they are committed."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.last = -1
        self._rows: list[SinkRow] = []

    async def serve(self, listen: str, log: Path) -> None:
        def heard(_: object) -> None:
            """Nobody waits for `ready` here."""

        await serve_sink(self._receive, self._prepare, self._commit, self._abort, listen=listen, log=log, ready=heard)

    def _receive(self, rows: Sequence[SinkRow]) -> None:
        self._rows += rows

    def _prepare(self, _: SinkTransaction) -> bool:
        return True

    def _commit(self, _: SinkTransaction) -> None:
        now = time.time()
        timed = [row.payload for row in self._rows if row.payload[13:14] == b"."]
        self.latencies += [now - float(payload[:20]) for payload in timed]
        if timed:
            self.last = int(timed[-1][20:30])
        self._rows.clear()

    def _abort(self, _: SinkTransaction) -> None:
        self._rows.clear()


async def _send_steadily(listener: str, count: int) -> None:
    """So many a second, each with its time, in a stream of its own."""
    async with open_source(listener, program="bench") as source:
        stream = await source.open_stream(1, "timed")
        began = trio.current_time()
        for number in range(count):
            await trio.sleep_until(began + number / LATENCY_RATE)
            await stream.send(number, f"{time.time():020.6f}{number:010d}".encode().ljust(ROW_BYTES, b"-"))
        await stream.flush()


def _committed_rows(log: Path) -> int:
    rows, prepared = 0, {}
    for text in log.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break  # it is being written
        if line["kind"] == "prepared":
            prepared[line["transaction"]] = line["rows"]
        elif line["kind"] == "committed":
            rows += prepared[line["transaction"]]
    return rows
