"""Each fault, made for real, fires its alert in Debian's Prometheus and clears; the dashboard is answered by it."""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalError
from journal.gateway.client.client import open_volume
from sos_client.client import open_client
from sos_client.wire.errors import SosError
from tests.deploy.prometheus_server import ROOT, RULES, prometheus
from tests.system.ports import free_port
from tests.system.server_process import ServerProcess
from tests.system.service_process import VOLUME, Cluster, ServiceProcess, children_of
from tests.system.test_web import run_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.deploy.prometheus_server import PrometheusServer

needs_prometheus = pytest.mark.skipif(not shutil.which("prometheus"), reason="Debian's package prometheus is missing")
FULL_BYTES = 1 << 30
ROOMY_BYTES = 8 << 30


@needs_prometheus
@pytest.mark.parametrize("words", [("check", "rules", "sos.rules.yml"), ("test", "rules", "sos.tests.yaml")])
def test_the_rules_as_they_are_shipped(words: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *words], cwd=RULES.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class Watched:
    """Three servers, a supervised service with a query, and who watches them."""

    def __init__(self, directory: Path) -> None:
        self.metrics = [free_port() for _ in range(4)]
        self.cluster = Cluster(directory, servers=3)
        for server, port in zip(self.cluster.servers, self.metrics, strict=False):
            server._flags = ("--metrics", f"127.0.0.1:{port}")
        flags = ["--metrics", f"127.0.0.1:{self.metrics[3]}", "--supervise", "--create"]
        self.cluster.service.flags += flags
        self.batches = 0
        self.is_running = True

    @property
    def jobs(self) -> dict[str, list[str]]:
        addresses = [f"127.0.0.1:{port}" for port in self.metrics]
        return {"sos-server": addresses[:3], "sos-journal": addresses[3:]}

    async def run_query(self) -> None:
        """A batch now and then, as long as it is wanted."""
        while True:
            if self.is_running:
                with suppress(JournalError), trio.move_on_after(5):
                    await run_batches(self.cluster, 2, first=self.batches)
                    self.batches += 2
            await trio.sleep(0.5)


@contextmanager
def watched(directory: Path) -> Iterator[Watched]:
    one = Watched(directory)
    everything: list[ServerProcess | ServiceProcess] = [*one.cluster.servers, one.cluster.service]
    try:
        for process in everything:
            process.start()
        yield one
    finally:
        for process in reversed(everything):
            with suppress(AssertionError):
                process.kill()


@needs_prometheus
@pytest.mark.slow
async def test_each_fault_fires_its_alert_and_clears(tmp_path: Path) -> None:
    with watched(tmp_path) as one, prometheus(tmp_path / "prometheus", one.jobs) as watcher:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run_query)
            run = trio.to_thread.run_sync
            await run(watcher.wait, lambda firing: not firing)
            await run(a_member_hangs_another_dies, one, watcher)
            await run(the_query_stops, one, watcher)
            await run(the_service_falls_again_and_again, one, watcher)
            await run(a_disk_fails, one, watcher)
            await damage_is_read(one, watcher)
            await run(watcher.wait, lambda firing: not firing)
            await run(the_dashboard_is_answered, watcher)
            nursery.cancel_scope.cancel()


def a_member_hangs_another_dies(one: Watched, watcher: PrometheusServer) -> None:
    hung, dead = one.cluster.servers[:2]
    hung.signal(signal.SIGSTOP)
    trio.run(write_much, one.cluster)
    watcher.fires("SosMemberLagging")
    dead.kill()
    watcher.fires("SosMemberDown", "SosServerDown", "SosNoQuorum")
    hung.signal(signal.SIGCONT)
    dead.start()
    watcher.clears("SosMemberLagging", "SosMemberDown", "SosServerDown", "SosNoQuorum")


async def write_much(cluster: Cluster) -> None:
    async with open_volume(cluster.service_addresses, VOLUME) as volume:
        for number in range(8):
            name = f"much/{time.time_ns()}-{number}"
            await volume.put(name, b"x" * (1 << 19), overwrite=True, operation=volume.new_operation())


def the_query_stops(one: Watched, watcher: PrometheusServer) -> None:
    one.is_running = False
    watcher.fires("SosQueryStuck")
    one.is_running = True
    watcher.clears("SosQueryStuck")


def the_service_falls_again_and_again(one: Watched, watcher: PrometheusServer) -> None:
    for _ in range(4):
        for child in children_of(one.cluster.service.pid):
            subprocess.run(["kill", "-KILL", str(child)], check=False)
        time.sleep(2.5)
    watcher.fires("SosRestarting")
    watcher.clears("SosRestarting")


def a_disk_fails(one: Watched, watcher: PrometheusServer) -> None:
    """Every write beyond so much of a file fails, as the kernel does it for a process with such a limit."""
    failing = one.cluster.servers[2]
    resource.prlimit(failing.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    watcher.fires("SosDiskFailing", "SosAppendsRefused")
    failing.kill()
    failing.start()
    watcher.clears("SosDiskFailing", "SosAppendsRefused")


async def damage_is_read(one: Watched, watcher: PrometheusServer) -> None:
    server = one.cluster.servers[2]
    async with open_client(server.address) as client:
        await client.use("spare", create=True)
        async with client.append("spare", "object", size=0) as stream:
            await stream.send(b"good" * 100_000)
        await client.seal("spare", "object", size=400_000)
    await trio.to_thread.run_sync(server.terminate)  # everything is in the objects' files then
    damaged = 0
    for path in server.root.rglob("*"):
        if path.is_file() and (at := (content := path.read_bytes()).find(b"good" * 1000)) >= 0:
            path.write_bytes(content[:at] + b"bad!" + content[at + 4 :])
            damaged += 1
    assert damaged
    await trio.to_thread.run_sync(server.start)
    await trio.sleep(2.5)  # a scrape before it is read
    async with open_client(server.address) as client:
        with pytest.raises(SosError):
            await client.get("spare", "object")
    await trio.to_thread.run_sync(watcher.fires, "SosDamagedRead")
    await trio.to_thread.run_sync(watcher.clears, "SosDamagedRead")


def the_dashboard_is_answered(watcher: PrometheusServer) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "sos.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 20
    for query in queries:
        found = watcher.ask("query", query=query)["result"]
        if not re.search(
            r"sos_connector_|sos_relay_|refus", query
        ):  # there is no listener here, and nobody was refused
            assert found, query
    known = set(watcher.ask("label/__name__/values"))
    named = {name for query in queries for name in re.findall(r"\bsos_\w+", query)}
    assert {name for name in named if not name.startswith(("sos_connector_", "sos_relay_"))} <= known | {
        "sos_refused_total", "sos_journal_refusals_total"
    }  # fmt: skip


@needs_prometheus
@pytest.mark.slow
def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    place, port = tmp_path / "disk", free_port()
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs is not allowed here")
    server = ServerProcess(place, "--metrics", f"127.0.0.1:{port}")
    try:
        server.start()
        with prometheus(tmp_path / "prometheus", {"sos-server": [f"127.0.0.1:{port}"]}) as watcher:
            watcher.fires("SosDiskNearlyFull")
            subprocess.run(["mount", "-o", f"remount,size={ROOMY_BYTES}", str(place)], check=True)
            trio.run(append_a_little, server.address)
            watcher.clears("SosDiskNearlyFull")
    finally:
        server.kill()
        subprocess.run(["umount", str(place)], check=True)


async def append_a_little(address: str) -> None:
    """The disk is looked at when something is written."""
    async with open_client(address) as client:
        await client.use("spare", create=True)
        async with client.append("spare", "object", size=0) as stream:
            await stream.send(b"x")
