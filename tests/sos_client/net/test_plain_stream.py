"""The stream over a plain socket: parts that go out together arrive as one run of bytes, however slow the peer is."""

from __future__ import annotations

import os
import socket

import pytest
import trio

from sos_client.net.plain_stream import PlainStream


def pair() -> tuple[PlainStream, PlainStream]:
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return PlainStream(one), PlainStream(other)


@pytest.mark.parametrize("sizes", [(17, 1 << 20, 11), (1 << 20, 5, 1 << 18), (3, 4, 5), (0, 9, 0)])
async def test_parts_arrive_in_order_and_whole(sizes: tuple[int, ...]) -> None:
    parts = [os.urandom(size) for size in sizes]
    sender, receiver = pair()
    got = bytearray()

    async def take() -> None:
        while len(got) < sum(sizes):
            got.extend(await receiver.receive_some(60_000))

    async with sender, receiver:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                await sender.send_parts(*parts)
    assert bytes(got) == b"".join(parts)
    assert sender.bytes_moved == sum(sizes)


async def test_parts_to_a_peer_that_is_gone_raise() -> None:
    sender, receiver = pair()
    receiver.close()
    with pytest.raises(trio.BrokenResourceError):
        await sender.send_parts(b"one", b"two")
    sender.close()
    with pytest.raises(trio.ClosedResourceError):
        await sender.send_parts(b"one")
