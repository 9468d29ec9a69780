"""The SOS server against the servers that its users might have taken instead."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.benchmarks import ours, peers
from tests.benchmarks.comparison import Reading
from tests.benchmarks.load_generator import REST_SECONDS, Load, rest_after, run, run_and_rest
from tests.benchmarks.processes import MissingPeerError, Running, program, syncs_of, syncs_seen, when_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.benchmarks.comparison import Report

PIECE_BYTES = 4096
STREAM_PIECE_BYTES = 1 << 20
STREAM_PIECES = 64
STREAMS_BEFORE = 8
ACKNOWLEDGED = 40
READ_BYTES = 1 << 20
READ_FILE_PIECES = 64

SHAPES = {"1 client": (1, 1), "64 clients": (64, 1), "1 connection, 64 in flight": (1, 64)}


def loading(protocol: str, server: Running, *, clients: int, depth: int, seconds: float) -> Callable[[], Reading]:
    return reading(Load(protocol=protocol, port=server.port, clients=clients, depth=depth, seconds=seconds))


def reading(load: Load, *, scale: float = 1.0) -> Callable[[], Reading]:
    """Operations per second, times `scale`, and what the generator took."""

    def measure() -> Reading:
        measured = run_and_rest(load)
        return Reading(value=measured.per_second * scale, generator_share=measured.generator_share)

    return measure


def check_that_it_syncs(report: Report, server: Running, acknowledge: Callable[[], object]) -> None:
    """A server that is called durable must be seen to sync while it acknowledges one by one."""
    try:
        with syncs_seen(server) as count_syncs:
            acknowledge()
    except MissingPeerError as missing:
        report.syncs[server.name] = f"not seen: {missing}"
        return
    count = count_syncs()
    if count < ACKNOWLEDGED // 2:  # strace comes to a server's threads one by one, and may miss the first syncs
        raise RuntimeError(f"{server.name} acknowledged {ACKNOWLEDGED} times, but strace saw it sync {count} times")
    report.syncs[server.name] = f"{count} syncs for {ACKNOWLEDGED} acknowledged one by one"


def acknowledging(protocol: str, server: Running) -> Callable[[], object]:
    load = Load(protocol=protocol, port=server.port, seconds=30.0, operations=ACKNOWLEDGED, warm_up_seconds=0.0)
    return lambda: run(load)


def appends(report: Report, directory: Path, seconds: float) -> None:
    """Durable 4 KiB appends in three shapes, against Redis."""
    with ours.sos_server(directory) as server, peers.redis(directory) as redis:
        check_that_it_syncs(report, server, acknowledging("sos-append", server))
        check_that_it_syncs(report, redis, acknowledging("redis-xadd", redis))
        for (shape, (clients, depth)), goal in zip(SHAPES.items(), (1.2, 1.5, 8.0), strict=True):
            report.compare(
                f"durable 4 KiB appends, {shape}",
                loading("sos-append", server, clients=clients, depth=depth, seconds=seconds),
                loading("redis-xadd", redis, clients=clients, depth=depth, seconds=seconds),
                peer_name="Redis, appendfsync always",
                unit="1/s",
                goal=goal,
            )


def appends_against_the_others(report: Report, directory: Path, seconds: float) -> None:
    """64 clients against etcd, NATS JetStream and PostgreSQL, one after the other."""
    with ours.sos_server(directory, name="sos-others") as server:
        mine = loading("sos-append", server, clients=64, depth=1, seconds=seconds)

        def against(name: str, goal: float, peer: AbstractContextManager[Callable[[], float | Reading]]) -> None:
            try:
                with peer as theirs:
                    report.compare(
                        "durable 4 KiB appends, 64 clients", mine, theirs, peer_name=name, unit="1/s", goal=goal
                    )
            except MissingPeerError as missing:
                report.leave_out(name, str(missing))

        against("etcd", 4.0, _etcd(report, directory, seconds))
        against("NATS JetStream, sync_interval always", 8.0, _nats(report, directory, seconds))
        against("PostgreSQL", 4.0, _postgres(report, directory, seconds))


@contextlib.contextmanager
def _etcd(report: Report, directory: Path, seconds: float) -> Iterator[Callable[[], float | Reading]]:
    with peers.etcd(_made(directory / "etcd")) as members:
        check_that_it_syncs(report, members[0], acknowledging("etcd-put", members[0]))
        yield loading("etcd-put", members[0], clients=64, depth=1, seconds=seconds)


@contextlib.contextmanager
def _nats(report: Report, directory: Path, seconds: float) -> Iterator[Callable[[], float | Reading]]:
    with peers.nats(_made(directory / "nats"), stream="bench") as server:
        check_that_it_syncs(report, server, acknowledging("nats-publish", server))
        yield loading("nats-publish", server, clients=64, depth=1, seconds=seconds)


@contextlib.contextmanager
def _postgres(report: Report, directory: Path, seconds: float) -> Iterator[Callable[[], float | Reading]]:
    with peers.postgres(_made(directory / "postgres")) as server:
        pgbench = program("pgbench", "postgresql", str(peers.postgres_programs()))
        script = directory / "postgres" / "append.sql"
        script.write_text(f"INSERT INTO log VALUES (repeat('x', {PIECE_BYTES})::bytea);\n", encoding="utf-8")
        connection = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "postgres"]
        psql = [str(peers.postgres_programs() / "psql"), *connection]
        table = "CREATE TABLE log (content bytea); ALTER TABLE log ALTER content SET STORAGE EXTERNAL"
        when_ready(lambda: subprocess.run([*psql, "-q", "-c", table], check=True, capture_output=True))
        command = [pgbench, "-n", "-M", "prepared", "-f", str(script)]
        once = [*command, "-c", "1", "-t", str(ACKNOWLEDGED), *connection]
        check_that_it_syncs(report, server, lambda: subprocess.run(once, check=True, capture_output=True))
        command += ["-c", "64", "-j", "2", "-T", str(max(1, round(seconds)))]

        def measure() -> float:
            done = subprocess.run([*command, *connection], check=True, capture_output=True, text=True)
            rest_after(seconds)
            found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
            if found is None:
                raise RuntimeError(f"pgbench finished no transaction: {done.stdout}{done.stderr}")
            return float(found[1])

        yield measure


def streaming(report: Report, directory: Path, seconds: float) -> None:
    """64 MiB through one connection in pieces of 1 MiB, 8 in flight, against `dd` into a fresh file.

    Into a server that has made its log's files already: those before that, in the first half gigabyte of its life, are
    slower, as it fills files with zeros beside them.
    """
    with ours.sos_server(directory, name="sos-streaming") as server:
        load = Load(
            protocol="sos-append",
            port=server.port,
            payload_bytes=STREAM_PIECE_BYTES,
            depth=8,
            operations=STREAM_PIECES,
            seconds=20 * seconds,
            warm_up_seconds=0.0,
        )
        target = directory / "dd.out"
        command = ["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={STREAM_PIECES}", "conv=fdatasync"]
        report.syncs["dd"] = f"{syncs_of(command, directory)} sync for {STREAM_PIECES} MiB"

        for _ in range(STREAMS_BEFORE):
            run(load)
        time.sleep(REST_SECONDS)

        def copy() -> float:
            target.unlink(missing_ok=True)
            done = subprocess.run(command, check=True, capture_output=True, text=True, env={"LC_ALL": "C"})
            found = re.search(r"copied, ([0-9.e-]+) s", done.stderr)
            assert found, done.stderr
            return STREAM_PIECES * STREAM_PIECE_BYTES / float(found[1]) / 1e6

        report.compare(
            "durable streaming append, 64 MiB",
            reading(load, scale=STREAM_PIECE_BYTES / 1e6),
            copy,
            peer_name="dd conv=fdatasync",
            unit="MB/s",
            goal=1.5,
        )


def reads(report: Report, directory: Path, seconds: float) -> None:
    """Ranged reads of 1 MiB from one object or file that is in the page cache."""
    served = _made(directory / "www")
    content = served / "object"
    with content.open("wb") as file:
        file.write(bytes(range(256)) * (READ_BYTES * READ_FILE_PIECES // 256))
    with (
        ours.sos_server(directory, name="sos-reads") as server,
        peers.nginx(_made(directory / "nginx"), served=served) as nginx,
    ):
        ours.put_object(server, "bench/object", content)
        mine = Load(
            protocol="sos-get",
            port=server.port,
            target="bench/object",
            payload_bytes=READ_BYTES,
            objects=READ_FILE_PIECES,
            seconds=seconds,
        )
        theirs = replace(mine, protocol="http-range", port=nginx.port, target="object")
        report.compare(
            "ranged read, 1 MiB",
            reading(mine, scale=READ_BYTES / 1e6),
            reading(theirs, scale=READ_BYTES / 1e6),
            peer_name="nginx",
            unit="MB/s",
            goal=1.0,
        )


def _made(path: Path) -> Path:
    path.mkdir()
    return path
