"""Sockets and their readiness as a kernel gives them, for the simulated network: plain streams and pollers run on them.

The seed decides how much a call moves, which sockets epoll names first, and when it names the others. As with a real
kernel a handle is the lowest number that is free, so it soon stands for another socket, and a socket that is closed
leaves every epoll silently. All simulated processes share the numbers, which no process can see.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import select
import socket
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast
from unittest import mock

import trio

from sos_client.net import poller
from sos_client.net.plain_stream import PlainStream
from tests.fakes.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from tests.fakes.simulated_connection import SimulatedStream

HANDLE_MIN: Final = 3
SHORT_SEND_RATE: Final = 0.02
"""How often a send takes less than it was given, since the peer is slow."""
CLOGGED_SECONDS_MAX: Final = 0.03
"""For so long at most it takes nothing more then."""
NOTHING_YET_RATE: Final = 0.01
"""How often what was said to be ready is not, as epoll(7) warns."""
SOME_ONLY_RATE: Final = 0.2
"""How often epoll names some of the sockets that are ready, as if the others had become so a moment later."""
STEP_SECONDS: Final = (10e-6, 30e-6, 0.3e-3)
"""From one look at the clock to the next. A poller stays awake while it is short (decision 0307)."""

_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)

Buffers = bytes | bytearray | memoryview


class Kernel:
    """What all sockets of one run share: handles, chance, the clock that pollers look at."""

    def __init__(self) -> None:
        self.chance = random.Random(random.random())  # of the seed, where there is one
        self._open: dict[int, SimulatedSocket | SimulatedEpoll] = {}
        self._elapsed_seconds = 0.0
        self._step_seconds = STEP_SECONDS[0]
        self._looks_left = 1

    def open(self, what: SimulatedSocket | SimulatedEpoll) -> int:
        handle = HANDLE_MIN
        while handle in self._open:
            handle += 1
        self._open[handle] = what
        return handle

    def close(self, handle: int) -> None:
        del self._open[handle]

    def opened(self, handle: int) -> SimulatedSocket | SimulatedEpoll:
        if handle not in self._open:
            raise _failure(errno.EBADF)
        return self._open[handle]

    def socket(self, handle: int) -> SimulatedSocket:
        opened = self.opened(handle)
        assert isinstance(opened, SimulatedSocket)
        return opened

    def look_at_clock(self) -> float:
        """Seconds that pass quickly for a while, and slowly for a while, whatever the virtual time is."""
        self._looks_left -= 1
        if not self._looks_left:
            self._looks_left = self.chance.randrange(1, 200)
            self._step_seconds = self.chance.choice(STEP_SECONDS)
        self._elapsed_seconds += self._step_seconds
        return self._elapsed_seconds


_kernel: trio.lowlevel.RunVar[Kernel] = trio.lowlevel.RunVar("simulated kernel")


def kernel() -> Kernel:
    """The one of this event loop."""
    try:
        return _kernel.get()
    except LookupError:
        made = Kernel()
        _kernel.set(made)
        return made


class SimulatedSocket:
    """One end of a simulated connection as a non-blocking socket; what PlainStream calls, and nothing else."""

    family: Final = socket.AF_UNIX  # which has no options of TCP

    def __init__(self, stream: SimulatedStream) -> None:
        self.stream = stream
        self.watchers: list[SimulatedEpoll] = []
        self.awaited: set[str] = set()
        self._kernel = kernel()
        self._network = stream.connection.network
        self._host = stream.connection.host_of(stream)
        self._handle = self._kernel.open(self)
        self._changed = Bell()
        self._clogged_until = 0.0
        for direction in (stream.incoming, stream.outgoing):
            direction.watchers.append(self._notify)

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - as socket.socket has it
        assert not flag

    def fileno(self) -> int:
        return self._handle

    def recv_into(self, buffer: memoryview, size: int) -> int:
        data = self.recv(size)
        buffer[: len(data)] = data
        return len(data)

    def recv(self, size: int) -> bytes:
        self._check_open()
        if not self.readable or self._kernel.chance.random() < NOTHING_YET_RATE:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        try:
            data = self.stream.receive_now(size)
        except _GONE as error:
            raise _failure(errno.ECONNRESET) from error
        if data is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return data

    def send(self, data: Buffers) -> int:
        self._check_open()
        if self.stream.outgoing.ended:
            raise _failure(errno.EPIPE)
        chance, room = self._kernel.chance, len(data) if self._takes else 0
        if room and chance.random() < SHORT_SEND_RATE:
            room = chance.randrange(room)
            self._clogged_until = trio.current_time() + chance.uniform(0, CLOGGED_SECONDS_MAX)
        try:
            with memoryview(data)[:room] as view:
                sent = self.stream.send_now(view)
        except _GONE as error:
            raise _failure(errno.ECONNRESET) from error
        if sent < len(data):
            self._network.note("short send", " ".join(self.stream.connection.hosts))
        if not sent and len(data):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return sent

    def sendmsg(self, parts: Sequence[Buffers]) -> int:
        return self.send(b"".join(parts))

    def shutdown(self, how: int) -> None:
        assert how == socket.SHUT_WR
        self._check_open()
        self.stream.end_sending()

    def close(self) -> None:
        if self._handle != -1:
            self._kernel.close(self._handle)
            for epoll in self.watchers:
                epoll.forget(self._handle)
            self._handle = -1
            self.stream.close()
            self._notify()

    @property
    def readable(self) -> bool:
        return not self.is_asleep and self.stream.incoming.has_something

    @property
    def writable(self) -> bool:
        return self.stream.broken or (self._takes and self.stream.outgoing.room > 0)

    def next_change_at(self, until: str) -> float:
        """When it may become so by itself."""
        if until == "readable":
            return self.stream.incoming.next_change_at()
        clogged_until = self._clogged_until if self._clogged_until > trio.current_time() else inf
        return min(clogged_until, self.stream.incoming.broken_at)

    @property
    def _takes(self) -> bool:
        return not self.is_asleep and self._clogged_until <= trio.current_time()

    @property
    def is_asleep(self) -> bool:
        return self._network.is_asleep(self._host)

    async def awake(self) -> None:
        await self._network.awake(self._host)

    def wait_change(self, until: float) -> Awaitable[None]:
        return self._changed.wait(until)

    def _notify(self) -> None:
        self._changed.ring()
        for epoll in self.watchers:
            epoll.notify()

    def _check_open(self) -> None:
        if self._handle == -1:
            raise _failure(errno.EBADF)


class SimulatedEpoll:
    """select.epoll, level-triggered, without waiting. Its own handle is readable while a socket of it is."""

    def __init__(self) -> None:
        self._kernel = kernel()
        self._handle = self._kernel.open(self)
        self._watched: dict[int, SimulatedSocket] = {}
        self.awaited: set[str] = set()
        self._changed = Bell()

    @property
    def closed(self) -> bool:
        return self._handle == -1

    def fileno(self) -> int:
        return self._handle

    def register(self, handle: int, mask: int) -> None:
        assert mask == select.EPOLLIN
        watched = self._kernel.socket(handle)
        if handle in self._watched:
            raise _failure(errno.EEXIST)
        self._watched[handle] = watched
        watched.watchers.append(self)
        self.notify()

    def unregister(self, handle: int) -> None:
        watched = self._kernel.socket(handle)
        if self._watched.get(handle) is not watched:
            raise _failure(errno.ENOENT)
        self.forget(handle)
        watched.watchers.remove(self)

    def poll(self, timeout: float, events_max: int) -> list[tuple[int, int]]:
        assert timeout == 0, "only trio waits"
        chance = self._kernel.chance
        ready = [(handle, select.EPOLLIN) for handle, watched in self._watched.items() if watched.readable]
        chance.shuffle(ready)
        if ready and chance.random() < SOME_ONLY_RATE:
            del ready[chance.randrange(1, len(ready) + 1) :]
        return ready[:events_max]

    def close(self) -> None:
        if self._handle != -1:
            self._kernel.close(self._handle)
            self._handle = -1
            for watched in self._watched.values():
                watched.watchers.remove(self)
            self._watched.clear()

    def forget(self, handle: int) -> None:
        """The socket is closed, or unregistered."""
        del self._watched[handle]

    def notify(self) -> None:
        self._changed.ring()

    @property
    def readable(self) -> bool:
        return any(watched.readable for watched in self._watched.values())

    def next_change_at(self, until: str) -> float:
        return min((watched.next_change_at(until) for watched in self._watched.values()), default=inf)

    @property
    def is_asleep(self) -> bool:
        return any(watched.is_asleep for watched in self._watched.values())

    async def awake(self) -> None:
        """All its sockets are one process's."""
        for watched in list(self._watched.values())[:1]:
            await watched.awake()

    def wait_change(self, until: float) -> Awaitable[None]:
        return self._changed.wait(until)


class SimulatedSelect:
    """The module `select`, as far as pollers use it."""

    EPOLLIN: Final = select.EPOLLIN
    epoll: Final = SimulatedEpoll


async def wait_readable(handle: int | SimulatedSocket) -> None:
    """As trio's, errors included."""
    waited = kernel().opened(handle) if isinstance(handle, int) else handle
    await _wait(waited, "readable")


async def wait_writable(waited: SimulatedSocket) -> None:
    await _wait(waited, "writable")


async def _wait(waited: SimulatedSocket | SimulatedEpoll, until: str) -> None:
    if until in waited.awaited:
        raise trio.BusyResourceError(f"another task waits until this is {until}")
    waited.awaited.add(until)
    try:
        await trio.lowlevel.checkpoint()
        while True:
            if waited.is_asleep:
                await waited.awake()
            if waited.fileno() == -1:
                raise trio.ClosedResourceError("another task closed this")
            if getattr(waited, until):
                return
            await waited.wait_change(waited.next_change_at(until))
    finally:
        waited.awaited.discard(until)


def notify_closing(_: SimulatedSocket) -> None:
    """Whoever waits hears of it from the socket itself, which is closed without an await in between."""


REPLACED: Final[tuple[tuple[Any, str, object], ...]] = (
    (poller, "select", SimulatedSelect),
    (poller, "perf_counter", lambda: kernel().look_at_clock()),
    (trio.lowlevel, "wait_readable", wait_readable),
    (trio.lowlevel, "wait_writable", wait_writable),
    (trio.lowlevel, "notify_closing", notify_closing),
)
"""What stands between the code under test and the kernel, and what it is in a simulated run."""


@contextlib.contextmanager
def simulated_sockets() -> Iterator[None]:
    """In the block there are no other sockets."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in REPLACED:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def plain_stream(stream: SimulatedStream) -> PlainStream:
    """The shipped stream over a simulated socket."""
    return PlainStream(cast("socket.socket", SimulatedSocket(stream)))


def _failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))
