"""Who sees what: tokens, sights, health, and a page that nobody else's name leads to."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from prometheus_client import CollectorRegistry, Gauge

from sos_client.net.addresses import Address
from sos_client.serving.access import AccessRules, Right, append_token, new_token
from sos_client.serving.event_log import EventLog
from sos_client.web import watchers
from sos_client.web.endpoint import WebEndpoint
from sos_client.web.watchers import Watchers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from sos_client.web.status_source import ViewerSight

HERE = Address(host="127.0.0.1", port=0)


class TwoVolumes:
    """A server with two volumes, whose names are all there is to know."""

    def __init__(self) -> None:
        self.names = ("payments", "salaries")
        self.details_version = 0
        self.state = "in sync"
        self.why: str | None = None
        self.refreshed = 0

    def urgent(self) -> object:
        return self.state

    def live(self, sight: ViewerSight) -> dict[str, object]:
        return {"time_ms": 1, "state": self.state, "volumes": sorted(sight.names), "whole": sight.is_whole}

    def details(self, sight: ViewerSight) -> dict[str, object]:
        return {"details": [f"of {name}" for name in sorted(sight.names)]}

    async def refresh(self) -> None:
        self.refreshed += 1

    async def unready(self) -> str | None:
        return self.why


class Served:
    """An endpoint that runs."""

    def __init__(self, source: TwoVolumes, endpoint: WebEndpoint, lines: list[str]) -> None:
        self.source, self.endpoint, self.lines = source, endpoint, lines
        self.port = int(endpoint.url.rstrip("/").rpartition(":")[2])

    async def get(self, path: str, token: str = "", host: str = "127.0.0.1") -> tuple[int, str]:
        stream = await self.opened(path, token, host)
        async with stream:
            await stream.send_eof()
            received = b"".join([part async for part in stream]).decode()
        head, _, body = received.partition("\r\n\r\n")
        return int(head.split()[1]), body if "chunked" not in head else head + body

    async def opened(self, path: str, token: str = "", host: str = "127.0.0.1") -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n".encode())
        return stream


@asynccontextmanager
async def served(tokens: Path | None = None) -> AsyncIterator[Served]:
    registry, source, lines = CollectorRegistry(), TwoVolumes(), list[str]()
    gauge = Gauge("files", "Files.", ["volume"], registry=registry)
    for name in source.names:
        gauge.labels(name).set(5)
    Gauge("connections", "All together.", registry=registry).set(7)
    log = EventLog(write=lines.append)
    endpoint = WebEndpoint(HERE, source, registry, access=AccessRules(tokens), log=log, tls=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(endpoint.serve)
        yield Served(source, endpoint, lines)
        nursery.cancel_scope.cancel()


def token_for(path: Path, name: str, glob: str, *rights: Right) -> str:
    text, grant = new_token(name=name, namespaces=(glob,), rights=frozenset(rights or [Right.READ]), expires=None)
    append_token(path, grant)
    return text


async def test_without_tokens_everybody_who_gets_here_sees_everything() -> None:
    async with served() as site:
        status, body = await site.get("/status.json")
        assert status == 200
        found = json.loads(body)
        assert found["volumes"] == ["payments", "salaries"]
        assert found["details"] == ["of payments", "of salaries"]
        assert (await site.get("/healthz")) == (200, "alive\n")
        assert (await site.get("/readyz")) == (200, "ready\n")
        site.source.why = "2 of 3 machines are away"
        assert (await site.get("/readyz")) == (503, "2 of 3 machines are away\n")
        status, text = await site.get("/metrics")
        assert 'files{volume="salaries"} 5.0' in text
        assert "connections 7.0" in text


async def test_of_another_tokens_volume_nothing_is_shown(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    one = token_for(tokens, "payments", "payments")
    everything = token_for(tokens, "operator", "*")
    nothing = token_for(tokens, "elsewhere", "other")
    writer = token_for(tokens, "writer", "*", Right.APPEND)
    async with served(tokens) as site:
        for path in ("/status.json", "/metrics", "/events"):
            assert (await site.get(path))[0] == 401
            assert (await site.get(path, "f" * 64))[0] == 401
            assert (await site.get(path, "no token at all"))[0] == 401
            assert (await site.get(f"{path}?token={everything}"))[0] == 401
            assert (await site.get(path, nothing))[0] == 403
            assert (await site.get(path, writer))[0] == 403
        for path in ("/status.json", "/metrics"):
            status, body = await site.get(path, one)
            assert status == 200
            assert "payments" in body
            assert "salaries" not in body
            assert "connections" not in body  # a sum over all volumes
            assert "salaries" in (await site.get(path, everything))[1]
        assert json.loads((await site.get("/status.json", one))[1])["whole"] is False
        for path in ("/healthz", "/readyz", "/", "/nothing"):
            status, body = await site.get(path)
            assert status in (200, 404)
            assert "payments" not in body.replace("sos-checkpoints", "")
    log = "".join(site.lines)
    assert '"token refused"' in log
    assert '"denied"' in log
    assert not [token for token in (one, everything, nothing, writer) if token in log]


async def test_events_say_what_changed_and_end_with_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(watchers, "TELL_SECONDS_MIN", 60.0)
    tokens = tmp_path / "tokens.toml"
    token = token_for(tokens, "payments", "payments")
    access = AccessRules(tokens)
    source = TwoVolumes()
    log = EventLog(write=lambda _: None)
    endpoint = WebEndpoint(HERE, source, CollectorRegistry(), access=access, log=log, tls=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(endpoint.serve)
        site = Served(source, endpoint, [])
        assert source.refreshed == 0  # nobody looks
        stream = await site.opened("/events", token)
        received = b""

        async def until(word: bytes) -> None:
            nonlocal received
            with trio.fail_after(300):
                while word not in received:
                    piece = await stream.receive_some()
                    assert piece, received
                    received += piece

        await until(b"event: status\n")
        assert b"salaries" not in received
        source.state = "gone"
        await until(b'event: live\ndata: {"time_ms":1,"state":"gone"')
        source.details_version += 1
        source.state = "back"
        await until(b"event: details")
        assert source.refreshed > 0
        tokens.write_text("")
        access.reload()
        source.state = "gone again"
        with trio.fail_after(300):
            while await stream.receive_some():
                pass
        assert b"gone again" not in received
        nursery.cancel_scope.cancel()


async def test_a_name_that_was_made_to_lead_here_is_not_answered() -> None:
    async with served() as site:
        for host in ("127.0.0.1:80", "localhost:7480", "[::1]:7480", "LOCALHOST"):
            assert (await site.get("/status.json", host=host))[0] == 200
        for host in ("evil.example", "evil.example:7480", "127.0.0.1.evil.example"):
            for path in ("/", "/status.json", "/events", "/metrics"):
                assert (await site.get(path, host=host))[0] == 421


async def test_the_page_may_run_only_itself_and_ask_only_here() -> None:
    async with served() as site:
        stream = await site.opened("/")
        async with stream:
            await stream.send_eof()
            received = b"".join([part async for part in stream]).decode()
        head, _, page = received.partition("\r\n\r\n")
        policy = next(line for line in head.splitlines() if line.startswith("Content-Security-Policy"))
        assert "default-src 'none'; connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert "no-referrer" in head
        assert not [
            word
            for word in ("http://", "https://", "//cdn", "innerHTML =")
            if word in page.replace("http://www.w3.org/2000/svg", "")
        ]


async def test_two_hundred_pages_are_told_of_numbers_less_often_and_of_what_is_urgent_at_once() -> None:
    source: Any = TwoVolumes()
    crowd = Watchers(source)
    crowd._count = 200
    assert crowd.tell_seconds == 5.0
    crowd._count = 3
    assert crowd.tell_seconds == 1.0
