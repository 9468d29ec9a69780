"""The poller: many sockets in one task, which stays awake between brief requests, and lets others have their turns."""

from __future__ import annotations

import functools
import socket
import time

import pytest
import trio
import trio.testing

from sos_client.net.poller import BRIEF_ROUND_SECONDS, Poller

REQUESTS = 200


async def test_the_poller_serves_many_and_lets_them_leave() -> None:
    pairs = [socket.socketpair() for _ in range(20)]
    seen: list[int] = []
    poller = Poller()

    def on_readable(number: int) -> None:
        right = pairs[number][1]
        seen.append(number)
        if not right.recv(1):
            poller.unregister(right.fileno())
            right.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poller.run)
        for number, (_, right) in enumerate(pairs):
            poller.register(right.fileno(), functools.partial(on_readable, number))
        for left, _ in pairs:
            left.send(b"x")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert sorted(seen) == list(range(20))
        seen.clear()
        pairs[3][0].close()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert seen == [3]
        nursery.cancel_scope.cancel()
    for pair in pairs:
        for end in pair:
            end.close()


class Waits:
    """How often the poller gave the processor away to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        wait = trio.lowlevel.wait_readable

        async def counted(handle: int) -> None:
            self.count += 1
            await wait(handle)

        monkeypatch.setattr(trio.lowlevel, "wait_readable", counted)


async def test_it_stays_awake_while_requests_are_brief_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that its own callback makes readable again stands for the client: no thread has to be woken.

    Others have their turns meanwhile.
    """
    waits = Waits(monkeypatch)
    poller = Poller()
    left, right = socket.socketpair()
    served = turns = 0

    def on_readable() -> None:
        nonlocal served
        right.recv(1)
        served += 1
        left.send(b"x")

    with left, right:
        poller.register(right.fileno(), on_readable)
        left.send(b"x")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.run)
            with trio.fail_after(60):
                while served < 5000 or turns <= 100:
                    await trio.lowlevel.checkpoint()
                    turns += 1
            nursery.cancel_scope.cancel()
    assert waits.count < served / 2


@pytest.mark.parametrize(
    ("thinking_seconds", "work_seconds"), [(0.002, 0.0), (0.0, 2 * BRIEF_ROUND_SECONDS)], ids=["slow client", "work"]
)
async def test_it_sleeps_where_waking_up_matters_little(
    thinking_seconds: float, work_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(monkeypatch)
    poller = Poller()
    theirs, ours = socket.socketpair()

    def on_readable() -> None:
        ours.recv(1)
        until = time.perf_counter() + work_seconds
        while time.perf_counter() < until:
            pass
        ours.send(b"y")

    def ask() -> None:
        for _ in range(REQUESTS):
            time.sleep(thinking_seconds)
            theirs.send(b"x")
            theirs.recv(1)

    with theirs, ours:
        poller.register(ours.fileno(), on_readable)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.run)
            await trio.to_thread.run_sync(ask)
            nursery.cancel_scope.cancel()
    assert waits.count >= REQUESTS
