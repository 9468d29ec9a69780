"""A producer with a steady rate: each message says when it was sent.

python -m tests.benchmarks.latency_source LISTENER MESSAGES_A_SECOND SECONDS
"""

from __future__ import annotations

import sys
import time

import trio

from connectors import open_source

PAYLOAD = b"m" * 100


async def main(listener: str, rate: float, seconds: float) -> None:
    """Sends what is due, and never waits for what was sent before."""
    async with open_source(listener, program="latency") as source:
        stream = await source.open_stream(1, "latency")
        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            await trio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            await stream.send(number, PAYLOAD, event_time=time.time_ns())
        await stream.aclose()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
