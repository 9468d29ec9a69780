"""Which sources are let in: by the cookie, or by a token that is shown as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.lowlevel

from connectors.source.source import open_source
from connectors.wire.frames import ErrorFrame, HelloFrame, OkFrame
from sos_client.serving.access import Right, append_token, new_token
from sos_client.wire.errors import MisuseError
from tests.connectors.house import SETTINGS, House, Peer, ack, listening, message

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1790000001.0  # of the house's clock


class Tokens:
    """A tokens file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "tokens.toml"
        self.append = self.add("append", Right.APPEND)
        self.read = self.add("read", Right.READ)
        self.elsewhere = self.add("elsewhere", Right.APPEND, volume="w")
        self.short = self.add("short", Right.APPEND, expires=NOW + 100)
        self.over = self.add("over", Right.APPEND, expires=NOW - 1)

    def add(self, name: str, right: Right, *, volume: str = "v*", expires: float | None = None) -> bytes:
        text, grant = new_token(name=name, namespaces=(volume,), rights=frozenset({right}), expires=expires)
        append_token(self.path, grant)
        return text.encode()


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


async def greeted(house: House, cookie: bytes) -> tuple[Peer, str]:
    """The peer, and why it was refused."""
    peer = await house.connect(HelloFrame(version="0.0.1", cookie=cookie, program="p", instance="i"))
    answer = await peer.next()
    if isinstance(answer, OkFrame):
        return peer, ""
    assert isinstance(answer, ErrorFrame)
    await peer.is_closed()
    return peer, answer.reason


async def test_a_token_is_shown_as_the_cookie(tokens: Tokens) -> None:
    async with listening(tokens=tokens.path) as house:
        for cookie, why in (
            (tokens.append, ""),
            (tokens.short, ""),
            (b"", "needs a token"),
            (b"Dragons-Love-Tacos", "64 hexadecimal digits"),
            (b"0" * 64, "does not know the token"),
            (tokens.read, "'read' has no append right on volume v"),
            (tokens.elsewhere, "has no append right on volume v"),
            (tokens.over, "has expired"),
        ):
            _, reason = await greeted(house, cookie)
            assert (why in reason) if why else not reason, (cookie, reason)
            assert cookie.decode() not in reason or not cookie


async def test_a_token_that_is_taken_away_ends_its_connections(tokens: Tokens) -> None:
    async with listening(tokens=tokens.path) as house:
        ended, _ = await greeted(house, tokens.append)
        stays, _ = await greeted(house, tokens.short)
        text = tokens.path.read_text()
        tokens.path.write_text(text[text.index('[[token]]\nname = "read"') :])
        house.sources.reload()
        answer = await ended.next()
        assert isinstance(answer, ErrorFrame)
        assert "no longer valid" in answer.reason
        await ended.is_closed()
        _, reason = await greeted(house, tokens.append)
        assert "does not know" in reason
        del stays


async def test_the_library_shows_a_token_where_it_is_safe(tokens: Tokens) -> None:
    token = bytes.fromhex(tokens.append.decode())
    with pytest.raises(MisuseError, match="in clear"):
        async with open_source("elsewhere:7431", program="p", token=token):
            pass
    async with open_source("elsewhere:7431", program="p", token=token, insecure=True) as source:
        assert source._hello.cookie == tokens.append
    async with open_source("127.0.0.1:1", program="p", token=token) as source:
        assert source._usable("127.0.0.1:7431") == "127.0.0.1:7431"
        assert source._usable("elsewhere:7431") == ""  # a listener that sends us there does not get our token there
        assert source._usable("nonsense") == ""
    async with open_source("127.0.0.1:1", program="p") as source:
        assert source._usable("elsewhere:7431") == "elsewhere:7431"


async def test_a_cookie_is_compared_where_there_are_no_tokens() -> None:
    async with listening() as house:
        _, reason = await greeted(house, b"x")
        assert "cookie" in reason
        peer, reason = await greeted(house, SETTINGS.cookie)
        assert reason == ""
        del peer


async def test_messages_of_a_token_are_taken(tokens: Tokens) -> None:
    async with listening(tokens=tokens.path) as house:
        hello = HelloFrame(version="0.0.1", cookie=tokens.append, program="p", instance="i")
        peer = await house.opened(1, hello=hello)
        await peer.say(message(1))
        await peer.hears(ack(1, (1, 1)))
        await trio.lowlevel.checkpoint()
