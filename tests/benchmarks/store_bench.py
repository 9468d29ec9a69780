"""Appends per second into the store itself, without network: what the server can never be faster than.

`python -m tests.benchmarks.store_bench [--seconds 2] [--profile] [--root DIR]` prints a line per case.
`test_store_bench.py` runs each for a moment, so that it cannot rot.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import functools
import os
import pstats
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from journal.disk.disk import open_disk
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import RefusedError
from sos_server.store.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.store.namespace import Appender, Namespace


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """`appenders` at once, each with up to `in_flight` appends not synced yet, over `objects` objects in turn."""

    name: str
    appenders: int
    in_flight: int
    payload_bytes: int = 4096
    objects: int = 0


CASES = (
    Case("1 appender", 1, 1),
    Case("8 appenders", 8, 1),
    Case("64 appenders", 64, 1),
    Case("1 appender, 64 in flight", 1, 64),
    Case("1 appender, 1 MiB pieces", 1, 8, 1 << 20),
    Case("64 appenders, 64 objects in turn", 64, 1, 4096, 64),
    Case("64 appenders, 10,000 objects in turn", 64, 1, 4096, 10_000),
)


class Load:
    """Appends until told to stop; counts what was synced."""

    def __init__(self, namespace: Namespace, case: Case) -> None:
        self._namespace = namespace
        self._case = case
        self._payload = os.urandom(case.payload_bytes)
        self._crc = crc32c(self._payload)
        self.synced_bytes = 0
        self.stopped = False

    async def append_to_one(self, name: str) -> None:
        """Append to one object for as long as the load lasts."""
        progress = trio.Event()

        def on_progress() -> None:
            progress.set()

        appender = await self._start(name, on_progress)
        window = self._case.in_flight * self._case.payload_bytes
        while not self.stopped:
            while appender.written - appender.synced + self._case.payload_bytes <= window and appender.has_room:
                appender.append(appender.written, self._crc, self._payload)
            before = appender.synced
            if appender.written > before:
                progress = trio.Event()
                await progress.wait()
            else:
                await appender.wait_room()
            self.synced_bytes += appender.synced - before
        await appender.end()

    async def append_in_turn(self, first: int) -> None:
        """One append to each of many objects, over and over, as clients with many objects do."""
        share = max(1, self._case.objects // self._case.appenders)
        turn = 0
        while not self.stopped:
            appender = await self._start(f"o{first + self._case.appenders * (turn % share)}", lambda: None)
            appender.append(appender.written, self._crc, self._payload)
            await appender.end()
            self.synced_bytes += self._case.payload_bytes
            turn += 1

    async def _start(self, name: str, on_progress: Callable[[], None]) -> Appender:
        try:
            held = self._namespace.stat(name).size
        except RefusedError:
            held = 0
        return await self._namespace.start_append(
            name,
            size=held,
            prefix_crc=None,
            claim=None,
            instance=bytes(16),
            on_progress=on_progress,
            on_evicted=_unexpected,
        )


def _unexpected(refusal: BaseException) -> None:
    raise AssertionError(refusal)


async def measure(root: Path, case: Case, seconds: float) -> float:
    """Synced appends per second of one case, on a fresh root."""
    async with open_disk(root, create=True) as disk:
        store = await ObjectStore.open(disk, wall_clock=time.time)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            load = Load(await store.namespace("bench", create=True), case)
            async with trio.open_nursery() as appenders:
                for number in range(case.appenders):
                    if case.objects:
                        appenders.start_soon(load.append_in_turn, number)
                    else:
                        appenders.start_soon(load.append_to_one, f"o{number}")
                await trio.sleep(seconds / 4)
                began, before = time.perf_counter(), load.synced_bytes
                await trio.sleep(seconds)
                rate = (load.synced_bytes - before) / (time.perf_counter() - began) / case.payload_bytes
                load.stopped = True
            nursery.cancel_scope.cancel()
        await store.close()
    return rate


def run_case(parent: str | None, case: Case, seconds: float) -> float:
    with tempfile.TemporaryDirectory(dir=parent, prefix="store-bench-") as root:
        rate = trio.run(functools.partial(measure, Path(root) / "root", case, seconds))
        shutil.rmtree(Path(root) / "root")
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--root", default=None, help="directory on the disk to measure")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    for case in CASES:
        if options.only not in case.name:
            continue
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        rates = [run_case(options.root, case, options.seconds) for _ in range(options.rounds)]
        if options.profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        rate = statistics.median(rates)
        print(f"{case.name:42} {rate:10,.0f} appends/s {rate * case.payload_bytes / 1e6:8,.0f} MB/s")


if __name__ == "__main__":
    main()
