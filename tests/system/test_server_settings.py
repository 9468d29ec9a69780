"""Settings of a server that runs: what SIGHUP changes, and what its peers are told when a limit is reached."""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING, Any

import trio

from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode
from tests.fakes.scripted_client import ScriptedClient, append, data
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from pathlib import Path


async def put(client: ScriptedClient, name: str, size: int) -> m.Message | None:
    """Append so many bytes to a new object; the last answer."""
    await client.send(append(name), data(0, bytes(size)), m.End())
    while isinstance(message := await client.receive(), m.Appending | m.Ack):
        pass
    return message


async def refusal_of(client: ScriptedClient, name: str, size: int) -> m.Error:
    error = await put(client, name, size)
    assert isinstance(error, m.Error), error
    return error


async def logged(server: ServerProcess, event: str, *, count: int = 1) -> list[dict[str, Any]]:
    """The lines of this event, once there are so many."""
    with trio.fail_after(300):
        while len(lines := [line for line in server.log() if line["event"] == event]) < count:  # noqa: ASYNC110
            await trio.sleep(0.02)
    return lines


async def test_quota_retention_and_limits_over_the_wire(tmp_path: Path) -> None:
    config = tmp_path / "sos.toml"
    text = "[limits]\nconnections_max = 2\n[storage]\nretention_seconds = 3600\nquota_bytes = 1000\n"
    config.write_text(text + "[quotas]\nlarge = 5000\n")
    with serving(tmp_path, "--config", str(config)) as server:
        client, other = await server.entered(), await server.entered("large")
        error = await refusal_of(client, "a", 1001)
        assert (error.code, error.fields) == (ErrorCode.QUOTA, {"used": 0, "quota": 1000})
        assert isinstance(await put(other, "a", 5000), m.Ended)
        await other.ask(m.Seal(object="a", size=5000, epoch=0, holder=b""), m.Sealed)
        error = await other.refused(m.Delete(object="a", epoch=0, holder=b""))
        assert error.code is ErrorCode.RETAINED
        assert 0 < int(error.fields["seconds"] or 0) <= 3600
        await (await server.client()).ends_with(ErrorCode.LIMIT)


async def test_how_many_objects_and_namespaces_there_may_be(tmp_path: Path) -> None:
    config = tmp_path / "sos.toml"
    config.write_text("[storage]\nnamespace_objects_max = 1\nnamespaces_max = 1\n")
    with serving(tmp_path, "--config", str(config)) as server:
        client = await server.entered()
        assert isinstance(await put(client, "a", 1), m.Ended)
        error = await refusal_of(client, "b", 1)
        assert (error.code, error.fields) == (ErrorCode.QUOTA, {"used": 1, "quota": 1})
        error = await client.refused(m.Use(namespace="another", create=True))
        assert (error.code, error.fields) == (ErrorCode.QUOTA, {"used": 1, "quota": 1})
        assert "namespaces" in error.message

        config.write_text("[storage]\nnamespace_objects_max = 2\nobjects_max = 2\nnamespaces_max = 2\n")
        server.signal(signal.SIGHUP)
        await logged(server, "reloaded", count=2)
        assert isinstance(await put(client, "b", 1), m.Ended)
        await client.ask(m.Use(namespace="another", create=True), m.Using)
        assert "all namespaces together" in (await refusal_of(client, "c", 1)).message


async def test_sighup_reads_the_settings_again(tmp_path: Path) -> None:
    config = tmp_path / "sos.toml"
    config.write_text("[limits]\nconnections_max = 1\n[storage]\nquota_bytes = 1000\nretention_seconds = 3600\n")
    with serving(tmp_path, "--config", str(config)) as server:
        client = await server.entered()
        assert (await refusal_of(client, "a", 1001)).code is ErrorCode.QUOTA
        await (await server.client()).ends_with(ErrorCode.LIMIT)

        config.write_text(
            '[limits]\nconnections_max = 5\n[storage]\nquota_bytes = 2000\n[server]\nlog_level = "error"\n'
        )
        server.signal(signal.SIGHUP)
        await logged(server, "reloaded", count=2)
        assert isinstance(await put(client, "a", 1001), m.Ended)
        assert (await refusal_of(client, "b", 1000)).code is ErrorCode.QUOTA
        await client.ask(m.Seal(object="a", size=1001, epoch=0, holder=b""), m.Sealed)
        await client.ask(m.Delete(object="a", epoch=0, holder=b""), m.Deleted)
        await server.entered()


async def test_a_hangup_during_the_start_is_obeyed_after_it(tmp_path: Path) -> None:
    """A pipe in the place of the file of tokens holds up the start for as long as nothing is written to it."""
    tokens = tmp_path / "tokens.toml"
    os.mkfifo(tokens, 0o600)
    server = ServerProcess(tmp_path, "--tokens", str(tokens))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, server.start)
            writing = await trio.to_thread.run_sync(tokens.open, "w")
            server.signal(signal.SIGHUP)
            writing.close()
        await trio.to_thread.run_sync(tokens.write_text, "")
        await logged(server, "reloaded", count=2)
        assert server.terminate() == 0
    finally:
        server.kill()


async def test_settings_that_are_not_in_order_change_nothing(tmp_path: Path) -> None:
    config = tmp_path / "sos.toml"
    config.write_text("[storage]\nquota_bytes = 1000\n")
    with serving(tmp_path, "--config", str(config)) as server:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (6000, 6000))
        client = await server.entered()
        config.write_text("[storage]\nquota_bytes = 2000\nlog_bytes_max = 0\n")
        server.signal(signal.SIGHUP)
        assert "log_bytes_max: 0 is too small" in (await logged(server, "reload failed"))[0]["reason"]
        config.write_text(f"[limits]\nhandshake_seconds = 1{400 * '0'}\n")
        server.signal(signal.SIGHUP)
        assert "must be a number" in (await logged(server, "reload failed", count=2))[1]["reason"]
        config.write_text(
            f"[storage]\nquota_bytes = 1500\nlog_bytes_max = {1 << 28}\n[limits]\nconnections_max = 6000\n"
        )
        server.signal(signal.SIGHUP)
        failed = (await logged(server, "reload failed", count=3))[2]
        assert "ulimit" in failed["reason"]
        assert (await refusal_of(client, "a", 1001)).fields["quota"] == 1000
        config.write_text(f"[storage]\nquota_bytes = 1500\nlog_bytes_max = {1 << 28}\n")
        server.signal(signal.SIGHUP)
        assert (await logged(server, "a restart is needed"))[0]["settings"] == ["storage.log_bytes_max"]
        assert (await refusal_of(client, "a", 1501)).fields["quota"] == 1500
