"""Opening and closing a volume behind a service, whoever does it."""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio

from journal.gateway.client.client import open_volume


async def test_one_task_may_close_what_another_has_opened() -> None:
    """As a relay does, whose queries open volumes that it closes at its end."""
    stack = AsyncExitStack()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stack.enter_async_context, open_volume(["127.0.0.1:1"], "payments"))
    await stack.aclose()
