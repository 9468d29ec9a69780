"""Listeners with ingest volumes on one SOS server, as processes, and messages that are sent to them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.connectors.test_listen_process import Process, where
from tests.connectors.wallaroo_source import SourceStream, WallarooSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def listeners(folder: Path, *volumes: str, options: tuple[str, ...] = ()) -> Iterator[list[Process]]:
    """One for each volume; they come back where they were."""
    with ExitStack() as stack:
        server = Process("server", folder, "sos_server", "serve", "--root", str(folder / "server"))
        server._command += ["--listen", "127.0.0.1:0"]
        stack.callback(server.end)
        server.start()
        started = []
        for volume in volumes:
            command = ["connectors", "listen", "--volume", volume, "--servers", server.addresses["ready"], "--create"]
            listener = Process(f"listen-{volume}", folder, *command, "--dir", str(folder / f"cache-{volume}"), *options)
            listener._command += ["--files", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
            stack.callback(listener.end)
            listener.start()
            listener._command[-3] = listener.addresses["files"]
            listener._command[-1] = listener.addresses["ready"]
            started.append(listener)
        yield started


def send(listener: Process, payloads: dict[int, list[bytes]], *, at_once: int = 1000) -> None:
    """Messages n of stream s, `stream-s`, for each; returns when all are durable. What is there is passed over."""
    streams = [SourceStream(number, b"stream-%d" % number, list(said)) for number, said in payloads.items()]
    source = WallarooSource(where(listener), streams)
    source.connect()
    while not source.done:
        source.take()
        source.send_some(at_once)
    source.close()
