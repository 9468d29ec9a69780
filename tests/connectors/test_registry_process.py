"""Two listeners of one source as processes, killed in turn: each message is in one of their volumes, once, in order."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.connectors.test_listen_process import STALLED_SECONDS, Process, where
from tests.connectors.wallaroo_source import CutOffError, SourceStream, WallarooSource, stored_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MESSAGES = 8000
KILLS = 4


def rows_of(listener: Process) -> list[tuple[int, int, int, bytes]]:
    """All that its volume has."""

    def journal(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "journal", *arguments, "--service", listener.addresses["files"]]
        return subprocess.run(command, check=True, capture_output=True, timeout=600).stdout

    listing = journal("ls", f"sos://{listener.name}/ingest/log", "--json")
    paths = sorted(json.loads(line)["path"] for line in listing.splitlines())
    return stored_rows(b"".join(journal("cat", f"sos://{listener.name}/{path}") for path in paths))


@contextmanager
def two_listeners(tmp_path: Path) -> Iterator[tuple[Process, list[Process]]]:
    """The service of the registry, and two listeners, on one server."""
    with ExitStack() as stack:

        def started(name: str, *command: str) -> Process:
            process = Process(name, tmp_path, *command)
            stack.callback(process.end)
            process.start()
            return process

        root = str(tmp_path / "server")
        server = started("server", "sos_server", "serve", "--root", root, "--listen", "127.0.0.1:0")
        kept = ("--servers", server.addresses["ready"], "--create", "--dir")
        served = ("--volume", "registry", *kept, str(tmp_path), "--listen", "127.0.0.1:0")
        registry = started("registry", "journal", "serve", *served)
        registry._command[-1] = registry.addresses["ready"]
        listeners = []
        for name in ("one", "two"):
            options = ("--volume", name, *kept, str(tmp_path / name), "--registry", f"registry@{registry._command[-1]}")
            listener = started(name, "connectors", "listen", *options, "--listen", "127.0.0.1:0")
            listener._command[-1] = listener.addresses["ready"]
            listeners.append(listener)
        yield registry, listeners


class Wanderer:
    """A source that connects to any of the listeners, and is cut off now and then."""

    def __init__(self, listeners: list[Process], streams: list[SourceStream], chance: random.Random) -> None:
        self.source = WallarooSource(where(listeners[0]), streams)
        self._listeners = list(listeners)
        self._chance = chance
        self._connected = False

    def step(self) -> None:
        try:
            if self.source.done:
                self.cut()
                return
            if not self._connected:
                self._listeners.reverse()  # the other one now
                self.source._address = where(self._listeners[0])
                self.source.connect(timeout=5.0)
                self._connected = True
            self.source.send_some(self._chance.choice((5, 20)))
            self.source.take()
        except (CutOffError, OSError):
            self._connected = False
            time.sleep(0.05)

    def cut(self) -> None:
        self.source.close()
        self._connected = False


@pytest.mark.slow
def test_streams_wander_between_two_listeners(tmp_path: Path) -> None:
    chance = random.Random(3)
    streams = [SourceStream(n, b"s%d" % n, [b"%d-%d" % (n, m) for m in range(MESSAGES)]) for n in range(4)]
    with two_listeners(tmp_path) as (registry, listeners):
        wanderers = [Wanderer(listeners, streams[2 * n : 2 * n + 2], chance) for n in range(2)]
        killed, seen, seen_at = 0, -1, time.monotonic()
        next_event = time.monotonic() + 0.3
        while not all(wanderer.source.done for wanderer in wanderers):
            acknowledged = sum(stream.acknowledged for stream in streams)
            if acknowledged != seen:
                seen, seen_at = acknowledged, time.monotonic()
            assert time.monotonic() < seen_at + STALLED_SECONDS, [stream.acknowledged for stream in streams]
            for wanderer in wanderers:
                wanderer.step()
            if time.monotonic() > next_event:
                next_event = time.monotonic() + 0.2 + chance.random() / 2
                if killed < KILLS:
                    victim = chance.choice([*listeners, registry])
                    victim.end()
                    victim.start()
                    killed += 1
                chance.choice(wanderers).cut()
        found = [rows_of(listener) for listener in listeners]
    assert {row[1] for row in found[0]} & {row[1] for row in found[1]}  # they wandered
    for stream in streams:
        of_stream = sorted((row[2], row[3]) for rows in found for row in rows if row[1] == stream.stream_id)
        assert [payload for _, payload in of_stream] == stream.payloads
