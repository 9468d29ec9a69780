"""The journal service against Redis and a cluster of etcd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import ours, peers
from tests.benchmarks.server_suite import loading

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.comparison import Report

CLIENTS = 64


def puts(report: Report, directory: Path, seconds: float) -> None:
    """Durable `put` of 4 KiB by 64 clients, each with a connection or all with one: one member, then three."""
    for part in ("one", "three"):
        (directory / part).mkdir()
    with ours.new_volume(directory / "one", members=1) as service, peers.redis(directory / "one") as redis:
        theirs = loading("redis-xadd", redis, clients=CLIENTS, depth=1, seconds=seconds)
        report.compare(
            "journal put 4 KiB, k = 1, 64 clients",
            loading("file-put", service, clients=CLIENTS, depth=1, seconds=seconds),
            theirs,
            peer_name="Redis, appendfsync always",
            unit="1/s",
            goal=0.7,
        )
        report.compare(
            "journal put 4 KiB, k = 1, 64 tasks on one connection",
            loading("file-put-shared", service, clients=1, depth=CLIENTS, seconds=seconds),
            theirs,
            peer_name="Redis, appendfsync always, 64 clients",
            unit="1/s",
            goal=1.0,
        )
    three = directory / "three"
    with ours.new_volume(three, members=3) as service, peers.etcd(three, members=3) as etcd:
        theirs = loading("etcd-put", etcd[0], clients=CLIENTS, depth=1, seconds=seconds)
        for what, protocol, clients in (
            ("64 clients", "file-put", CLIENTS),
            ("64 tasks on one connection", "file-put-shared", 1),
        ):
            report.compare(
                f"journal put 4 KiB, 3 servers, k = 2, {what}",
                loading(protocol, service, clients=clients, depth=CLIENTS // clients, seconds=seconds),
                theirs,
                peer_name="etcd, 3 members",
                unit="1/s",
                goal=3.0,
            )
