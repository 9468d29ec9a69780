"""A producer with a steady rate: each message says when it was sent. It sends until its input ends.

python -m tests.benchmarks.latency_source LISTENER MESSAGES_A_SECOND
"""

from __future__ import annotations

import sys
import time
from itertools import count

import trio

from connectors import open_source

PAYLOAD = b"m" * 100


async def main(listener: str, rate: float) -> None:
    """Sends what is due, and never waits for what was sent before."""
    enough = trio.Event()
    async with trio.open_nursery() as nursery, open_source(listener, program="latency") as source:
        nursery.start_soon(_read_to_the_end, enough)
        stream = await source.open_stream(1, "latency")
        began = time.perf_counter()
        for number in count():
            if enough.is_set():
                break
            await trio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            await stream.send(number, PAYLOAD, event_time=time.time_ns())
        await stream.aclose()


async def _read_to_the_end(enough: trio.Event) -> None:
    await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
    enough.set()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], float(sys.argv[2]))
