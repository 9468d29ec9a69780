"""What frames that never come whole may take, with any token."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import trio.testing

from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.limits import FRAME_BYTES_MAX, REQUEST_BYTES_MAX
from sos_server.service.held_frames import HeldFrames
from tests.fakes.scripted_client import append, data
from tests.sos_server.conversations import scene

if TYPE_CHECKING:
    from collections.abc import Callable

each_carrier = pytest.mark.parametrize("carrier", ["memory", "socket"])


def test_the_frame_that_has_been_coming_for_longest_is_given_up() -> None:
    given_up: list[tuple[str, ErrorCode]] = []

    def one(name: str) -> Callable[[RefusedError], None]:
        return lambda refusal: given_up.append((name, refusal.code))

    held = HeldFrames(100)
    first, second, third = one("1"), one("2"), one("3")
    held.hold(first, 40)
    held.hold(second, 40)
    held.hold(first, 10)  # another frame, which began after that of the second
    held.hold(third, 40)
    assert not given_up
    held.hold(third, 60)
    assert given_up == [("2", ErrorCode.LIMIT)]
    held.hold(third, 0)
    held.hold(first, 0)
    assert held.held_bytes == 0
    held.hold(first, 101)
    assert given_up == [("2", ErrorCode.LIMIT), ("1", ErrorCode.LIMIT)]
    assert held.held_bytes == 0


@each_carrier
async def test_a_large_frame_is_refused_by_its_header_outside_an_append(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        client = await here.entered()
        await client.stream.send_all(struct.pack(">IB", REQUEST_BYTES_MAX + 1, m.MessageType.STAT))
        await client.ends_with(ErrorCode.PROTOCOL)


@each_carrier
@pytest.mark.parametrize("refused", [False, True])
async def test_unfinished_frames_share_a_budget(carrier: str, *, refused: bool) -> None:
    async with scene(carrier=carrier) as here:
        here.service.held_frames = held = HeldFrames(250_000)
        clients = []
        for number in range(3):
            client = await here.entered()
            await client.send(append(f"log-{number}", 7 if refused else 0))
            await client.receive()
            clients.append(client)
            await client.stream.send_all(struct.pack(">IB", FRAME_BYTES_MAX, m.MessageType.DATA) + bytes(99_995))
            await trio.testing.wait_all_tasks_blocked(0.01)
        await clients[0].ends_with(ErrorCode.LIMIT)
        assert held.held_bytes == 200_000
        for client in clients[1:]:
            await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert held.held_bytes == 0
        assert not here.service.sessions


async def test_a_client_that_sends_large_frames_holds_nothing_afterwards() -> None:
    async with scene(carrier="socket") as here:
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        for number in range(20):
            await client.send(data(number * 300_000, bytes(300_000)))
            await client.acknowledged(300_000 * (number + 1))
        assert here.service.held_frames.held_bytes == 0


def test_the_refusal_says_what_there_is_not_enough_of() -> None:
    told: list[RefusedError] = []
    HeldFrames(1).hold(told.append, 2)
    assert "memory for frames" in told[0].message
