"""`sos-connector listen` as a process: killed under load, again and again, nothing is lost, doubled or out of order."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.connectors.wallaroo_source import CutOffError, SourceStream, WallarooSource, stored_rows
from tests.json_contract.contract import hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

START_SECONDS = 600.0
SOAK_SECONDS = float(os.environ.get("SOS_SOAK_SECONDS", "3600"))
STALLED_SECONDS = 100.0  # nothing is acknowledged: more than any takeover takes on a busy machine


class Process:
    """Something that prints where it serves. `kill` and `start` as often as needed."""

    def __init__(self, name: str, directory: Path, *command: str) -> None:
        self.name = name
        self.addresses: dict[str, str] = {}
        self._log = directory / f"{name}.log"
        self._command = [sys.executable, "-m", *command]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        while "ready" not in self.addresses:
            line = self._process.stdout.readline()
            assert line, f"{self.name} ended: {self._log.read_text()[-2000:]}"
            kind, address = line.split()
            self.addresses[kind] = address

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
            self.addresses.clear()


@contextmanager
def running(tmp_path: Path) -> Iterator[tuple[list[Process], Process]]:
    """Three servers with an ingest volume, and a listener."""
    with ExitStack() as stack:
        servers = []
        for number in range(3):
            root = str(tmp_path / f"server-{number}")
            server = Process(f"server-{number}", tmp_path, "sos_server", "serve", "--root", root)
            server._command += ["--listen", "127.0.0.1:0"]
            stack.callback(server.end)
            server.start()
            server._command[-1] = server.addresses["ready"]  # the members' addresses stay
            servers.append(server)
        addresses = ",".join(server.addresses["ready"] for server in servers)
        listener = Process("listener", tmp_path, "connectors", "listen", "--volume", "clicks", "--servers", addresses)
        listener._command += ["--dir", str(tmp_path / "cache"), "--create", "--listen", "127.0.0.1:0"]
        stack.callback(listener.end)
        listener.start()
        listener._command[-1] = listener.addresses["ready"]
        yield servers, listener


def where(process: Process) -> tuple[str, int]:
    host, _, port = process.addresses["ready"].rpartition(":")
    return host, int(port)


def stored(listener: Process) -> list[tuple[int, int, int, bytes]]:
    """What the volume has, through the files of the listener."""

    def journal(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "journal", *arguments, "--service", listener.addresses["files"]]
        return subprocess.run(command, check=True, capture_output=True, timeout=600).stdout

    listing = journal("ls", "sos://clicks/ingest/log", "--json")
    paths = sorted(json.loads(line)["path"] for line in listing.splitlines())
    return stored_rows(b"".join(journal("cat", f"sos://clicks/{path}") for path in paths))


def play(
    processes: list[Process], listener: Process, *, kills: int, seed: int, quiet: Callable[[], None] = lambda: None
) -> None:
    """Send while they are killed in turn; then everything is there once, per stream in order.

    `quiet` sees to it that nobody else sends while that is looked at.
    """
    chance = random.Random(seed)
    ids = range(4 * seed, 4 * seed + 4)
    streams = [SourceStream(n, b"stream-%d" % n, [b"%d-%d" % (n, m) for m in range(500 * kills)]) for n in ids]
    source = WallarooSource(where(listener), streams)
    killed, next_kill, seen, seen_at = 0, 0.0, 0, time.monotonic()
    connected = False
    while not source.done:
        acknowledged = sum(stream.acknowledged for stream in streams)
        if acknowledged != seen:
            seen, seen_at = acknowledged, time.monotonic()
        assert time.monotonic() < seen_at + STALLED_SECONDS, [stream.acknowledged for stream in streams]
        try:
            if not connected:
                source.connect()
                connected = True
                next_kill = time.monotonic() + chance.random() * 0.5
            source.send_some(chance.choice((5, 20, 200)))
            source.take()
        except (CutOffError, OSError):
            connected = False
            time.sleep(0.1)
        if connected and killed < kills and time.monotonic() > next_kill:
            victim = chance.choice(processes)
            victim.end()
            victim.start()
            killed, next_kill = killed + 1, time.monotonic() + chance.random() * 0.5
    source.close()
    quiet()
    rows = stored(listener)
    assert [row[0] for row in rows] == list(range(len(rows)))
    for stream in streams:
        assert [row[3] for row in rows if row[1] == stream.stream_id] == stream.payloads
        assert [row[2] for row in rows if row[1] == stream.stream_id] == list(range(len(stream.payloads)))


def test_a_listener_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as (servers, listener):
        play([listener, *servers], listener, kills=4, seed=1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_ends_in_order_gives_the_volume_back(tmp_path: Path, number: signal.Signals) -> None:
    """Nobody is connected, so serving ends at once; a standby is told even so, and need not wait for silence."""
    with running(tmp_path) as (_, listener):
        listener.end(number)
    assert '"event": "volume given back"' in (tmp_path / "listener.log").read_text()


@pytest.mark.slow
def test_many_kills(tmp_path: Path) -> None:
    with running(tmp_path) as (servers, listener):
        play([listener, *servers], listener, kills=12, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 1800)
def test_an_hour_of_kills(tmp_path: Path) -> None:
    """Several hundred kills of a listener and its servers, each round with streams of its own on the same volume."""
    with running(tmp_path) as (servers, listener):
        end, seed = time.monotonic() + SOAK_SECONDS, 10
        while time.monotonic() < end:
            play([listener, *servers], listener, kills=10, seed=seed)
            seed += 1


@pytest.mark.slow
def test_the_machine_is_lost(tmp_path: Path) -> None:
    """Killed, and its directory gone: one that stood by elsewhere goes on with nothing but the servers."""
    with running(tmp_path) as (_, listener):
        other = Process("other", tmp_path, *listener._command[2:])
        other._command[other._command.index("--dir") + 1] = str(tmp_path / "another-machine")
        other._command[-1] = "127.0.0.1:0"
        other._command.append("--standby")
        stream = SourceStream(1, b"s", [b"%d" % n for n in range(2000)])
        source = WallarooSource(where(listener), [stream])
        source.connect()
        while stream.acknowledged < 500:
            source.send_some(50)
            source.take()
        try:
            other.start()
            listener.end()
            shutil.rmtree(tmp_path / "cache")
            source._address = where(other)
            since = time.monotonic()
            while not source.done:
                assert time.monotonic() < since + STALLED_SECONDS
                try:
                    if not stream.open:
                        source.connect()
                    source.send_some(50)
                    source.take()
                except (CutOffError, OSError):
                    stream.open = False
                    time.sleep(0.1)
            assert [(row[0], row[3]) for row in stored(other)] == list(enumerate(stream.payloads))
        finally:
            other.end()


def test_it_ends_in_order_and_says_what_is_wrong(tmp_path: Path) -> None:
    with running(tmp_path) as (_, listener):
        source = WallarooSource(where(listener), [SourceStream(1, b"s", [b"x"])])
        source.connect()
        while not source.done:
            source.send_some(1)
            source.take()
        listener.end(signal.SIGTERM)
        with pytest.raises(CutOffError, match="closed"):  # RESTART would end a client of Wallaroo's
            source.take()
    command = [sys.executable, "-m", "connectors", "listen", "--volume", "v", "--dir", str(tmp_path / "x")]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert said.returncode == 2
    assert "--servers" in said.stderr
    command += ["--servers", "127.0.0.1:1", "--listen", "0.0.0.0:0", "--tokens", str(tmp_path / "tokens")]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert said.returncode == 2
    assert "TLS is not set up" in said.stderr


def test_files_are_sent_and_sent_on(tmp_path: Path) -> None:
    with running(tmp_path) as (_, listener):

        def send(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
            command = [sys.executable, "-m", "connectors", "send", *arguments, "--to", listener.addresses["ready"]]
            return subprocess.run(command, check=False, capture_output=True, timeout=600, input=given)

        file = tmp_path / "lines"
        file.write_bytes(b"one\ntwo\n")
        said = send(str(file), "--json")
        assert json.loads(said.stdout)["bytes"] == 8, said.stderr
        hold("sos-connector", "send", json.loads(said.stdout))
        with file.open("ab") as more:
            more.write(b"three\n")
        assert b"14 bytes" in send(str(file)).stdout
        for given in (b"a\nb\n", b"a\nb\nc"):
            assert send("-", "--name", "typed", given=given).returncode == 0
        assert [row[3] for row in stored(listener)] == [b"one", b"two", b"three", b"a", b"b", b"c"]
        refused = send(str(file), "--cookie", "wrong")
        assert (refused.returncode, b"cookie" in refused.stderr) == (10, True), refused
        assert b"2 lines were there already" in send("-", "--name", "typed", given=b"a\nb\n").stderr
        assert send("-", given=b"again\n").returncode == send("-", given=b"again\n").returncode == 0
        file.write_bytes(b"one\n")
        other = tmp_path / "other"
        other.write_bytes(b"four\n")
        both = send(str(file), str(other))
        assert (both.returncode, b"cut short" in both.stderr, b"5 bytes" in both.stdout) == (2, True, True), both
        assert send(str(file), "--name", "anew").returncode == 0
        assert [row[3] for row in stored(listener)][6:] == [b"again", b"again", b"four", b"one"]
