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
    """Durable `put` of 4 KiB by 64 clients: one member against Redis, three against etcd's three."""
    for part in ("one", "three"):
        (directory / part).mkdir()
    with ours.new_volume(directory / "one", members=1) as service, peers.redis(directory / "one") as redis:
        report.compare(
            "journal put 4 KiB, k = 1, 64 clients",
            loading("file-put", service, clients=CLIENTS, depth=1, seconds=seconds),
            loading("redis-xadd", redis, clients=CLIENTS, depth=1, seconds=seconds),
            peer_name="Redis, appendfsync always",
            unit="1/s",
            goal=0.7,
        )
    three = directory / "three"
    with ours.new_volume(three, members=3) as service, peers.etcd(three, members=3) as etcd:
        report.compare(
            "journal put 4 KiB, 3 servers, k = 2, 64 clients",
            loading("file-put", service, clients=CLIENTS, depth=1, seconds=seconds),
            loading("etcd-put", etcd[0], clients=CLIENTS, depth=1, seconds=seconds),
            peer_name="etcd, 3 members",
            unit="1/s",
            goal=3.0,
        )
