"""Connections to the services that may serve a volume: which address to ask next, which connections are free."""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode, JournalError
from journal.gateway.client.service_link import ServiceLink
from journal.gateway.client.shared_link import SharedLink, SharedTurn, each_its_own
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from sos_client.clear_text import leaves_this_host
from sos_client.net.dialing import translated
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from sos_client.net.dialing import Dial

    Trying = Callable[[str], object]
    """Is told which address is asked, before it may fail: that may not be the one from before a wait."""

CONNECTIONS_MAX: Final = 8
"""Requests of one client at once; the others wait for their turn."""
DIAL_SECONDS_MAX: Final = 10.0
SINGLE_SECONDS: Final = 60.0
"""A service that refused version 2 is offered it again after this time: it may have been upgraded."""


@dataclass(slots=True)
class Addresses:
    """Where to ask. Sticks to an address while it works; a hint from a service is followed once."""

    configured: Sequence[str]
    only_this_host: bool = False  # no hint leads elsewhere: a token would go there without TLS
    _position: int = 0
    _hint: str | None = None

    @property
    def current(self) -> str:
        return self._hint or self.configured[self._position]

    def turn_from(self, address: str, hint: str | None = None) -> None:
        """That address did not help; `hint` is where it says the owner is. Several askers turning at once turn once."""
        if address != self.current:
            return
        if hint is not None and hint != address and not (self.only_this_host and leaves_this_host(hint)):
            self._hint = hint
            return
        self._hint = None
        self._position = (self._position + 1) % len(self.configured)


@dataclass(slots=True)
class _Opening:
    """A shared link that is being opened: what became of it. Without link and failure: there is to be none."""

    address: str
    over: trio.Event = field(default_factory=trio.Event)
    link: SharedLink | None = None
    failure: SosError | None = None


@dataclass(slots=True)
class ServicePool:
    """Links to the current address, at most CONNECTIONS_MAX at once, and perhaps a shared one."""

    addresses: Addresses
    volume: str
    dial: Dial
    hello: m.HelloRequest
    sharing: trio.Nursery | None = None  # where shared links run; None: each request has a connection of its own
    _shared: SharedLink | None = None
    _opening: _Opening | None = None  # the last one
    _single: dict[str, float] = field(default_factory=dict)  # services that know version 1 only, and until when
    _idle: list[ServiceLink] = field(default_factory=list)
    _free: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(CONNECTIONS_MAX))

    @asynccontextmanager
    async def link(self, epoch_seen: int, trying: Trying) -> AsyncIterator[ServiceLink]:
        """A link of one's own; afterwards it is kept if it is usable. ConnectionLostError, JournalError (greeting)."""
        async with self._free:
            link = await self._kept()
            if link is None:
                address = self.addresses.current
                trying(address)
                link = await self._opened(address, epoch_seen)
            trying(link.address)
            link.has_sent = False
            try:
                yield link
            finally:
                if link.usable and link.address == self.addresses.current:
                    self._idle.append(link)
                else:
                    await link.aclose()

    @asynccontextmanager
    async def turn(self, epoch_seen: int, trying: Trying) -> AsyncIterator[ServiceLink | SharedTurn]:
        """As `link`, for one request of one frame: on the connection that is shared, where there is one."""
        shared = None
        if self.sharing is not None:
            address = self.addresses.current
            trying(address)
            shared = await self._shared_link(self.sharing, address, epoch_seen)
        if shared is not None:
            yield shared.turn()
        else:
            async with self.link(epoch_seen, trying) as link:
                yield link

    async def _shared_link(self, nursery: trio.Nursery, address: str, epoch_seen: int) -> SharedLink | None:
        """The one to this service; None if it knows version 1 only. Raises as `link`, to all who wait for it."""
        if self._single.get(address, -inf) > trio.current_time():
            return None
        if self._shared is not None and self._shared.is_open and self._shared.address == address:
            await trio.lowlevel.checkpoint()
            return self._shared
        if self._opening is None or self._opening.over.is_set() or self._opening.address != address:
            self._opening = _Opening(address)
            nursery.start_soon(self._open_shared, self._opening, epoch_seen)
        opening = self._opening
        await opening.over.wait()
        if opening.failure is not None:
            raise each_its_own(opening.failure)
        return opening.link

    async def _open_shared(self, opening: _Opening, epoch_seen: int) -> None:
        """A task of its own, then that of the link: whoever wanted it first may be cancelled."""
        try:
            opening.link = await self._greeted(opening.address, epoch_seen)
        except SosError as error:
            if isinstance(error, JournalError) and error.code is JournalCode.VERSION:
                self._single[opening.address] = trio.current_time() + SINGLE_SECONDS
            else:
                opening.failure = error
        finally:
            opening.over.set()
        if opening.link is not None:
            if self._shared is not None:
                self._shared.retire()
            self._shared = opening.link
            await opening.link.run()

    async def _greeted(self, address: str, epoch_seen: int) -> SharedLink:
        link = SharedLink(await self._dialled(address), address)
        hello = dataclasses.replace(self.hello, version=limits.SHARED_VERSION)
        try:
            await link.greet(hello, m.OpenRequest(volume=self.volume, epoch_seen=epoch_seen))
        except BaseException:
            await link.aclose()
            raise
        return link

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _kept(self) -> ServiceLink | None:
        while self._idle:
            link = self._idle.pop()
            if link.address == self.addresses.current and not link.is_stale():
                return link
            await link.aclose()
        return None

    async def _opened(self, address: str, epoch_seen: int) -> ServiceLink:
        link = ServiceLink(await self._dialled(address), address)
        try:
            await link.greet(self.hello, m.OpenRequest(volume=self.volume, epoch_seen=epoch_seen))
        except BaseException:
            await link.aclose()
            raise
        return link

    async def _dialled(self, address: str) -> trio.abc.Stream:
        with translated(address), trio.fail_after(DIAL_SECONDS_MAX):
            return await self.dial(address)


def hello(token: bytes | None, client: str, instance: bytes) -> m.HelloRequest:
    """The first frame of each connection."""
    return m.HelloRequest(version=limits.VERSION, token=token, client=client, instance=instance)
