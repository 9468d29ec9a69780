"""A source connector: a thousand readings of a thermometer. Run it again, kill it in the middle: each is there once."""

import sys

import trio

from connectors import open_source


async def main(listener: str) -> None:
    async with open_source(listener, program="thermometer") as source:
        stream = await source.open_stream(17, "celsius")
        for n in range((stream.point_of_reference or 0) + 1, 1001):  # go on after what is there
            await stream.send(n, b"%d degrees" % (n % 40))
        await stream.aclose()  # returns when all of it is durable
        print(f"durable up to message {stream.point_of_reference}")


trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7431")
