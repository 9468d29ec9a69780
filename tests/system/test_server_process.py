"""The server as a process: what it prints, how it ends, what signals do, what it refuses to begin with."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trustme

from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode
from sos_server.cli import disk_verdict
from tests.fakes.scripted_client import ScriptedClient, append, data
from tests.system.ports import free_port
from tests.system.server_process import SERVER, ServerProcess, serving


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def scraped(address: str) -> str:
    text: str = urllib.request.urlopen(f"http://{address}/metrics", timeout=600).read().decode()
    return text


async def test_sigterm_syncs_acknowledges_and_tells_everybody(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        idle, writer = await server.entered(), await server.entered()
        await writer.send(append("log"), *(data(offset, bytes(1000)) for offset in range(0, 50_000, 1000)))
        await writer.expect(m.Appending)
        server.signal(signal.SIGTERM)
        await idle.ends_with(ErrorCode.SHUTTING_DOWN)
        last = m.Ack(0, 0)
        while isinstance(message := await writer.receive(), m.Ack):
            last = message
        assert last.synced == last.written
        assert isinstance(message, m.Error)
        assert message.code is ErrorCode.SHUTTING_DOWN
        assert server.wait() == 0
        server.start()
        info = await (await server.entered()).ask(m.Stat(object="log"), m.ObjectInfo)
        assert info.size == last.synced
        assert [line["event"] for line in server.log() if line["event"] == "stopped"]


async def test_sigterm_is_bounded_although_a_peer_does_not_read(tmp_path: Path) -> None:
    config = tmp_path / "sos.toml"
    config.write_text("[server]\nshutdown_seconds = 0.5\n")
    with serving(tmp_path, "--config", str(config)) as server:
        writer = await server.entered()
        await writer.send(
            append("log"), *(data(offset, bytes(1 << 20)) for offset in range(0, 16 << 20, 1 << 20)), m.End()
        )
        while not isinstance(await writer.receive(), m.Ended):
            pass
        await writer.send(m.Get(object="log", offset=0, length=None, follow=False))
        await trio.sleep(0.2)
        began = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - began < 20


async def test_a_second_server_on_the_same_root_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        command = [*SERVER, "--root", str(server.root), "--listen", "127.0.0.1:0"]
        second = run(command)
        assert second.returncode == 9
        assert "another process owns" in second.stderr
        config = tmp_path / "sos.toml"
        config.write_text('[server]\nroot = "root"\nlisten = "127.0.0.1:0"\n')
        third = run([*SERVER, "--config", str(config)])
        assert third.returncode == 9
        assert f"{tmp_path / 'root'}: another process owns" in third.stderr
        assert second.stdout == ""


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--listen", "0.0.0.0:0"], "say --insecure"),
        (["--listen", "0.0.0.0:0", "--tokens", "{}/tokens.toml"], "TLS is not set up"),
        (["--listen", "7400"], "HOST:PORT"),
        (["--listen", "192.0.2.1:7400", "--insecure"], "cannot listen on 192.0.2.1:7400"),
        (["--tokens", "{}/missing.toml"], "cannot read the tokens"),
        (["--tls-cert", "{}/tokens.toml"], "TLS needs both"),
        (["--tls-cert", "{}/tokens.toml", "--tls-key", "{}/tokens.toml"], "cannot use this certificate"),
        (["--config", "{}/missing.toml"], "cannot read the settings"),
        (["--metrics", "nowhere"], "--metrics"),
        (["--root", "/proc/none"], "/proc/none: cannot be the root"),
        (["--root", "{}/tokens.toml"], "is a file"),
        (["serve", "extra"], "unexpected extra argument"),
    ],
)
def test_what_it_refuses_to_begin_with(tmp_path: Path, flags: list[str], sentence: str) -> None:
    (tmp_path / "tokens.toml").touch()
    command = [*SERVER, "--root", str(tmp_path / "root"), *(flag.format(tmp_path) for flag in flags)]
    ended = run(command)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [
        (errno.EACCES, 2, "data: this process may not use it: Permission denied: 'lock'"),
        (errno.EROFS, 2, "data: this process may not use it: Read-only file system: 'lock'"),
        (errno.EIO, 8, "data: the disk failed: Input/output error: 'lock'"),
    ],
)
def test_a_root_that_cannot_be_used(number: int, code: int, sentence: str) -> None:
    assert disk_verdict(Path("data"), OSError(number, os.strerror(number), "lock")) == (sentence, code)


def has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def test_port_0_lets_the_system_choose_and_the_address_may_be_ipv6(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "[::1]") if has_ipv6() else ("127.0.0.1",):
        command = [*SERVER, "--root", str(tmp_path / "root"), "--listen", f"{host}:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            ready, address = process.stdout.readline().split()
            assert ready == "ready"
            assert address.startswith(host)
            assert run([sys.executable, "-m", "sos_client", "ping", "--server", address]).returncode == 0
            process.terminate()
            assert process.wait(30) == 0


def test_an_address_that_somebody_else_has(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for flag, other in (("--listen", "--metrics"), ("--metrics", "--listen")):
            root = str(tmp_path / "another")
            ended = run([*SERVER, "--root", root, flag, server.address, other, "127.0.0.1:0"])
            assert ended.returncode == 2
            assert ended.stderr.endswith(f"sos-server: cannot listen on {server.address}: Address already in use\n")


def test_a_command_that_there_is_not() -> None:
    ended = run([*SERVER, "sevre"])
    assert ended.returncode == 2
    assert "No such command 'sevre'" in ended.stderr


@pytest.mark.parametrize("handles", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
async def test_it_serves_whoever_reads_what_it_says(tmp_path: Path, handles: str) -> None:
    """Without standard handles, or with full disks behind them; what is stored never ends in one of them."""
    port = free_port()
    command = shlex.join([*SERVER, "--root", str(tmp_path / "root"), "--listen", f"127.0.0.1:{port}"])
    process = subprocess.Popen(["sh", "-c", f"exec {command} {handles}"], stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        with trio.fail_after(300):
            client = await reached(port)
        await client.hello()
        await client.use("ns")
        await client.send(append("log"), data(0, b"abc"), m.End())
        while not isinstance(await client.receive(), m.Ended):
            pass
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


async def reached(port: int) -> ScriptedClient:
    while True:
        try:
            return ScriptedClient(await trio.open_tcp_stream("127.0.0.1", port))
        except OSError:
            await trio.sleep(0.05)


def certificates(directory: Path, authority: trustme.CA) -> None:
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(directory / "server.pem"))


async def secure(server: ServerProcess, authority: trustme.CA) -> ScriptedClient:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    stream = trio.SSLStream(
        await trio.open_tcp_stream("127.0.0.1", server.port),
        context,
        server_hostname="localhost",
        https_compatible=True,
    )
    return ScriptedClient(stream)


async def test_tls_tokens_and_reload(tmp_path: Path) -> None:
    authority, tokens, pem = trustme.CA(), tmp_path / "tokens.toml", str(tmp_path / "server.pem")
    certificates(tmp_path, authority)
    command = [*SERVER, "token", "--tokens", str(tokens), "--name", "first", "--namespace", "ns"]
    made = run(command)
    token = bytes.fromhex(made.stdout)
    with serving(tmp_path, "--tls-cert", pem, "--tls-key", pem, "--tokens", str(tokens)) as server:
        client = await secure(server, authority)
        await client.hello(token)
        await client.use("ns")
        await client.send(append("log"), data(0, b"abc"))
        await client.expect(m.Appending)
        await client.acknowledged(3)
        intruder = await secure(server, authority)
        await intruder.send(m.Hello(version=1, token=None, client="x", instance=bytes(16)))
        await intruder.ends_with(ErrorCode.AUTH)

        plain = await server.client()
        await plain.send(m.Hello(version=1, token=token, client="x", instance=bytes(16)))
        assert "speaks TLS" in (await plain.expect(m.Error)).message

        newer = trustme.CA()
        certificates(tmp_path, newer)
        tokens.write_text("")
        server.signal(signal.SIGHUP)
        await client.ends_with(ErrorCode.AUTH)
        late = await secure(server, newer)
        await late.send(m.Hello(version=1, token=token, client="x", instance=bytes(16)))
        await late.ends_with(ErrorCode.AUTH)
        assert server.terminate() == 0
        events = [line["event"] for line in server.log() if line["level"] == "audit"]
        assert events == ["AUTH refused", "reloaded", "reloaded", "reloaded", "AUTH refused"]
        assert token.hex() not in server.log_path.read_text()


async def test_a_tls_client_on_a_plain_port_is_told_so(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with pytest.raises(trio.BrokenResourceError):
            await (await secure(server, trustme.CA())).hello()
        await server.entered()
        assert any("without TLS" in line.get("reason", "") for line in server.log())


async def test_metrics(tmp_path: Path) -> None:
    with serving(tmp_path, "--metrics", "127.0.0.1:0") as server:
        client = await server.entered("payments")
        await client.send(
            append("log"), data(0, b"abc"), m.End(), m.Get(object="log", offset=0, length=None, follow=False)
        )
        while not isinstance(await client.receive(), m.GetEnd):
            pass
        await client.refused(m.Stat(object="none"))
        address = next(line["address"] for line in server.log() if line["event"] == "metrics")
        text = scraped(address)
        for line in (
            "sos_connections 1.0",
            "sos_appends_total 1.0",
            "sos_appended_bytes_total 3.0",
            "sos_read_bytes_total 3.0",
            'sos_refused_total{code="NOT_FOUND"} 1.0',
            'sos_namespace_bytes{namespace="payments"} 3.0',
            'sos_namespace_objects{namespace="payments"} 1.0',
        ):
            assert line in text.splitlines()
        reference = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
        names = re.findall(r"^# TYPE (\S+)", text, flags=re.MULTILINE)
        assert len(names) > 15
        assert [name for name in names if f"`{name}" not in reference] == []


async def test_everything_is_there_after_a_stop(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        client = await server.entered()
        identity = (await (await server.client()).hello()).server_identity
        incarnation = (await client.use("ns")).incarnation
        await client.ask(m.Fence(epoch=3, holder=bytes(range(16))), m.Fenced)
        await client.send(append("log", epoch=3, holder=bytes(range(16))), data(0, b"abc"), m.End())
        while not isinstance(await client.receive(), m.Ended):
            pass
        assert server.terminate() == 0
        server.start()
        again = await server.client()
        assert (await again.hello()).server_identity == identity
        using = await again.use("ns", create=False)
        assert (using.incarnation, using.epoch, using.holder) == (incarnation, 3, bytes(range(16)))
        await again.send(m.Get(object="log", offset=0, length=None, follow=False))
        assert bytes((await again.expect(m.Data)).payload) == b"abc"
