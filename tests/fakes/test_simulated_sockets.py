"""Simulated sockets keep what real ones promise to plain streams and pollers: each check runs on both."""

from __future__ import annotations

import random
import select
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise

import pytest
import trio
import trio.testing

from sos_client.net import poller
from sos_client.net.plain_stream import PlainStream
from sos_client.net.poller import Poller
from tests.fakes.simulated_network import SimulatedNetwork
from tests.fakes.simulated_sockets import kernel, plain_stream, simulated_sockets

Pair = Callable[[], Awaitable[tuple[PlainStream, PlainStream]]]
Check = Callable[[Pair], Awaitable[None]]
CHECKS: list[Check] = []
LARGE = random.Random(1).randbytes(2_000_000)


def check(on_both: Check) -> Check:
    CHECKS.append(on_both)
    return on_both


async def real_pair() -> tuple[PlainStream, PlainStream]:
    here, there = socket.socketpair()
    return PlainStream(here), PlainStream(there)


@pytest.mark.parametrize("on_both", CHECKS, ids=lambda one: one.__name__)
def test_real(on_both: Check) -> None:
    trio.run(on_both, real_pair)


def run_simulated(on_both: Check, seed: int) -> None:
    random.seed(f"sockets {seed}")
    network = SimulatedNetwork(random.Random(seed))
    listener = network.listen("server:1")

    async def pair() -> tuple[PlainStream, PlainStream]:
        client = await network.dial("server:1", source="client")
        return plain_stream(client), plain_stream(await listener.accept())

    with simulated_sockets():
        trio.run(on_both, pair, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("on_both", CHECKS, ids=lambda one: one.__name__)
def test_simulated(on_both: Check) -> None:
    for seed in range(20):
        run_simulated(on_both, seed)


def test_sends_and_receives_are_of_any_length_and_what_is_ready_comes_in_any_order() -> None:
    lengths: Counter[int] = Counter()
    orders: set[tuple[int, ...]] = set()

    async def look(pair: Pair) -> None:
        here, there = await pair()
        for _ in range(50):
            lengths[here.send_now(bytes(21))] += 1
        epoll = vars(poller)["select"].epoll()
        readers = [(await pair())[::-1] for _ in range(3)]
        for reader, writer in readers:
            epoll.register(reader.socket.fileno(), select.EPOLLIN)
            await writer.send_all(b"x")
            await trio.lowlevel.wait_readable(reader.socket)
        orders.add(tuple(handle for handle, _ in epoll.poll(0, 2)))
        there.close()

    for seed in range(200):
        run_simulated(look, seed)
    assert lengths[21] > lengths.total() / 2
    assert len(lengths) > 10
    assert {len(order) for order in orders} == {1, 2}
    assert len(orders) == 3 + 6


async def received(stream: PlainStream, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (view := await stream.receive_view(100_000)):
        got += view
    return bytes(got)


async def send_for_ever(stream: PlainStream) -> None:
    while True:
        await stream.send_all(LARGE)


@check
async def check_bytes_arrive_in_order_both_ways(pair: Pair) -> None:
    here, there = await pair()
    got: dict[str, bytes] = {}

    async def receive(name: str, stream: PlainStream) -> None:
        got[name] = await received(stream, len(LARGE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.send_all, LARGE)
        nursery.start_soon(receive, "there", there)
        nursery.start_soon(there.send_parts, LARGE[:10], LARGE[10:])
        nursery.start_soon(receive, "here", here)
    assert got["here"] == got["there"] == LARGE
    assert here.bytes_moved == there.bytes_moved == 2 * len(LARGE)


@check
async def check_nothing_is_not_the_end(pair: Pair) -> None:
    here, there = await pair()
    assert there.receive_now() is None
    await here.send_all(b"word")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.finish)
        assert await received(there, 4) == b"word"
        assert bytes(await there.receive_view()) == b""
        await there.send_all(b"answer")
        await there.finish()
    with pytest.raises(trio.ClosedResourceError):
        there.receive_now()
    with pytest.raises(trio.ClosedResourceError):
        here.send_now(b"more")


@check
async def check_a_peer_that_closes_with_something_unread_resets(pair: Pair) -> None:
    here, there = await pair()
    await here.send_all(b"unread")
    await trio.lowlevel.wait_readable(there.socket)
    there.close()
    with pytest.raises(trio.BrokenResourceError):
        await send_for_ever(here)


@check
async def check_a_full_buffer_takes_nothing_until_there_is_room(pair: Pair) -> None:
    here, there = await pair()
    sent = 0
    with trio.move_on_after(0.1):
        while True:
            await here.wait_send_all_might_not_block()
            sent += here.send_now(LARGE[sent : sent + 50_000])
    assert 0 < sent < len(LARGE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.wait_send_all_might_not_block)
        assert await received(there, sent) == LARGE[:sent]


@check
async def check_closing_wakes_whoever_waits(pair: Pair) -> None:
    here, there = await pair()

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await here.receive_view()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await here.receive_view()
        here.close()
    there.close()


@check
async def check_a_poller_calls_as_long_as_something_is_unread(pair: Pair) -> None:
    here, there = await pair()
    serving, got, calls = Poller(), bytearray(), 0
    all_came, over = trio.Event(), trio.Event()

    def on_readable() -> None:
        nonlocal calls
        calls += 1
        with suppress(trio.BrokenResourceError):
            view = there.receive_now(1)
            if view is None:
                return
            got.extend(view)
            if len(got) == 4:
                all_came.set()
            if view:
                return
        serving.unregister(there.socket.fileno())
        over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serving.run)
        serving.register(there.socket.fileno(), on_readable)
        await here.send_all(b"some")
        await all_came.wait()
        here.close()
        await over.wait()
        before = calls
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert before == calls >= 5
        nursery.cancel_scope.cancel()
    there.close()


@check
async def check_an_epoll_forgets_what_is_closed_and_its_handle_is_used_again(pair: Pair) -> None:
    epoll = vars(poller)["select"].epoll()
    here, there = await pair()
    handle = there.socket.fileno()
    epoll.register(handle, select.EPOLLIN)
    with pytest.raises(FileExistsError):
        epoll.register(handle, select.EPOLLIN)
    there.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        epoll.unregister(handle)
    others = [await pair() for _ in range(2)]
    reader, writer = next(
        (one, other) for pair_of in others for one, other in (pair_of, pair_of[::-1]) if one.socket.fileno() == handle
    )
    await writer.send_all(b"x")
    await trio.lowlevel.wait_readable(reader.socket)
    assert epoll.poll(0, 9) == []
    with pytest.raises(FileNotFoundError):
        epoll.unregister(handle)
    epoll.register(handle, select.EPOLLIN)
    assert [ready for ready, _ in epoll.poll(0, 9)] == [handle]
    epoll.close()
    assert epoll.closed
    for stream in (here, reader, writer):
        stream.close()


def test_a_poller_is_awake_for_a_while_and_asleep_for_a_while() -> None:
    """By a clock that the seed draws: neither way to wait is left out."""

    async def look(_: Pair) -> None:
        steps = [kernel().look_at_clock() for _ in range(2000)]
        lengths = {round(after - before, 6) for before, after in pairwise(steps)}
        assert min(lengths) < poller.AWAKE_SECONDS < poller.BRIEF_ROUND_SECONDS < max(lengths)

    run_simulated(look, 1)
