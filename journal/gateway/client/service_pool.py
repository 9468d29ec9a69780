"""Connections to the services that may serve a volume: which address to ask next, which connections are free."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from journal.gateway.client.service_link import ServiceLink
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from sos_client.clear_text import leaves_this_host
from sos_client.net.dialing import translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sos_client.net.dialing import Dial

CONNECTIONS_MAX: Final = 8
"""Requests of one client at once; the others wait for their turn."""
DIAL_SECONDS_MAX: Final = 10.0


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
class ServicePool:
    """Links to the current address, at most CONNECTIONS_MAX at once."""

    addresses: Addresses
    volume: str
    dial: Dial
    hello: m.HelloRequest
    _idle: list[ServiceLink] = field(default_factory=list)
    _free: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(CONNECTIONS_MAX))

    @asynccontextmanager
    async def link(self, epoch_seen: int) -> AsyncIterator[ServiceLink]:
        """A link of one's own; afterwards it is kept if it is usable. ConnectionLostError, JournalError (greeting)."""
        async with self._free:
            link = await self._kept() or await self._opened(epoch_seen)
            try:
                yield link
            finally:
                if link.usable and link.address == self.addresses.current:
                    self._idle.append(link)
                else:
                    await link.aclose()

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

    async def _opened(self, epoch_seen: int) -> ServiceLink:
        address = self.addresses.current
        with translated(address), trio.fail_after(DIAL_SECONDS_MAX):
            stream = await self.dial(address)
        link = ServiceLink(stream, address)
        try:
            await link.greet(self.hello, m.OpenRequest(volume=self.volume, epoch_seen=epoch_seen))
        except BaseException:
            await link.aclose()
            raise
        return link


def hello(token: bytes | None, client: str, instance: bytes) -> m.HelloRequest:
    """The first frame of each connection."""
    return m.HelloRequest(version=limits.VERSION, token=token, client=client, instance=instance)
