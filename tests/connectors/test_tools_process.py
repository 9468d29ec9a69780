"""The tools around a listener, as processes: status, readers, drain to another machine, and what is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import trio
import trustme

from connectors.ingest import places
from connectors.ingest.reader_position import reader_text
from journal.gateway.client.client import open_volume
from sos_client.serving.access import Right, append_token, new_token
from tests.connectors.test_listen_process import Process, running, stored, where
from tests.connectors.wallaroo_source import SourceStream, WallarooSource
from tests.json_contract.contract import hold

if TYPE_CHECKING:
    from pathlib import Path


def tool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "connectors", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, input=given)


def status(*arguments: str) -> dict[str, Any]:
    said = tool("status", "clicks", "--json", *arguments)
    assert said.returncode == 0, said.stderr
    value: dict[str, Any] = json.loads(said.stdout)
    hold("sos-connector", "status", value)
    return value


def send(listener: Process, *payloads: bytes, stream_id: int = 1) -> WallarooSource:
    source = WallarooSource(where(listener), [SourceStream(stream_id, b"s%d" % stream_id, list(payloads))])
    source.connect()
    while not source.done:
        source.send_some(100)
        source.take()
    return source


def registers(listener: Process, name: str, needs: int) -> None:
    """What a reader does."""

    async def register() -> None:
        async with open_volume([listener.addresses["files"]], "clicks") as volume:
            path, operation = places.reader_file(name), volume.new_operation()
            await volume.put(path, reader_text(needs, {"query": "of a test"}), overwrite=True, operation=operation)

    trio.run(register)


def test_status_and_readers(tmp_path: Path) -> None:
    with running(tmp_path) as (servers, listener):
        source = send(listener, b"a", b"b", b"c")
        files = ("--service", listener.addresses["files"])
        members = ("--servers", ",".join(server.addresses["ready"] for server in servers))
        found = status(*files)
        assert (found["live"], found["next_sequence"], found["listening"]) == (True, 3, listener.addresses["ready"])
        assert [(one["program"], one["messages"], one["streams"]) for one in found["connections"]] == [
            ("wallaroo", 3, 1)
        ]
        assert [(one["name"], one["point_of_reference"]) for one in found["streams"]] == [("s1", 2)]
        assert "a first reader" in found["waits"][0]["for"]
        registers(listener, "q-0", 1)
        while not (readers := status(*files)["readers"]):
            time.sleep(0.5)  # it looks every second, and a report is a second old
        (reader,) = readers
        assert (reader["name"], reader["lag_messages"], reader["rewind_messages"]) == ("q-0", 2, 1)
        assert reader["remarks"] == {"query": "of a test"}
        stored_only = status(*members)
        assert (stored_only["live"], stored_only["next_sequence"], len(stored_only["readers"])) == (False, 3, 1)
        assert stored_only["streams"] == [{**found["streams"][0], "peer": None}]
        shown = tool("status", "clicks", *files)
        assert all(text in shown.stdout for text in ("wallaroo", "3 kept, of 3", "q-0")), shown.stderr
        assert "q-0" in tool("readers", "list", "clicks", *files).stdout
        hold("sos-connector", "readers list", json.loads(tool("readers", "list", "clicks", "--json", *files).stdout))
        removed = tool("readers", "remove", "clicks", "q-0", "--yes", "--json", *files)
        hold("sos-connector", "readers remove", json.loads(removed.stdout))
        assert tool("readers", "remove", "clicks", "q-0", "--yes", *files).returncode == 3
        source.close()


def test_what_is_no_ingest_volume_and_nobody_there(tmp_path: Path) -> None:
    with running(tmp_path) as (servers, listener):
        members = ("--servers", ",".join(server.addresses["ready"] for server in servers))
        made = subprocess.run(
            [sys.executable, "-m", "journal", "create", "plain", *members],
            capture_output=True,
            timeout=600,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        said = tool("status", "plain", *members)
        assert (said.returncode, "is not an ingest volume" in said.stderr) == (2, True), said.stderr
        files = ("--service", listener.addresses["files"])
        said = tool("drain", "clicks", "--to", "127.0.0.1:9", *files)
        assert (said.returncode, "nobody listens at 127.0.0.1:9" in said.stderr) == (2, True), said.stderr
        listener.end()
        file = tmp_path / "f"
        file.write_bytes(b"x\n")
        said = tool("send", str(file), "--to", listener._command[-1], "--timeout", "1")
        assert (said.returncode, "127.0.0.1" in said.stderr) == (9, True), said.stderr


def test_sources_are_sent_to_another_machine(tmp_path: Path) -> None:
    """A planned move: drained while a source sends; the listener elsewhere has its own directory, and goes on."""
    with running(tmp_path) as (_, listener):
        other = Process("other", tmp_path, *listener._command[2:])
        other._command[other._command.index("--dir") + 1] = str(tmp_path / "another-machine")
        other._command[-1] = "127.0.0.1:0"
        other._command.append("--standby")
        lines = tmp_path / "lines"
        lines.write_bytes(b"".join(b"line %d\n" % n for n in range(200_000)))
        try:
            other.start()
            command = [sys.executable, "-m", "connectors", "send", str(lines), "--to", listener.addresses["ready"]]
            sending = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            files = ("--service", listener.addresses["files"])
            while status(*files)["next_sequence"] == 0:
                time.sleep(0.05)
            said = tool("drain", "clicks", "--to", other.addresses["ready"], "--json", *files)
            assert said.returncode == 0, said.stderr
            hold("sos-connector", "drain", json.loads(said.stdout))
            assert listener._process is not None
            assert listener._process.wait(30) == 0
            shown, problems = sending.communicate(timeout=600)
            assert sending.returncode == 0, shown + problems
            assert '"event": "volume given back"' in (tmp_path / "listener.log").read_text()
            rows = stored(other)
            assert [row[3] for row in rows] == lines.read_bytes().splitlines()
            assert status("--service", other.addresses["files"])["connections"] == []
        finally:
            other.end(signal.SIGTERM)


def test_tls_tokens_metrics_and_a_server_of_its_own(tmp_path: Path) -> None:
    """Beyond loopback without --insecure; what is embedded is there again after a kill of everything."""
    authority, tokens, pem = trustme.CA(), tmp_path / "tokens.toml", str(tmp_path / "listener.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name, right in (("source", Right.APPEND), ("reader", Right.READ)):
        text, grant = new_token(name=name, namespaces=("clicks",), rights=frozenset({right}), expires=None)
        append_token(tokens, grant)
        (tmp_path / f"{name}.token").write_text(text)
    listener = Process("listener", tmp_path, "connectors", "listen", "--volume", "clicks", "--embedded")
    listener._command += ["--dir", str(tmp_path / "all"), "--listen", "0.0.0.0:0", "--tokens", str(tokens)]
    listener._command += ["--tls-cert", pem, "--tls-key", pem, "--metrics", "127.0.0.1:0"]
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")

    def send(token: str) -> subprocess.CompletedProcess[str]:
        port = listener.addresses["ready"].rpartition(":")[2]
        trust = ("--tls-ca", str(tmp_path / "ca.pem"), "--token-file", str(tmp_path / f"{token}.token"))
        return tool("send", str(tmp_path / "lines"), "--to", f"localhost:{port}", "--timeout", "20", *trust)

    try:
        listener.start()
        assert "is lost with it" in (tmp_path / "listener.log").read_text()
        assert send("source").returncode == 0
        refused = send("reader")
        assert (refused.returncode, "no append right on volume clicks" in refused.stderr) == (10, True), refused.stderr
        metrics = scraped(tmp_path / "listener.log")
        assert "sos_connector_messages_total 2.0" in metrics
        assert "sos_connector_next_sequence 2.0" in metrics
        assert 'sos_connector_waiting{for="a first reader' in metrics
        assert "sos_connector_commit_seconds_count" in metrics
        tokens.write_text(tokens.read_text().replace('rights = ["read"]', 'rights = ["append", "read"]'))
        assert listener._process is not None
        listener._process.send_signal(signal.SIGHUP)
        while send("reader").returncode:  # until it has read the tokens
            time.sleep(0.5)
        listener.end()
        listener.start()
        assert send("source").returncode == 0
        port = listener.addresses["files"].rpartition(":")[2]
        trust = ("--tls-ca", str(tmp_path / "ca.pem"), "--token-file", str(tmp_path / "reader.token"))
        found = status("--service", f"localhost:{port}", *trust)
        assert found["next_sequence"] == 2
    finally:
        listener.end(signal.SIGTERM)


def scraped(log: Path) -> str:
    """What the listener gives Prometheus, at the address in its log."""
    (address,) = [json.loads(line)["address"] for line in log.read_text().splitlines() if '"event": "metrics"' in line]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=600) as answer:
        text: str = answer.read().decode()
    return text
