"""The few connections of one client: taken for one request or one stream at a time, kept open in between.

Here, too, is the check that every connection leads to the same server and the same namespace as the first one did.
"""

from __future__ import annotations

import contextlib
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from sos_client.link import Link, open_link
from sos_client.wire import messages as m
from sos_client.wire.errors import HistoryError, MisuseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sos_client.attempts import Deadlines
    from sos_client.net.dialing import Dial

REQUESTS_MAX: Final = 16
"""Requests under way at once; further ones wait for their turn. Appends and reads of streams come on top: their
number is the caller's affair, and each keeps a connection for as long as it lasts."""
KEPT_LINKS_MAX: Final = 16
"""Idle connections kept."""
IDLE_SECONDS_MAX: Final = 20.0
"""An idle connection is not used after this: servers and firewalls drop those that say nothing for long."""


class ConnectionPool:
    """Connections to one server."""

    def __init__(self, dial: Dial, address: str, hello: m.Hello, *, deadlines: Deadlines) -> None:
        self.address = address
        self.server_identity: bytes | None = None
        self.server_time = 0.0
        self._dial = dial
        self._hello = hello
        self._deadlines = deadlines
        self._incarnations: dict[str, bytes] = {}
        self._idle: list[Link] = []
        self._closed = False
        self._turns = trio.Semaphore(REQUESTS_MAX, max_value=REQUESTS_MAX)

    @contextlib.asynccontextmanager
    async def lease(self, namespace: str | None = None, *, unused: bool = False) -> AsyncIterator[Link]:
        """A connection for the requests of the block, which have to be answered in time.

        It is kept afterwards if it is fit for another request, and closed if not. An `unused` one is in no namespace.
        """
        async with self._turns:
            link = await (self._connect() if unused else self.take(namespace))
            try:
                with link.in_time(self._deadlines.answer_seconds):
                    yield link
            finally:
                await self.give_back(link)

    async def take(self, namespace: str | None = None) -> Link:
        """A connection to keep until `give_back`, with this namespace in use."""
        if self._closed:
            raise MisuseError("this client has been closed")
        await self.close_idle(unused_since=trio.current_time() - IDLE_SECONDS_MAX)
        link = self._choose_idle(namespace) or await self._connect()
        if namespace is not None and link.namespace != namespace:
            try:
                with link.in_time(self._deadlines.answer_seconds):
                    await self.enter(link, namespace)
            except BaseException:
                await self.give_back(link)
                raise
        return link

    async def give_back(self, link: Link) -> None:
        """Keep the connection for later, or close it."""
        if link.reusable and not self._closed and len(self._idle) < KEPT_LINKS_MAX:
            link.idle_since = trio.current_time()
            self._idle.append(link)
        else:
            await link.aclose()

    async def enter(self, link: Link, namespace: str, *, create: bool = False) -> m.Using:
        """USE on this connection. HistoryError when the namespace is not the one that it was for this client before."""
        link.namespace = None
        using = await link.ask(m.Use(namespace=namespace, create=create), m.Using)
        known = self._incarnations.setdefault(namespace, using.incarnation)
        if known != using.incarnation:
            raise HistoryError(
                f"namespace {namespace} on {self.address} has been made again: it was {known.hex()}, it is now"
                f" {using.incarnation.hex()}; what was written to the old one is not there"
            )
        link.namespace = namespace
        return using

    async def aclose(self) -> None:
        """Close what is idle. What is still in use is closed when it is given back."""
        self._closed = True
        await self.close_idle()

    async def close_idle(self, unused_since: float = inf) -> None:
        """Close the connections that nobody uses (since then)."""
        while link := next((link for link in self._idle if link.idle_since <= unused_since), None):
            self._idle.remove(link)
            await link.aclose()

    def _choose_idle(self, namespace: str | None) -> Link | None:
        if not self._idle:
            return None
        best = next((link for link in self._idle if link.namespace == namespace), self._idle[-1])
        self._idle.remove(best)
        return best

    async def _connect(self) -> Link:
        link = await open_link(self._dial, self.address, self._hello, seconds=self._deadlines.connect_seconds)
        try:
            self._check_identity(link)
        except HistoryError:
            await link.aclose()
            raise
        return link

    def _check_identity(self, link: Link) -> None:
        self.server_time = link.server_time
        if self.server_identity is None:
            self.server_identity = link.server_identity
        elif self.server_identity != link.server_identity:
            raise HistoryError(
                f"{self.address} is another server than before: it was {self.server_identity.hex()}, it is now"
                f" {link.server_identity.hex()}; what was written to the old one is not there"
            )
