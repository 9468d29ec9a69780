"""What is started beside a driver reaches the SOS servers that it was told of."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio
import trustme

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import ClientSettings, open_volume
from journal.gateway.client.opening import open_whole_volume
from journal.gateway.client.sharded_volume import ShardedVolume
from sos_client.client import open_client
from sos_client.net.addresses import parse_address
from sos_client.serving.access import AccessRules, Right, append_token, new_token
from sos_client.wire.errors import ExitCode, RefusedError
from spark_integration.beside_driver import LOOPBACK, BesideDriver, BesideDriverError, Wanted, start_beside_driver
from spark_integration.pipelines.service_process import ServiceProcess
from spark_integration.run_folder import begin_run
from spark_integration.run_profile import forget, tell_this_process, write_run_profile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_service_uses_servers_with_tls_and_tokens(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(LOOPBACK)
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    token, grant = new_token(name="journal", namespaces=("v",), rights=frozenset(Right), expires=None)
    append_token(tmp_path / "tokens.toml", grant)
    (tmp_path / "token").write_text(token)
    files = ["--tls-cert", "server.pem", "--tls-key", "server.pem", "--tokens", "tokens.toml"]
    command = [sys.executable, "-m", "sos_server", "serve", "--root", str(tmp_path / "root")]
    command += [word if word.startswith("-") else str(tmp_path / word) for word in files]
    server = ServiceProcess.start(command, tmp_path / "server.log")
    try:
        create = [sys.executable, "-m", "journal", "create", "v", "--servers", server.address]
        create += ["--tls-ca", str(tmp_path / "ca.pem"), "--token-file", str(tmp_path / "token")]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        beside = start_beside_driver(
            Wanted(
                volume="v",
                servers=(server.address,),
                server_token=token,
                server_authorities=authority.cert_pem.bytes().decode(),
                directory=tmp_path / "beside",
                host=LOOPBACK,
            )
        )
        try:
            ask = [sys.executable, "-m", "journal", "ls", "sos://v", "--service", beside.address]
            assert subprocess.run(ask, capture_output=True).returncode == ExitCode.ACCESS
            subprocess.run([*ask, "--token-file", str(beside.credentials.token_file)], check=True)
            told = os.environ | {"SOS_PROFILES": str(write_run_profile(beside))}
            for verb in (["ls", "sos://v"], ["status", "v"], ["ls", "sos://v", "--at", "1"]):  # both ways in
                subprocess.run([sys.executable, "-m", "journal", *verb], env=told, check=True)
            assert {path.stat().st_mode & 0o077 for path in beside.folder.glob("*token*")} == {0}
        finally:
            beside.stop()
        assert not beside.folder.exists()
    finally:
        server.stop()


def test_commands_of_this_process_find_what_runs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook's `!sos-journal` does; a profile of the user's own is neither used for the run nor in the way."""
    home = tmp_path / "home"
    (home / "sos").mkdir(parents=True)
    (home / "sos" / "profiles.toml").write_text('default = "other"\n[other]\nservers = ["localhost:1"]\ntls = true\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    for name in ("SOS_PROFILES", "SOS_PROFILE", "SOS_SERVERS", "SOS_SERVICE", "SOS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    beside = start_beside_driver(_embedded(tmp_path / "v"))
    profiles = write_run_profile(beside)
    try:
        trio.run(_write, beside, "file")
        tell_this_process(profiles)
        assert '"path":"file"' in _listed()
        end = time.monotonic() + 600
        while '"path":"file"' not in _listed("--at", "0s"):  # the servers' log says half a second later that it counts
            assert time.monotonic() < end, "the past has no such file"
    finally:
        beside.stop()
        forget(profiles)
    assert "SOS_PROFILES" not in os.environ
    monkeypatch.setenv("SOS_SERVERS", "a:7400")
    tell_this_process(profiles)
    assert "SOS_PROFILES" not in os.environ, "a place was named by hand"


def _listed(*words: str) -> str:
    """Without words of the service, with a moment of the servers."""
    command = [sys.executable, "-m", "journal", "ls", "sos://v", "--json", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def _embedded(directory: Path) -> Wanted:
    return Wanted(
        volume="v", servers=(), server_token=None, server_authorities=None, directory=directory, host=LOOPBACK
    )


def _run_folders(directory: Path) -> list[Path]:
    return list(directory.glob("run-*"))


async def _write(beside: BesideDriver, path: str, token: str | None = None) -> None:
    settings = ClientSettings(seconds=30)
    key = bytes.fromhex(token or beside.credentials.token)
    async with open_volume([beside.address], "v", token=key, settings=settings) as volume:
        await volume.put(path, b"", overwrite=False, operation=volume.new_operation())


def test_an_embedded_volume_is_spread_and_is_not_made_once_more_in_another_way(tmp_path: Path) -> None:
    beside = start_beside_driver(replace(_embedded(tmp_path), shards=2))
    try:
        assert len(beside.services) == 2

        async def write() -> None:
            key = bytes.fromhex(beside.credentials.token)
            async with open_whole_volume(beside.services, "v", token=key) as volume:
                assert isinstance(volume, ShardedVolume)
                for partition in range(2):
                    operation = volume.new_operation()
                    await volume.put(f"q/state/0/{partition}/1.delta", b"", overwrite=False, operation=operation)

        trio.run(write)
    finally:
        beside.stop()
    began = time.monotonic()
    for other in (_embedded(tmp_path), replace(_embedded(tmp_path), shards=3)):
        with pytest.raises(BesideDriverError, match=r"there is a volume v.* already: serve it with --shards 2"):
            start_beside_driver(other)
    assert time.monotonic() - began < 30, "what no trying again mends is said at once"


def test_nobody_without_the_runs_token_reaches_what_is_embedded(tmp_path: Path) -> None:
    beside = start_beside_driver(_embedded(tmp_path))
    try:
        trio.run(_write, beside, "f")
        with pytest.raises(JournalError) as caught:
            trio.run(_write, beside, "g", "00" * 32)
        assert caught.value.code is JournalCode.AUTH
        server = beside.server_address
        assert server is not None

        async def greet() -> None:
            async with open_client(server):
                pass

        with pytest.raises(RefusedError, match="token"):
            trio.run(greet)
    finally:
        beside.stop()


def test_a_companion_that_is_killed_is_started_again_where_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    beside = start_beside_driver(_embedded(tmp_path))
    try:
        before = beside.address, beside.server_address, beside.companion_pid
        trio.run(_write, beside, "before")
        os.kill(beside.companion_pid, signal.SIGKILL)
        deadline = time.monotonic() + 600
        while beside.companion_pid == before[2]:
            assert time.monotonic() < deadline, "no other companion"
            time.sleep(0.05)
        assert (beside.address, beside.server_address) == before[:2]
        trio.run(_write, beside, "after")
        assert "ended with -9; it is started again" in capfd.readouterr().err
        assert len(_run_folders(tmp_path)) == 1
    finally:
        beside.stop()
    assert _run_folders(tmp_path) == []


def test_nobody_else_gets_a_port_while_what_served_there_is_started_again(tmp_path: Path) -> None:
    beside = start_beside_driver(_embedded(tmp_path))
    try:
        served = [parse_address(text, what="served") for text in (beside.address, beside.server_address or "")]
        os.kill(beside.companion_pid, signal.SIGKILL)  # and with it, by the kernel, what it has started
        for address in served:
            while _is_served(address.host, address.port):
                time.sleep(0.001)
            with socket.socket() as stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with pytest.raises(OSError, match="in use"):
                    stranger.bind((address.host, address.port))
    finally:
        beside.stop()


def _is_served(host: str, port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, port)):
        return True
    return False


_KILLED = """
import os, signal, sys
from pathlib import Path
from spark_integration.beside_driver import LOOPBACK, Wanted, start_beside_driver
beside = start_beside_driver(
    Wanted(volume="v", servers=(), server_token=None, server_authorities=None, directory=Path(sys.argv[1]),
           host="localhost")
)
if sys.argv[2] == "both":
    os.kill(beside.companion_pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_key_and_no_token_stays_after_a_driver_that_is_killed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), "driver"], check=False)
    deadline = time.monotonic() + 600
    while _run_folders(tmp_path):
        assert time.monotonic() < deadline, _run_folders(tmp_path)
        time.sleep(0.05)


def test_what_a_killed_companion_leaves_goes_with_the_next_run(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), "both"], check=False)
    (left,) = _run_folders(tmp_path)
    assert (left / "key.pem").exists()
    deadline = time.monotonic() + 600
    while left.exists():  # the lock of a killed process goes a moment after it
        assert time.monotonic() < deadline, "it stays"
        begin_run(tmp_path).close()
    first, second = begin_run(tmp_path), begin_run(tmp_path)
    assert sorted(_run_folders(tmp_path)) == sorted([first.path, second.path])
    for folder in (first, second):
        folder.close()


_SECOND = """
import sys
from pathlib import Path
from spark_integration.beside_driver import BesideDriverError, Wanted, start_beside_driver
try:
    start_beside_driver(
        Wanted(volume="v", servers=(), server_token=None, server_authorities=None, directory=Path(sys.argv[1]),
               host="localhost")
    )
except BesideDriverError as error:
    print(error)
"""


def test_a_second_driver_in_the_same_directory_takes_nothing_from_the_first(tmp_path: Path) -> None:
    wanted = Wanted(
        volume="v", servers=(), server_token=None, server_authorities=None, directory=tmp_path, host="localhost"
    )
    beside = start_beside_driver(wanted)
    try:
        second = [sys.executable, "-c", _SECOND, str(tmp_path)]
        told = subprocess.run(second, capture_output=True, text=True, check=True).stdout
        assert "another process owns this directory" in told
        # What a service that is started again would read.
        access = AccessRules(beside.credentials.tokens_file)
        assert access.authenticate(bytes.fromhex(beside.credentials.token), now=0).reaches("v")
        certificate = beside.credentials.certificate
        assert certificate is not None
        assert certificate.file.read_text() == certificate.text
    finally:
        beside.stop()
