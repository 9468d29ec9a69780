"""A reader that lags, a transaction that does not end, a token that may not delete: made for real, for Prometheus."""

from __future__ import annotations

import json
import re
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trio

from connectors.relay.staged_rows import StagedRow
from journal.gateway.client.client import open_volume
from sos_client.serving.access import Right, append_token, new_token
from tests.connectors.relay.processes import relay_house
from tests.connectors.relay.staging_driver import staging_driver
from tests.connectors.test_listen_process import Process
from tests.connectors.test_tools_process import registers, send
from tests.deploy.prometheus_server import ROOT, prometheus
from tests.deploy.test_alarms import needs_prometheus
from tests.system.ports import free_port
from tests.system.server_process import ServerProcess
from tests.system.service_process import VOLUME, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.connectors.relay.processes import RelayHouse
    from tests.connectors.relay.staging_driver import StagingDriver
    from tests.deploy.prometheus_server import PrometheusServer

pytestmark = [needs_prometheus, pytest.mark.slow]


@contextmanager
def listening(directory: Path, metrics: int) -> Iterator[Process]:
    """A listener with a server of its own."""
    words = ("connectors", "listen", "--volume", "clicks", "--embedded", "--dir", str(directory / "clicks"))
    listener = Process("listener", directory, *words, "--metrics", f"127.0.0.1:{metrics}")
    listener._command += ["--listen", "127.0.0.1:0"]
    try:
        listener.start()
        yield listener
    finally:
        listener.end()


async def test_what_connectors_do_fires_its_alert_and_clears(tmp_path: Path) -> None:
    ports = {"sos-listener": free_port(), "sos-relay": free_port()}
    jobs = {name: [f"127.0.0.1:{port}"] for name, port in ports.items()}
    run = trio.to_thread.run_sync
    options = ("--metrics", f"127.0.0.1:{ports['sos-relay']}")
    with (
        listening(tmp_path, ports["sos-listener"]) as listener,
        relay_house(tmp_path, options=options) as house,
        prometheus(tmp_path / "prometheus", jobs) as watcher,
    ):
        await run(watcher.wait, lambda firing: not firing)
        await run(a_reader_lags, listener, watcher)
        async with staging_driver(house.relay.address, house.addresses) as driver:
            await a_transaction_does_not_end(driver, house, watcher)
        await run(watcher.wait, lambda firing: not firing)
        await run(their_part_of_the_dashboard_is_answered, watcher)


def a_reader_lags(listener: Process, watcher: PrometheusServer) -> None:
    registers(listener, "slow", 0)
    send(listener, *[b"message"] * 500).close()
    watcher.fires("SosReaderLagging")
    registers(listener, "slow", 500)
    watcher.clears("SosReaderLagging")


async def a_transaction_does_not_end(driver: StagingDriver, house: RelayHouse, watcher: PrometheusServer) -> None:
    """The sink is there, and says nothing: it is hung."""
    await driver.batch(0, [b"first"])
    house.sinks[0].tell(signal.SIGSTOP)
    part = await driver.stage(1, "r", "p", [StagedRow(0, None, b"second")])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.commit, 1, "r", [part])
        await trio.to_thread.run_sync(watcher.fires, "SosTransactionInDoubt")
        house.sinks[0].tell(signal.SIGCONT)
    await trio.to_thread.run_sync(watcher.clears, "SosTransactionInDoubt")
    assert house.committed(0) == b"first\nsecond\n"


def their_part_of_the_dashboard_is_answered(watcher: PrometheusServer) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "sos.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    ours = [query for query in queries if re.search("sos_connector_|sos_relay_", query)]
    assert len(ours) > 2
    for query in ours:
        assert watcher.ask("query", query=query)["result"] or "refus" in query or "away" in query, query


def test_a_token_that_may_not_delete(tmp_path: Path) -> None:
    """Until its right is given, and the server reads its tokens again."""
    tokens, metrics = tmp_path / "tokens.toml", free_port()
    rights = frozenset({Right.READ, Right.APPEND, Right.FENCE})
    text, grant = new_token(name="journal", namespaces=("*",), rights=rights, expires=None)
    append_token(tokens, grant)
    (tmp_path / "token").write_text(text)
    server = ServerProcess(tmp_path, "--tokens", str(tokens))
    words = ["--token-file", str(tmp_path / "token"), "--create", "--keep-bytes", "1M"]
    service = ServiceProcess(tmp_path / "service", [server.address], *words, "--metrics", f"127.0.0.1:{metrics}")
    try:
        server.start()
        service.start()
        with prometheus(tmp_path / "prometheus", {"sos-journal": [f"127.0.0.1:{metrics}"]}) as watcher:
            written_while(lambda: "SosRetentionBlocked" not in watcher.firing(), service.address)
            tokens.write_text(tokens.read_text().replace("rights = [", 'rights = ["delete", '))
            server.signal(signal.SIGHUP)
            written_while(lambda: "SosRetentionBlocked" in watcher.firing(), service.address)
    finally:
        for process in (service, server):
            with suppress(AssertionError):
                process.kill()


def written_while(condition: Callable[[], bool], address: str) -> None:
    """Retention is looked at as the log grows."""
    deadline = time.monotonic() + 600

    async def write() -> None:
        async with open_volume([address], VOLUME) as volume:
            for number in range(20):
                data = bytes([number]) * 50_000
                await volume.put("q1/state", data, overwrite=True, operation=volume.new_operation())

    while condition():
        assert time.monotonic() < deadline
        trio.run(write)
        time.sleep(0.5)
