"""Which path answers what: the page, the status behind it, health, metrics. Who may see it is decided here, too.

A token goes in the header `Authorization: Bearer TOKEN`, never in an address, so that no log and no referrer has it.
Health needs none: it says nothing but yes or no.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import ipaddress
import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from sos_client.serving.access import Right, TokenRefusedError
from sos_client.web.http_server import HttpReply, HttpServer
from sos_client.web.metrics_text import METRICS_TYPE, MetricsText
from sos_client.web.status_source import sight_of
from sos_client.web.watchers import Watchers, json_bytes
from sos_client.wire.errors import MisuseError
from sos_client.wire.names import parse_token

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from sos_client.net.addresses import Address
    from sos_client.serving.access import AccessRules, Grant
    from sos_client.serving.event_log import EventLog
    from sos_client.serving.tls import ServerTls
    from sos_client.web.http_server import HttpRequest
    from sos_client.web.status_source import StatusSource, ViewerSight

PAGE: Final = Path(__file__).with_name("page.html")
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)
PATHS: Final = "/ /status.json /events /metrics /healthz /readyz"


class WebEndpoint:
    """One server's `--web`. Binds at once; SettingsError when the address cannot be had."""

    def __init__(
        self,
        address: Address,
        source: StatusSource,
        registry: CollectorRegistry,
        *,
        access: AccessRules,
        log: EventLog,
        tls: ServerTls | None,
    ) -> None:
        self._source = source
        self._access = access
        self._log = log
        self._host = address.host
        self._metrics = MetricsText(registry)
        self._watchers = Watchers(source)
        self._server = HttpServer(address, self._respond, log=log, tls=tls)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://{self._server.address}/"

    async def serve(self) -> None:
        """Answer until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watchers.run)
            await self._server.serve()
            nursery.cancel_scope.cancel()

    async def _respond(self, request: HttpRequest) -> HttpReply:
        reply = await self._reply(request)
        return reply if self._access.required else dataclasses.replace(reply, is_welcome=True)

    async def _reply(self, request: HttpRequest) -> HttpReply:
        if not self._is_meant(request.headers.get("host", "")):
            return _text(421, "this server is not called that: name it by its address, or give it tokens")
        match request.path:
            case "/":
                body, policy = _page()
                return HttpReply(body=body, content_type="text/html; charset=utf-8", headers=(policy,))
            case "/healthz":
                return _text(200, "alive")
            case "/readyz":
                why = await self._source.unready()
                return _text(200, "ready") if why is None else _text(503, why)
            case "/status.json" | "/events" | "/metrics" as path:
                return await self._guarded(path, request)
            case _:
                return _text(404, f"there is only {PATHS} here")

    async def _guarded(self, path: str, request: HttpRequest) -> HttpReply:
        try:
            grant = self._access.authenticate(_token_of(request), now=time.time())
        except (TokenRefusedError, MisuseError) as error:
            self._log.refused("token refused", peer=request.peer, reason=str(error), path=path)
            return _text(401, str(error), (("WWW-Authenticate", "Bearer"),))
        sight = self._sight(grant)
        if Right.READ not in grant.rights or (not sight.names and any(True for _ in self._source.names)):
            self._log.refused("denied", peer=request.peer, token=grant.name, path=path)
            return _text(403, "this token may read nothing here")
        if path == "/metrics":
            return HttpReply(body=self._metrics.text(sight), content_type=METRICS_TYPE, is_welcome=True)
        if path == "/events":
            events = self._watchers.events(lambda: self._sight_now(grant))
            return HttpReply(events=events, content_type="text/event-stream", is_welcome=True)
        await self._watchers.refresh()
        body = json_bytes(self._watchers.whole(sight)) + b"\n"
        return HttpReply(body=body, content_type="application/json", is_welcome=True)

    def _sight(self, grant: Grant) -> ViewerSight:
        return sight_of(grant, self._source.names)

    def _sight_now(self, grant: Grant) -> ViewerSight | None:
        current = self._access.current(grant, now=time.time())
        return None if current is None else self._sight(current)

    def _is_meant(self, host: str) -> bool:
        """Whether a page of somebody else's, whose name was made to lead here, is not what asks.

        With tokens such a page has none. Without, only addresses and what was asked to be listened at count.
        """
        if self._access.required or not host:
            return True
        name = host.rpartition(":")[0] if re.search(r":\d*$", host) else host
        if name.lower() in {"localhost", self._host.lower()}:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def _token_of(request: HttpRequest) -> bytes | None:
    """MisuseError if what is there is not how a token looks."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return parse_token(token) if scheme.lower() == "bearer" else None


def _text(status: int, sentence: str, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    return HttpReply(status=status, body=f"{sentence}\n".encode(), headers=headers)


@cache
def _page() -> tuple[bytes, tuple[str, str]]:
    """The page, and the policy under which it can run nothing but itself and ask nobody but this server."""
    body = PAGE.read_bytes()
    hashes: dict[bytes, list[str]] = {b"script": [], b"style": []}
    for kind, text in _INLINE.findall(body):
        hashes[kind].append(f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'")
    policy = (
        f"default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; script-src {' '.join(hashes[b'script'])}; style-src {' '.join(hashes[b'style'])}"
    )
    return body, ("Content-Security-Policy", policy)
