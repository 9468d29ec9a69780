"""The verb bench: a load generator that is meant to be faster than any server, so raw frames and many in flight.

A connection is one task that keeps `in_flight` appends unsynced. Appends that go out together are timed together, so
the cost for each is that of its frame.
"""

from __future__ import annotations

import itertools
import secrets
import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
import trio

from sos_client.cli.connecting import Connecting, Place, connecting_options, place_argument
from sos_client.cli.reporting import report
from sos_client.command.output import json_option
from sos_client.command.parameters import Seconds
from sos_client.command.running import run_async
from sos_client.wire import messages as m
from sos_client.wire.errors import ProtocolError, RefusedError
from sos_client.wire.limits import DATA_BYTES_MAX, FRAME_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sos_client.link import Link

SEND_BYTES_MAX = FRAME_BYTES_MAX
"""What is joined into one send, so that large appends in great numbers do not fill the memory."""


@dataclass(slots=True)
class Tally:
    """Latencies of appends: seconds, and how many had them."""

    entries: list[tuple[float, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(count for _, count in self.entries)

    def at(self, *shares: float) -> list[float]:
        """The latencies below which these shares of all appends are, in ms; 0 when there were none."""
        entries = sorted(self.entries)
        behind = list(itertools.accumulate(count for _, count in entries))
        indexes = (bisect_left(behind, share * self.count) for share in shares)
        return [round(entries[index][0] * 1000, 3) if entries else 0.0 for index in indexes]


class Writer:
    """One connection that appends to an object of its own."""

    def __init__(self, link: Link, object: str, *, size: int, in_flight: int, tally: Tally) -> None:
        self.link = link
        self.object = object
        self._payload = secrets.token_bytes(size)
        self._in_flight = in_flight
        self._send_max = max(1, SEND_BYTES_MAX // size)
        self._tally = tally
        self._started: deque[tuple[float, int]] = deque()
        self._unsynced = 0
        self._using = m.Using(incarnation=bytes(16), epoch=0, holder=b"")

    async def begin(self, namespace: str) -> None:
        self._using = using = await self.link.ask(m.Use(namespace=namespace, create=True), m.Using)
        request = m.Append(object=self.object, size=0, prefix_crc=None, epoch=using.epoch, holder=using.holder)
        await self.link.ask(request, m.Appending)

    async def run(self, stop_at: float) -> None:
        """Append until then, and until everything is synced."""
        synced = 0
        while True:
            if time.perf_counter() < stop_at:
                await self._fill()
            if not self._unsynced:
                return
            message: m.Message | None = await self.link.receive()
            while message is not None:
                if not isinstance(message, m.Ack):
                    raise ProtocolError(f"{type(message).__name__} during an append")
                self._count((message.synced - synced) // len(self._payload))
                synced = message.synced - message.synced % len(self._payload)
                message = self.link.next_received()

    async def finish(self) -> bool:
        """End the append and remove the object. False when the server keeps it (retention, or no right to delete)."""
        await self.link.send(m.End())
        while not isinstance(ended := await self.link.receive(), m.Ended):
            pass
        epoch, holder = self._using.epoch, self._using.holder
        try:
            await self.link.ask(m.Seal(object=self.object, size=ended.size, epoch=epoch, holder=holder), m.Sealed)
            await self.link.ask(m.Delete(object=self.object, epoch=epoch, holder=holder), m.Deleted)
        except RefusedError:
            return False
        return True

    async def _fill(self) -> None:
        while (missing := min(self._in_flight - self._unsynced, self._send_max)) > 0:
            parts: list[bytes] = []
            for _ in range(missing):
                parts += (self.link.connection.send_data(self._payload), self._payload)
            self._started.append((time.perf_counter(), missing))
            self._unsynced += missing
            await self.link.send_bytes(b"".join(parts))

    def _count(self, synced: int) -> None:
        now = time.perf_counter()
        self._unsynced -= synced
        while synced:
            started, count = self._started.popleft()
            done = min(count, synced)
            self._tally.entries.append((now - started, done))
            if done < count:
                self._started.appendleft((started, count - done))
            synced -= done


@click.command("bench")
@place_argument("NAMESPACE")
@click.option(
    "--connections",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Each appends to an object of its own.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 1 << 20),
    default=64,
    show_default=True,
    help="Appends not yet synced, on each.",
)
@click.option(
    "--size", type=click.IntRange(1, DATA_BYTES_MAX), default=4096, show_default=True, help="Bytes of one append."
)
@click.option("--seconds", type=Seconds(min=0, min_open=True), default=5.0, show_default=True, help="How long.")
@connecting_options
@json_option
def bench(
    *,
    place: Place,
    connections: int,
    in_flight: int,
    size: int,
    seconds: float,
    connecting: Connecting,
    as_json: bool,
) -> None:
    """Measure durable appends: how many a second, and how long each takes until it is synced.

    The objects it makes are sealed and deleted afterwards, unless the server's retention keeps them.

    \b
    sos bench scratch --connections 16 --seconds 5
    """
    tally = Tally()

    async def run() -> tuple[float, int]:
        run_name = f"bench-{secrets.token_hex(4)}"
        async with connecting.open_links(connections) as links:
            writers = [
                Writer(link, f"{run_name}-{number}", size=size, in_flight=in_flight, tally=tally)
                for number, link in enumerate(links)
            ]
            await _each(writers, lambda writer: writer.begin(place.namespace))
            started = time.perf_counter()
            await _each(writers, lambda writer: writer.run(started + seconds))
            took = time.perf_counter() - started
            removed = 0
            for writer in writers:
                removed += await writer.finish()
            return took, len(writers) - removed

    took, left = run_async(run)
    p50, p90, p99, most = tally.at(0.5, 0.9, 0.99, 1)
    values = {
        "connections": connections,
        "in_flight": in_flight,
        "size": size,
        "seconds": round(took, 3),
        "appends": tally.count,
        "appends_per_second": round(tally.count / took, 1),
        "megabytes_per_second": round(tally.count * size / took / 1e6, 1),
        "latency_ms": {"p50": p50, "p90": p90, "p99": p99, "max": most},
        "objects_left": left,
    }
    text = (
        f"{values['appends_per_second']:,} appends/s of {size} bytes ({values['megabytes_per_second']:,} MB/s)"
        f" on {connections} connections, {in_flight} in flight on each\n"
        f"synced after {p50} ms (half), {p90} ms (90 %), {p99} ms (99 %), {most} ms (all)"
    )
    report(values, as_json=as_json, text=text + (f"\n{left} objects stay until they may be deleted" if left else ""))


async def _each(writers: Sequence[Writer], step: Callable[[Writer], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        for writer in writers:
            nursery.start_soon(step, writer)
