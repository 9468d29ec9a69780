"""Bytes nobody should send, before and after HELLO: an ERROR or a closed connection, and nothing else happens.

The long run against a real process, with its memory watched, is in tests/system.
"""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from sos_client.wire import messages as m
from sos_client.wire.codec import encode
from sos_client.wire.names import check_name
from tests.fakes.scripted_client import ScriptedClient, append, data
from tests.sos_server.conversations import scene

MESSAGES: list[m.Message] = [
    m.Use(namespace="ns", create=True),
    m.Use(namespace="../..", create=True),
    m.Fence(epoch=1, holder=bytes(16)),
    append("log"),
    append("log", 3, prefix_crc=9, epoch=2, holder=bytes(16)),
    data(0, b"abc"),
    data(3, b"def"),
    m.End(),
    m.Seal(object="log", size=3, epoch=0, holder=b""),
    m.Get(object="log", offset=0, length=None, follow=False),
    m.Get(object="log", offset=1, length=1, follow=True),
    m.Stop(),
    m.Stat(object="log"),
    m.List(after="", limit=1000),
    m.Delete(object="log", epoch=0, holder=b""),
    m.Ping(n=1),
    m.Quit(),
    m.Unknown(type_code=0x3F),
    m.Hello(version=1, token=None, client="again", instance=bytes(16)),
]
FRAMES = [encode(message) for message in MESSAGES]

frames = st.sampled_from(FRAMES)
framed_junk = st.binary(max_size=64).map(lambda body: len(body).to_bytes(4, "big") + body)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A frame with one byte changed."""
    frame = bytearray(draw(frames))
    frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
    return bytes(frame)


conversations = st.lists(st.one_of(frames, frames, mutated(), framed_junk, st.binary(max_size=40)), max_size=12)


@given(greeted=st.booleans(), sent=conversations, pieces=st.integers(1, 5))
@settings(max_examples=300)
def test_anything_may_come(*, greeted: bool, sent: list[bytes], pieces: int) -> None:
    trio.run(converse, greeted, b"".join(sent), pieces)


async def converse(greeted: bool, content: bytes, pieces: int) -> None:  # noqa: FBT001
    async with scene() as here:
        bystander = await here.entered("quiet")
        client = here.connect()
        if greeted:
            await client.hello()
        step = len(content) // pieces + 1
        with trio.move_on_after(60) as patience:
            for start in range(0, len(content), step):
                try:
                    await client.stream.send_all(content[start : start + step])
                except trio.BrokenResourceError:
                    break
                await trio.testing.wait_all_tasks_blocked()
            await end_of(client)
        assert not patience.cancelled_caught
        await bystander.ask(m.Ping(n=1), m.Pong)
        assert [check_name(name) for name in here.store.namespaces], "junk may be a USE, but of no path"


async def end_of(client: ScriptedClient) -> None:
    """Close the sending side, and read what there is to read."""
    assert isinstance(client.stream, trio.StapledStream)
    await client.stream.send_eof()
    while await client.stream.receive_some():
        pass
