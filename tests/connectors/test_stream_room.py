"""Who may make new streams: half of the room that others leave for each token, and nobody when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from connectors.ingest import known_streams
from connectors.ingest.known_streams import KnownStreams
from connectors.listener import stream_room
from connectors.listener.settings import ProtocolSettings
from connectors.listener.stream_room import StreamRoom
from sos_client.serving.access import Right
from tests.connectors.house import accepted, ack, listening, message, notify, refused
from tests.connectors.test_admission import Tokens, greeted

if TYPE_CHECKING:
    from pathlib import Path

    import trio.testing


@pytest.fixture
def room_for_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (known_streams, stream_room):
        monkeypatch.setattr(module, "STREAMS_KNOWN_MAX", 10)
        monkeypatch.setattr(module, "NAMES_CHARACTERS_MAX", 100)


def introduce(room: StreamRoom, streams: KnownStreams, token: str, *, name: str = "s") -> bool:
    if room.refusal(token):
        return False
    streams.introduce(len(streams.names), name)
    room.made(token, name)
    return True


@pytest.mark.usefixtures("room_for_ten")
@pytest.mark.parametrize(("token", "most"), [("one", 5), ("", 10)])
def test_one_has_half_where_there_are_tokens(token: str, most: int) -> None:
    streams = KnownStreams()
    room = StreamRoom(streams)
    assert [introduce(room, streams, token) for _ in range(12)] == [True] * most + [False] * (12 - most)


@pytest.mark.usefixtures("room_for_ten")
def test_others_have_room_left_until_it_is_full() -> None:
    streams = KnownStreams()
    room = StreamRoom(streams)
    made = {token: sum(introduce(room, streams, token) for _ in range(10)) for token in ("a", "b", "c", "d", "e")}
    assert made == {"a": 5, "b": 3, "c": 1, "d": 1, "e": 0}
    assert "all the streams it can have: 10" in room.refused


@pytest.mark.usefixtures("room_for_ten")
def test_names_are_shared_out_too() -> None:
    streams = KnownStreams()
    room = StreamRoom(streams)
    assert [introduce(room, streams, "a", name="n" * 30) for _ in range(3)] == [True, True, False]
    assert room.refused == "token 'a' has made 60 characters of names, half of the room that others leave in the volume"
    assert introduce(room, streams, "b")
    assert room.refused == ""


@pytest.mark.usefixtures("room_for_ten")
def test_streams_from_before_are_nobodys() -> None:
    streams = KnownStreams()
    for number in range(4):
        streams.introduce(number, "s")
    room = StreamRoom(streams)
    assert [introduce(room, streams, "a") for _ in range(4)] == [True, True, True, False]


@pytest.mark.usefixtures("room_for_ten")
async def test_a_refusal_leaves_the_rest_as_it_is(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens(tmp_path)
    other = tokens.add("other", Right.APPEND)
    settings = ProtocolSettings(credits=50, streams_max=20)
    async with listening(tokens=tokens.path, settings=settings) as house:
        greedy, _ = await greeted(house, tokens.append)
        for number in range(1, 6):
            await greedy.say(notify(number))
            await greedy.hears(accepted(number), ack(1))
        await greedy.say(notify(6))
        await greedy.hears(refused(6))
        assert "token 'append' has made 5 streams, half of the room" in house.sources.no_new_streams
        assert "half of the room" in house.sources.sessions[0].report()["waits_for"]
        await greedy.say(message(1, stream_id=5))
        await greedy.hears(ack(1, (5, 1)))
        modest, _ = await greeted(house, other)
        await modest.say(notify(7))
        await modest.hears(accepted(7), ack(1))
        assert not house.sources.no_new_streams
