"""The listener against the brokers that its users might have taken instead, and against itself with more servers."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours, peers
from tests.benchmarks.comparison import Reading
from tests.benchmarks.load_generator import Load, run_and_rest
from tests.benchmarks.processes import MissingPeerError
from tests.benchmarks.server_suite import acknowledging, check_that_it_syncs
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Report
    from tests.benchmarks.processes import Running

MESSAGE_BYTES: Final = 100
CONNECTIONS: Final = 16
IN_FLIGHT: Final = 256
DURABLE: Final = f"durable messages of {MESSAGE_BYTES} B, {CONNECTIONS} connections, {IN_FLIGHT} in flight"


@contextlib.contextmanager
def listener(directory: Path, *, members: int) -> Iterator[Running]:
    """So many SOS servers, an ingest volume on them, and its listener; all on this machine."""
    directory.mkdir()
    with ours.sos_servers(directory, [free_port() for _ in range(members)]) as servers:
        ours.make_volume(servers)
        command = [sys.executable, "-m", "connectors", "listen", "--volume", ours.VOLUME, "--servers", servers]
        command += ["--dir", str(directory / "journal"), "--listen", "127.0.0.1:0", "--log-level", "error"]
        with ours.serving("listener", command, directory) as running:
            yield running


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


def _made(path: Path) -> Path:
    path.mkdir()
    return path
