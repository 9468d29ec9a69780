"""Metrics over HTTP for Prometheus: ``GET /metrics``, served by trio beside everything else. No other HTTP is spoken.

Which metrics there are is the business of the server that gives its registry.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sos_client.serving.listener import Accepted, Listener, ListenerLimits

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from sos_client.net.addresses import Address
    from sos_client.serving.event_log import EventLog

REQUEST_BYTES_MAX: Final = 8192
REQUEST_SECONDS: Final = 5.0
SCRAPES_MAX: Final = 16
"""Connections at once: one scraper needs one. Those that say nothing give way to others."""
PRESSED_SECONDS: Final = 0.1
"""So soon: a scraper's request comes with its connection."""
KEPT_SECONDS: Final = 1.0
"""An answer is given again to whoever asks sooner: it takes the event loop's time, and anybody may ask."""


async def serve_metrics(
    address: Address,
    registry: CollectorRegistry,
    log: EventLog,
    *,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer scrapes until cancelled. Reports the bound address; SettingsError when it cannot be had."""
    limits = ListenerLimits(
        connections_max=SCRAPES_MAX,
        connections_per_peer_max=SCRAPES_MAX,
        handshake_seconds=REQUEST_SECONDS,
        pressed_seconds=PRESSED_SECONDS,
    )
    listener = Listener(address, limits=limits, tls=None, log=log, too_many=_unavailable, not_tls=_unavailable)
    task_status.started(listener.address)

    metrics = KeptMetrics(registry)

    async def converse(accepted: Accepted) -> None:
        with trio.move_on_after(REQUEST_SECONDS):
            try:
                await accepted.stream.send_all(_answer(await _request_line(accepted.stream), metrics))
            except trio.BrokenResourceError:
                return  # the scraper has gone

    await listener.serve(converse)


class KeptMetrics:
    """The metrics as text, collected once in a while at the most."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._text = b""
        self._good_until = -math.inf

    def text(self) -> bytes:
        now = trio.current_time()
        if now >= self._good_until:
            self._text = generate_latest(self._registry)
            self._good_until = now + KEPT_SECONDS
        return self._text


async def _request_line(stream: trio.abc.Stream) -> bytes:
    head = bytearray()
    while b"\r\n\r\n" not in head and len(head) < REQUEST_BYTES_MAX:
        data = await stream.receive_some(REQUEST_BYTES_MAX)
        if not data:
            break
        head += data
    return bytes(head.partition(b"\r\n")[0])


def _answer(request_line: bytes, metrics: KeptMetrics) -> bytes:
    match request_line.split(b" "):
        case [b"GET", target, _] if target.partition(b"?")[0] == b"/metrics":
            return _response("200 OK", metrics.text(), CONTENT_TYPE_LATEST)
        case [b"GET", _, _]:
            return _response("404 Not Found", b"there is only /metrics here\n")
        case [_, _, _]:
            return _response("405 Method Not Allowed", b"only GET is possible\n")
        case _:
            return _response("400 Bad Request", b"this is not HTTP\n")


def _unavailable(reason: str) -> bytes:
    return _response("503 Service Unavailable", reason.encode() + b"\n")


def _response(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
