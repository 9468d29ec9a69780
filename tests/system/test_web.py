"""`--web` of real processes: what the page is made of, while members die, hang and come back."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trustme

from journal.gateway.client.client import open_volume
from journal.volume import PathClaim
from journal.web.service_source import READY_KEPT_SECONDS
from sos_client.serving.access import Right, append_token, new_token
from tests.system.ports import free_port
from tests.system.server_process import serving
from tests.system.service_process import VOLUME, Cluster, running_cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUERY = "q1"


def fetched(url: str, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=600, context=context) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def got(url: str, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    return await trio.to_thread.run_sync(fetched, url, token, context)


async def status_of(web: str) -> dict[str, Any]:
    code, text = await got(f"{web}status.json")
    assert code == 200
    found: dict[str, Any] = json.loads(text)
    return found


async def seconds_until(web: str, condition: Callable[[dict[str, Any]], bool], seconds_max: float) -> float:
    """How long it took until the status said so."""
    began = time.monotonic()
    with trio.fail_after(seconds_max):
        while not condition(await status_of(web)):  # noqa: ASYNC110
            await trio.sleep(0.05)
    return time.monotonic() - began


async def until_ready(web: str) -> None:
    """Members that have just been found are not in sync at once."""
    with trio.fail_after(300):
        while (await got(f"{web}readyz"))[0] != 200:  # noqa: ASYNC110
            await trio.sleep(0.1)


async def run_batches(cluster: Cluster, count: int, first: int = 0) -> None:
    """What a query with state writes."""
    claim = PathClaim(application="app-1", start_time=1_700_000_000_000)
    async with open_volume(cluster.service_addresses, VOLUME) as volume:

        async def put(path: str, data: bytes) -> None:
            await volume.put(f"{QUERY}/{path}", data, overwrite=True, operation=volume.new_operation(), claim=claim)

        await volume.claim(QUERY, claim, operation=volume.new_operation())
        await put("metadata", b'{"id":"b7f6f1c2-1111-2222-3333-444455556666"}')
        for number in range(first, first + count):
            conf = b'{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"1"}}'
            await put(f"offsets/{number}", b"v1\n" + conf + b"\n%d" % number)
            await put(f"state/0/0/{number + 1}.delta", b"x" * 100)
            await put(f"commits/{number}", b'v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.slow
@pytest.mark.alone
async def test_what_the_page_shows_of_a_service(tmp_path: Path) -> None:
    port = free_port()
    web = f"http://127.0.0.1:{port}/"
    async with running_cluster(tmp_path, flags=["--web", f"127.0.0.1:{port}"]) as cluster:
        await run_batches(cluster, 30)
        servers = ",".join(one.address for one in cluster.servers)
        proof = [sys.executable, "-m", "journal", "verify", VOLUME, "--restore", "--servers", servers]
        restored: dict[str, Any] = {}
        with trio.fail_after(600):
            while restored.get("files") != 91:  # the servers know half a second later that the last one counts
                await trio.run_process([*proof, "--service", cluster.service.address], capture_stdout=True)
                await run_batches(cluster, 0)  # a record after the note, which is acknowledged then
                await seconds_until(web, lambda status: status["details"][0]["past"]["restored"] is not None, 300)
                restored = (await status_of(web))["details"][0]["past"]["restored"]
        assert restored["path"] == "/"
        await seconds_until(web, lambda status: status["volumes"][0]["outlook"]["may_lose"] == 1, 300)
        found = await status_of(web)
        assert await got(f"{web}healthz") == (200, "alive\n")
        assert await got(f"{web}readyz") == (200, "ready\n")
        assert "sos_journal_volume_owned" in (await got(f"{web}metrics"))[1]
        query = found["details"][0]["queries"][0]
        assert query["query"] == QUERY
        assert query["last_batch"] == 29
        assert query["holder"]["application"] == "app-1"
        assert query["verdict"]["severity"] == "OK"
        assert query["state"][0]["changelogs"] == 30
        assert len(query["batches"]) == 30
        assert found["details"][0]["room"]["queries"][0]["files"] == 91

        dead = cluster.servers[0]
        dead.kill()

        def is_away(status: dict[str, Any]) -> bool:
            by_address = {member["address"]: member for member in status["volumes"][0]["members"]}
            return not by_address[dead.address]["in_sync"] and status["volumes"][0]["outlook"]["may_lose"] == 0

        assert await seconds_until(web, is_away, 300) < 10
        assert await got(f"{web}readyz") == (200, "ready\n")  # two of three still acknowledge
        await run_batches(cluster, 5, first=30)
        late = next(one for one in (await status_of(web))["volumes"][0]["members"] if one["address"] == dead.address)
        assert late["lag_bytes"] > 0
        assert late["problem"]
        await trio.to_thread.run_sync(dead.start)
        await seconds_until(web, lambda status: status["volumes"][0]["outlook"]["may_lose"] == 1, 300)


@pytest.mark.slow
async def test_a_standby_is_alive_not_ready_and_no_reason_to_be_alarmed(tmp_path: Path) -> None:
    port = free_port()
    web = f"http://127.0.0.1:{port}/"
    async with running_cluster(tmp_path, services=2) as cluster:
        standby = cluster.services[1]
        standby.flags += ["--standby", "--web", f"127.0.0.1:{port}"]
        await trio.to_thread.run_sync(standby.start)
        assert (await got(f"{web}healthz"))[0] == 200
        assert (await got(f"{web}readyz"))[0] == 503
        look = (await status_of(web))["volumes"][0]["outlook"]
        assert look["level"] == "warning"
        assert cluster.service.address in look["sentence"]
        cluster.service.kill()
        await until_ready(web)


@pytest.mark.slow
async def test_a_token_sees_its_volume_and_no_other(tmp_path: Path) -> None:
    tokens, port = tmp_path / "tokens.toml", free_port()
    texts = {}
    for name, glob in (("payments", VOLUME), ("operator", "*")):
        texts[name], grant = new_token(name=name, namespaces=(glob,), rights=frozenset(Right), expires=None)
        append_token(tokens, grant)
    flags = ["--web", f"127.0.0.1:{port}", "--tokens", str(tokens), "--volume", "salaries", "--create"]
    async with running_cluster(tmp_path, flags=flags):
        for path in ("status.json", "metrics"):
            url = f"http://127.0.0.1:{port}/{path}"
            assert (await got(url))[0] == 401
            code, text = await got(url, texts["payments"])
            assert code == 200
            assert VOLUME in text
            assert "salaries" not in text
            assert "salaries" in (await got(url, texts["operator"]))[1]


@pytest.mark.slow
async def test_beyond_loopback_the_page_speaks_tls(tmp_path: Path) -> None:
    authority, port = trustme.CA(), free_port()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    text, grant = new_token(name="operator", namespaces=("*",), rights=frozenset(Right), expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    files = ["--tls-cert", f"{tmp_path}/cert.pem", "--tls-key", f"{tmp_path}/cert.pem"]
    flags = ["--web", f"0.0.0.0:{port}", *files, "--tokens", f"{tmp_path}/tokens.toml"]
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with serving(tmp_path, *flags):
        code, body = await got(f"https://127.0.0.1:{port}/status.json", text, trusting)
        assert code == 200
        assert json.loads(body)["kind"] == "server"
        code, why = await got(f"http://127.0.0.1:{port}/healthz")
        assert (code, why) == (503, "this port speaks TLS, and the connection began without it\n")


@pytest.mark.slow
async def test_ready_means_that_it_could_acknowledge_now(tmp_path: Path) -> None:
    port = free_port()
    web = f"http://127.0.0.1:{port}/"
    async with running_cluster(tmp_path, flags=["--web", f"127.0.0.1:{port}"]) as cluster:
        await until_ready(web)
        hung = cluster.servers[:2]
        for server in hung:  # nothing is written, and no connection breaks: only asking tells
            server.signal(signal.SIGSTOP)
        await trio.sleep(2 * READY_KEPT_SECONDS)
        try:
            code, why = await got(f"{web}readyz")
            assert code == 503
            assert "1 of 3 machines answer" in why
            assert VOLUME not in why
        finally:
            for server in hung:
                server.signal(signal.SIGCONT)
        await until_ready(web)


@pytest.mark.slow
async def test_the_page_of_servers_that_no_service_uses(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await run_batches(cluster, 8)
        cluster.service.kill()
        servers = ",".join(server.address for server in cluster.servers[:2])  # the third is a member, and found
        command = [sys.executable, "-m", "journal", "web", VOLUME, "--servers", servers, "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
        try:
            assert process.stdout is not None
            web = (await trio.to_thread.run_sync(process.stdout.readline)).split()[-1]
            await seconds_until(web, lambda status: status["volumes"][0]["outlook"]["may_lose"] == 1, 300)
            await seconds_until(web, lambda status: bool(status["details"][0]["queries"]), 300)
            query = (await status_of(web))["details"][0]["queries"][0]
            assert (query["query"], query["last_batch"], query["verdict"]["severity"]) == (QUERY, 7, "OK")
            assert (await got(f"{web}readyz"))[0] == 200
            dead = cluster.servers[2]
            dead.kill()
            await seconds_until(web, lambda status: status["volumes"][0]["outlook"]["may_lose"] == 0, 300)
            await trio.to_thread.run_sync(dead.start)
            await seconds_until(web, lambda status: status["volumes"][0]["outlook"]["may_lose"] == 1, 300)
        finally:
            process.terminate()
            await trio.to_thread.run_sync(process.wait)


@pytest.mark.slow
async def test_what_the_page_shows_of_a_server(tmp_path: Path) -> None:
    port = free_port()
    web = f"http://127.0.0.1:{port}/"
    with serving(tmp_path, "--web", f"127.0.0.1:{port}") as server:
        client = await server.client()
        await client.hello()
        await client.use("payments", create=True)
        found = await status_of(web)
        assert found["kind"] == "server"
        assert found["volumes"][0]["outlook"]["level"] == "good"
        assert [one["namespace"] for one in found["namespaces"]] == ["payments"]
        assert found["disk"]["free_bytes"] > 0
        assert await got(f"{web}readyz") == (200, "ready\n")
        assert "sos_free_bytes" in (await got(f"{web}metrics"))[1]
        assert "<title>" in (await got(web))[1]


@pytest.mark.parametrize("flags", [["--web", "0.0.0.0:0"], ["--web", "nowhere"]])
def test_a_page_for_everybody_is_refused(tmp_path: Path, flags: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"--web|can be reached from other machines"), serving(tmp_path, *flags):
        pass


@pytest.mark.slow
@pytest.mark.alone
async def test_two_hundred_pages_and_hostile_ones_hold_up_nobody(tmp_path: Path) -> None:
    """Whoever only looks takes a bounded part of the service's memory, and keeps nobody from being served."""
    port = free_port()
    web = f"http://127.0.0.1:{port}/"
    async with running_cluster(tmp_path, flags=["--web", f"127.0.0.1:{port}"]) as cluster:
        await run_batches(cluster, 50)
        before = cluster.service.rss_bytes()
        pages = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(200)]
        for page in pages:  # and all of them read nothing
            await page.send_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        bombs = []
        for number in range(10_000):
            bomb = socket.socket()
            bomb.setblocking(False)
            bomb.connect_ex(("127.0.0.1", port))
            bombs.append(bomb)
            if len(bombs) == 500:
                await trio.sleep(0.02)
                for one in bombs:
                    with suppress(OSError):
                        one.send(b"GET /%d HTTP/1.1\r\nX: " % number + b"y" * 30_000)
                    one.close()
                bombs = []
        with trio.fail_after(600):
            await run_batches(cluster, 20, first=50)
            assert (await got(f"{web}healthz"))[0] == 200
        assert cluster.service.rss_bytes() - before < 150 << 20
        for page in pages:
            await page.aclose()
