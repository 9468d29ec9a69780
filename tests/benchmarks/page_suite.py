"""What pages that are open cost those who write: one service, with nobody looking and with two hundred, in turns."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.benchmarks import ours
from tests.benchmarks.journal_suite import CLIENTS
from tests.benchmarks.server_suite import loading
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.comparison import Reading, Report

PAGES: Final = 200
ROUNDS_AS_MANY: Final = 4
"""Rounds for each of the others': a difference of one per cent is to be seen, and syncs differ by more."""


def puts_beside_pages(report: Report, directory: Path, seconds: float) -> None:
    """Durable `put` of 4 KiB by 64 clients on three servers, the same ones beside 200 pages and beside none."""
    port = free_port()
    with ours.new_volume(directory, "--web", f"127.0.0.1:{port}", members=3) as service:
        puts = loading("file-put", service, clients=CLIENTS, depth=1, seconds=seconds)

        def beside_pages() -> Reading:
            with pages(port):
                return puts()

        puts()  # before it counts: what a service makes once
        report.compare(
            f"journal put 4 KiB, 3 servers, beside {PAGES} open pages",
            beside_pages,
            puts,
            peer_name="SOS, nobody looks",
            unit="1/s",
            goal=0.99,
            rounds=report.rounds * ROUNDS_AS_MANY,
        )


@contextmanager
def pages(port: int) -> Iterator[None]:
    """Pages that take what they are told, as browsers do; none of them may be let go."""
    waiting, stop = selectors.DefaultSelector(), threading.Event()
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(PAGES)]
    for page in opened:
        page.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        waiting.register(page, selectors.EVENT_READ)
    lost: list[socket.socket] = []

    def take() -> None:
        while not stop.is_set():
            for key, _ in waiting.select(timeout=0.1):
                page = key.fileobj
                assert isinstance(page, socket.socket)
                if not page.recv(1 << 16):
                    lost.append(page)
                    waiting.unregister(page)

    reader = threading.Thread(target=take)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()
        for page in opened:
            page.close()
        waiting.close()
    if lost:
        raise RuntimeError(f"{len(lost)} pages were let go")
