"""One task that waits for many sockets at once: a nested epoll, itself waited for by trio.

A trio task that waits for its own socket costs two ``epoll_ctl`` calls, a task switch and a checkpoint for every
receive. Registered here, a socket costs one entry in the result of an ``epoll_wait`` (measured: 33 → 22 µs of main
thread time for a durable append with 64 clients). What is done with a readable socket is its owner's affair.

To be woken takes longer than the peer takes for its next request, where it waits for each answer. So when several waits
in a row were short, the next begins awake: with asking over and over, for a moment. It stops with the first that was in
vain, so a server with nothing to do, or with seldom something, sleeps (decision 0307).
"""

from __future__ import annotations

import select
from time import perf_counter
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    OnReadable = Callable[[], None]

EVENTS_MAX: Final = 256
"""This many sockets are served before the other tasks get their turn."""
AWAKE_SECONDS: Final = 70e-6
"""A wait is short up to here, and this is how long one is begun awake."""
SHORT_WAITS_BEFORE: Final = 8
"""After this many short waits in a row the poller stays awake; before, somebody else may need the processor."""
BRIEF_ROUND_SECONDS: Final = 200e-6
"""To be woken is worth avoiding only where serving takes no longer than this, measured by the last round."""
OTHERS_WAIT_SECONDS: Final = 0.5e-3
"""The other tasks get their turn after this time at the latest, or a round."""


class Poller:
    """Calls back, on the event loop, whenever a registered socket is readable, closed or broken.

    A callback may register and unregister sockets, its own included. It must not raise: an exception ends the poller
    and with it the server. Sockets are unregistered before they are closed. `before_round` and `after_round` are called
    around the callbacks of each round, for what is better done once for all of them.
    """

    def __init__(
        self, before_round: Callable[[], None] | None = None, after_round: Callable[[], None] | None = None
    ) -> None:
        self._before_round = before_round or _nothing
        self._after_round = after_round or _nothing
        self._epoll = select.epoll()
        self._callbacks: dict[int, OnReadable] = {}
        self._round_began = 0.0
        self._short_waits = 0
        self._others_turn = 0.0

    def register(self, handle: int, on_readable: OnReadable) -> None:
        self._epoll.register(handle, select.EPOLLIN)
        self._callbacks[handle] = on_readable

    def unregister(self, handle: int) -> None:
        del self._callbacks[handle]
        if not self._epoll.closed:
            self._epoll.unregister(handle)

    async def run(self) -> None:
        """Serve the registered sockets until cancelled."""
        try:
            while True:
                events = await self._events()
                self._round_began = perf_counter()
                self._before_round()
                for handle, _ in events:
                    callback = self._callbacks.get(handle)
                    if callback is not None:  # an earlier callback of this round may have unregistered it
                        callback()
                self._after_round()
        finally:
            self._epoll.close()

    async def _events(self) -> list[tuple[int, int]]:
        """The sockets that are readable, as soon as there is one."""
        began = perf_counter()
        if began - self._round_began > BRIEF_ROUND_SECONDS:
            self._short_waits = 0
        if self._short_waits >= SHORT_WAITS_BEFORE:
            if began > self._others_turn:
                await trio.lowlevel.checkpoint()
                self._others_turn = perf_counter() + OTHERS_WAIT_SECONDS
            while perf_counter() < began + AWAKE_SECONDS:
                if events := self._epoll.poll(0, EVENTS_MAX):
                    return events
        await trio.lowlevel.wait_readable(self._epoll.fileno())
        waited_seconds = perf_counter() - began
        self._short_waits = self._short_waits + 1 if waited_seconds < AWAKE_SECONDS else 0
        return self._epoll.poll(0, EVENTS_MAX)


def _nothing() -> None:
    pass
