"""HTTP as browsers, scrapers and people with bad intentions speak it: literal bytes over real sockets."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from sos_client.net.addresses import Address
from sos_client.serving.event_log import EventLog
from sos_client.web import http_server
from sos_client.web.http_server import HEAD_BYTES_MAX, LIMITS, HttpReply, HttpServer
from sos_client.web.metrics_text import serve_metrics
from tests.sos_client.serving.test_connections import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable

    from prometheus_client.core import Metric

    from sos_client.web.http_server import HttpRequest

HERE = Address(host="127.0.0.1", port=0)
GET = b"GET /seen HTTP/1.1\r\nHost: x\r\n\r\n"


def silent_log() -> EventLog:
    return EventLog(write=lambda _: None)


class Site:
    """Answers with the path, and counts who listens to its events."""

    def __init__(self) -> None:
        self.listening = 0
        self.piece = b"event: tick\ndata: 1\n\n"

    async def respond(self, request: HttpRequest) -> HttpReply:
        if request.path == "/events":
            return HttpReply(events=self.events(), content_type="text/event-stream", is_welcome=True)
        return HttpReply(body=request.path.encode() + b"\n", is_welcome=True)

    async def events(self) -> AsyncGenerator[bytes, None]:
        self.listening += 1
        try:
            while True:
                yield self.piece
                await trio.sleep(0.01)
        finally:
            self.listening -= 1


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[HttpServer]:
    server = HttpServer(HERE, site.respond, log=silent_log())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve)
        yield server
        nursery.cancel_scope.cancel()


async def asked(server: HttpServer, *pieces: bytes) -> bytes:
    stream = await trio.open_tcp_stream("127.0.0.1", server.address.port)
    async with stream:
        for piece in pieces:
            await stream.send_all(piece)
        await stream.send_eof()
        return b"".join([part async for part in stream])


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (GET, b"HTTP/1.1 200 OK\r\n"),
        (b"GET /seen?token=x HTTP/1.0\r\n\r\n", b"\r\n\r\n/seen\n"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n\r\n/../../etc/passwd\n"),
        (b"POST /seen HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 405 Method Not Allowed\r\n"),
        (b"GET /seen\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n"),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
        ),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", b"HTTP/1.1 501 Not Implemented\r\n"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * HEAD_BYTES_MAX, b"HTTP/1.1 431 Request Header Fields Too Large\r\n"),
        (b"GET /" + b"a" * 2 * HEAD_BYTES_MAX, b"HTTP/1.1 431 Request Header Fields Too Large\r\n"),
    ],
)
async def test_each_request_has_an_answer(request_bytes: bytes, answer: bytes) -> None:
    async with served(Site()) as server:
        assert answer in await asked(server, request_bytes)


async def test_a_connection_takes_one_request_after_the_other_also_when_they_come_at_once() -> None:
    async with served(Site()) as server:
        together = await asked(server, GET + GET)
        assert together.count(b"HTTP/1.1 200 OK") == 2
        apart = await asked(server, *(bytes([byte]) for byte in GET))
        assert apart.count(b"HTTP/1.1 200 OK") == 1
        only_head = await asked(server, b"HEAD /seen HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"Content-Length: 6\r\n" in only_head
        assert only_head.endswith(b"\r\n\r\n")


async def test_who_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.05)
    async with served(Site()) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.address.port)
        await stream.send_all(b"GET / HT")
        with trio.fail_after(300):
            assert not await stream.receive_some()
        await stream.aclose()


async def test_events_end_as_soon_as_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SEND_SECONDS", 0.2)
    site = Site()
    async with served(site) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.address.port)
        await stream.send_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while received.count(b"event: tick") < 3:
            received += await stream.receive_some()
        assert b"Transfer-Encoding: chunked" in received
        await stream.aclose()
        await until(lambda: not site.listening)
        site.piece = b"x" * (1 << 20)
        slow = await trio.open_tcp_stream("127.0.0.1", server.address.port)
        await slow.send_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: site.listening == 1)
        await until(lambda: not site.listening)  # it reads nothing, and is let go
        await slow.aclose()


async def test_noise_of_all_kinds_ends_nothing_but_its_own_connection() -> None:
    chance = random.Random(16)
    words = [b"GET ", b"/", b" HTTP/1.1", b"\r\n", b"Host: x", b":", b"\0", b"\xff" * 9, b"Content-Length: 9", b"0\r\n"]
    async with served(Site()) as server:
        for _ in range(150):
            noise = b"".join(chance.choices([*words, chance.randbytes(7)], k=chance.randrange(1, 30)))
            with trio.fail_after(300):
                await asked(server, noise)
        assert b"200 OK" in await asked(server, GET)
        assert server.failed_connections == 0


async def test_only_metrics_are_where_metrics_are_served() -> None:
    registry = CollectorRegistry()
    Counter("cakes", "baked", registry=registry).inc(5)
    async with trio.open_nursery() as nursery:
        address: Address = await nursery.start(serve_metrics, HERE, registry, silent_log())
        for request, answer in [
            (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"cakes_total 5.0"),
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"404 Not Found"),
            (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"405 Method Not Allowed"),
        ]:
            stream = await trio.open_tcp_stream("127.0.0.1", address.port)
            await stream.send_all(request)
            await stream.send_eof()
            assert answer in b"".join([part async for part in stream])
        nursery.cancel_scope.cancel()


async def test_a_scrape_is_answered_although_others_hold_every_place_and_costs_little_when_repeated() -> None:
    collected = 0

    class Counting(Collector):
        def collect(self) -> Iterable[Metric]:
            nonlocal collected
            collected += 1
            yield CounterMetricFamily("scrapes", "Counted.", collected)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Counting())
    collected = 0
    async with trio.open_nursery() as nursery:
        address: Address = await nursery.start(serve_metrics, HERE, registry, silent_log())
        silent = [await trio.open_tcp_stream("127.0.0.1", address.port) for _ in range(LIMITS.strangers_max)]
        await trio.sleep(2 * LIMITS.pressed_seconds)
        for _ in range(3):
            stream = await trio.open_tcp_stream("127.0.0.1", address.port)
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await stream.send_eof()
            assert b"scrapes_total 1.0" in b"".join([part async for part in stream])
        assert collected == 1
        nursery.cancel_scope.cancel()
    for stream in silent:
        await stream.aclose()
