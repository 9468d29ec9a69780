"""The listener against the brokers that its users might have taken instead, and against itself with more servers."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours, peers
from tests.benchmarks.comparison import Reading
from tests.benchmarks.load_generator import Load, run_and_rest
from tests.benchmarks.many_streams import ManyStreams
from tests.benchmarks.memory_suite import FLAT, resident_mebibytes
from tests.benchmarks.processes import MissingPeerError
from tests.benchmarks.server_suite import acknowledging, check_that_it_syncs
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.benchmarks.comparison import Report
    from tests.benchmarks.processes import Running

MESSAGE_BYTES: Final = 100
CONNECTIONS: Final = 16
IN_FLIGHT: Final = 256
STREAMS_OF_A_CONNECTION: Final = 1000
RESTART_SECONDS_MAX: Final = 2.0
MEMORY_MINUTES: Final = 10.0
DURABLE: Final = f"durable messages of {MESSAGE_BYTES} B, {CONNECTIONS} connections, {IN_FLIGHT} in flight"


@contextlib.contextmanager
def listener(directory: Path, *, members: int) -> Iterator[Running]:
    """So many SOS servers, an ingest volume on them, and its listener; all on this machine."""
    directory.mkdir()
    with ours.sos_servers(directory, [free_port() for _ in range(members)]) as servers:
        ours.make_volume(servers)
        with listening(directory, servers) as running:
            yield running


def listening(directory: Path, servers: str) -> AbstractContextManager[Running]:
    """The listener of the volume."""
    command = [sys.executable, "-m", "connectors", "listen", "--volume", ours.VOLUME, "--servers", servers]
    command += ["--dir", str(directory / "journal"), "--listen", "127.0.0.1:0", "--log-level", "error"]
    return ours.serving("listener", command, directory)


def sending(protocol: str, server: Running, seconds: float, *, clients: int, depth: int) -> Callable[[], Reading]:
    load = Load(
        protocol=protocol,
        port=server.port,
        payload_bytes=MESSAGE_BYTES,
        clients=clients,
        depth=depth,
        seconds=seconds,
    )

    def measure() -> Reading:
        measured = run_and_rest(load)
        return Reading(value=measured.per_second, generator_share=measured.generator_share)

    return measure


def messages(report: Report, directory: Path, seconds: float) -> None:
    """Many in flight against Redis Streams and NATS JetStream; one against Redis; k = 2 of 3 against k = 1."""
    with listener(directory / "one", members=1) as ours_one, peers.redis(directory) as redis:
        check_that_it_syncs(report, redis, acknowledging("redis-xadd", redis))
        many = sending("connector", ours_one, seconds, clients=CONNECTIONS, depth=IN_FLIGHT)
        report.compare(
            DURABLE,
            many,
            sending("redis-xadd", redis, seconds, clients=CONNECTIONS, depth=IN_FLIGHT),
            peer_name="Redis Streams, appendfsync always",
            unit="1/s",
            goal=1.0,
        )
        report.compare(
            f"durable messages of {MESSAGE_BYTES} B, one at a time",
            sending("connector", ours_one, seconds, clients=1, depth=1),
            sending("redis-xadd", redis, seconds, clients=1, depth=1),
            peer_name="Redis Streams, appendfsync always",
            unit="1/s",
            goal=0.9,
        )
        try:
            with peers.nats(_made(directory / "nats"), stream="bench") as nats:
                check_that_it_syncs(report, nats, acknowledging("nats-publish", nats))
                report.compare(
                    DURABLE,
                    many,
                    sending("nats-publish", nats, seconds, clients=CONNECTIONS, depth=IN_FLIGHT),
                    peer_name="NATS JetStream, sync_interval always",
                    unit="1/s",
                    goal=10.0,
                )
        except MissingPeerError as missing:
            report.leave_out("NATS JetStream", str(missing))
        with listener(directory / "three", members=3) as ours_three:
            report.compare(
                f"{DURABLE}, k = 2 of 3",
                sending("connector", ours_three, seconds, clients=CONNECTIONS, depth=IN_FLIGHT),
                many,
                peer_name="itself with k = 1",
                unit="1/s",
                goal=0.7,
            )


def restart(report: Report, directory: Path, seconds: float) -> None:
    """A listener that was killed with many messages and streams, until it has acknowledged one more."""
    streams = 10_000 if seconds >= 1 else 1000
    messages_each = 100
    with ours.sos_servers(directory, [free_port()]) as servers:
        ours.make_volume(servers)
        with listening(directory, servers) as running:
            for first in range(0, streams, STREAMS_OF_A_CONNECTION):
                source = ManyStreams(running.port, range(first, first + STREAMS_OF_A_CONNECTION))
                source.send(0, messages_each, b"m" * MESSAGE_BYTES)
                source.close()
            running.process.kill()
            running.process.wait()
        took = []
        for number in range(report.rounds):
            start = time.perf_counter()
            with listening(directory, servers) as running:
                source = ManyStreams(running.port, [7])
                source.send(messages_each + number, 1, b"first")
                took.append(time.perf_counter() - start)
                source.close()
                running.process.kill()
                running.process.wait()
    report.state(
        f"restart of a listener with {streams * messages_each:,} messages and {streams:,} streams, to the first ACK",
        statistics.median(took),
        RESTART_SECONDS_MAX,
        peer_name="what was allowed",
        unit="s",
        goal=1.0,
    )


def memory(report: Report, directory: Path, seconds: float) -> None:
    """100 connections with 1,000 streams each, under load for ten minutes."""
    connections, minutes = (100, MEMORY_MINUTES) if seconds >= 1 else (20, 0.3)
    with listener(directory / "memory", members=1) as running:
        sources = [
            ManyStreams(running.port, range(n * STREAMS_OF_A_CONNECTION, (n + 1) * STREAMS_OF_A_CONNECTION))
            for n in range(connections)
        ]
        first = 0
        found = []
        for share in (0.2, 0.8):  # until its journal has what it keeps for later starts, and then
            end = time.monotonic() + share * 60 * minutes
            while time.monotonic() < end:
                for source in sources:
                    source.send(first, 1, b"m" * MESSAGE_BYTES)
                first += 1
            found.append(resident_mebibytes(running))
        before, after = found
        for source in sources:
            source.close()
    report.state(
        f"memory of a listener, {connections} connections with {STREAMS_OF_A_CONNECTION:,} streams, "
        f"after {minutes:g} min of load",
        after,
        before,
        peer_name="itself after a fifth of the time",
        unit="MiB",
        goal=FLAT,
    )


def _made(path: Path) -> Path:
    path.mkdir()
    return path
