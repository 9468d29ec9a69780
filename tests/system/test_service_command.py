"""`sos-journal serve` from the outside: what it says, how it ends, what it complains about; never a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import open_volume
from sos_client.serving.access import Right, append_token, new_token
from tests.system.ports import free_port
from tests.system.server_process import serving
from tests.system.service_process import VOLUME, ServiceProcess, children_of, running_cluster

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_MAX = 600


def run(*arguments: str, serve: bool = True) -> subprocess.CompletedProcess[str]:
    verb = ["serve"] if serve else []
    command = [sys.executable, "-m", "journal", *verb, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '--volume'"),
        (["--volume", "v"], "Missing option '--dir'"),
        (["--volume", "v", "--dir", "{}"], "say where the SOS servers are"),
        (["--volume", "no/name", "--dir", "{}", "--servers", "127.0.0.1:1"], "is not a name"),
        (["--volume", "v", "--dir", "{}", "--servers", "nonsense"], "is not an address"),
        (["--volume", "v", "--dir", "{}", "--servers", "127.0.0.1:1", "--listen", "here"], "write HOST:PORT"),
        (["--volume", "v", "--dir", "{}", "--servers", "127.0.0.1:1", "--listen", "0.0.0.0:0"], "say --insecure"),
        (
            ["--volume", "v", "--dir", "{}", "--servers", "127.0.0.1:1", "--tls-cert", "c.pem"],
            "needs both a certificate",
        ),
        (["--volume", "v", "--dir", "{}", "--servers", "127.0.0.1:1", "--tokens", "missing"], "cannot read the tokens"),
        (["--volume", "v", "--dir", "{}", "--servers", "127.0.0.1:1", "--exit-with-fd", "99"], "must pass it on"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = run(*(argument.format(tmp_path) for argument in arguments))
    assert complaint in " ".join(done.stderr.split())
    assert done.returncode == 2
    assert done.stdout == ""


def test_an_address_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"127.0.0.1:{other.getsockname()[1]}"
        done = run("--volume", "v", "--dir", str(tmp_path), "--servers", "127.0.0.1:1", "--listen", where)
    assert f"cannot listen on {where}" in " ".join(done.stderr.split())
    assert done.returncode == 2


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    where = ["--servers", "127.0.0.1:1", "--dir", str(tmp_path / "file" / "below"), "--listen", "127.0.0.1:0"]
    done = run("--volume", "v", *where)
    assert "directory" in done.stderr
    assert "mistake" not in done.stderr
    assert done.returncode != 0


def test_help_has_examples() -> None:
    shown = run("--help").stdout
    assert "Examples:" in shown
    assert "--supervise" in shown


def test_a_volume_that_nobody_made_is_not_made_by_serving_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        done = run(
            "--volume", "new", "--servers", server.address, "--dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0"
        )
        assert done.returncode == 3
        assert "new" in done.stderr


async def test_create_makes_a_volume_once(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        service = ServiceProcess(tmp_path / "service", [server.address], "--create")
        for content in (b"first", b"second"):
            await trio.to_thread.run_sync(service.start)
            async with open_volume([service.address], VOLUME) as volume:
                await volume.put(content.decode(), content, overwrite=False, operation=volume.new_operation())
                names = [entry.path for entry in (await volume.list("")).entries]
            service.kill()
        assert names == ["first", "second"]


async def test_two_services_cannot_share_a_directory(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        servers = ",".join(server.address for server in cluster.servers)
        directory = str(cluster.service.directory)
        done = await trio.to_thread.run_sync(
            lambda: run("--volume", VOLUME, "--servers", servers, "--dir", directory, "--listen", "127.0.0.1:0")
        )
        assert done.returncode == 9
        assert "another process uses the local copy" in done.stderr


async def test_tokens_and_metrics(tmp_path: Path) -> None:
    token, grant = new_token(name="spark", namespaces=(VOLUME,), rights=frozenset(Right), expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    port = free_port()
    with serving(tmp_path) as server:
        flags = ["--create", "--tokens", str(tmp_path / "tokens.toml"), "--metrics", f"127.0.0.1:{port}"]
        service = ServiceProcess(tmp_path / "service", [server.address], *flags)
        await trio.to_thread.run_sync(service.start)
        try:
            async with open_volume([service.address], VOLUME, token=bytes.fromhex(token)) as volume:
                await volume.put("f", b"x", overwrite=False, operation=volume.new_operation())
            shown = await trio.to_thread.run_sync(_fetch, f"http://127.0.0.1:{port}/metrics")
            assert 'sos_journal_volume_owned{volume="payments"} 1.0' in shown
            assert f'sos_journal_volume_member_in_sync{{member="{server.address}",volume="payments"}} 1.0' in shown
            assert 'sos_journal_request_seconds_count{request="put"} 1.0' in shown
        finally:
            service.kill()


async def test_a_supervised_service_survives_its_crashes(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        service = ServiceProcess(tmp_path / "service", [server.address], "--create", "--supervise")
        await trio.to_thread.run_sync(service.start)
        try:
            async with open_volume([service.address], VOLUME) as volume:
                for number in range(3):
                    await volume.put(f"f{number}", b"x", overwrite=False, operation=volume.new_operation())
                    for child in children_of(service.pid):
                        os.kill(child, signal.SIGKILL)
                assert len((await volume.list("")).entries) == 3
            service.send_signal(signal.SIGHUP)
            assert await trio.to_thread.run_sync(service.terminate) == 0
        finally:
            service.kill()


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=600) as answer:
        body: bytes = answer.read()
    return body.decode()
