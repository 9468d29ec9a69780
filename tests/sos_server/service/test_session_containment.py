"""What one connection can do to the others: nothing, whatever goes wrong on it; and when the process has to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from sos_client.serving.containment import SharedStateError
from sos_client.wire import messages as m
from sos_client.wire.codec import encode
from tests.fakes.scripted_client import append, data
from tests.sos_server.conversations import scene

if TYPE_CHECKING:
    from sos_server.storage.contents import Claim
    from tests.fakes.scripted_client import ScriptedClient

TRIES = 20
"""Trio runs tasks in a random order: what depends on it has to be tried more than once."""
NO_LENGTH = b"\0\0\0\0"

each_carrier = pytest.mark.parametrize("carrier", ["memory", "socket"])


async def filled(client: ScriptedClient, content: bytes) -> None:
    await client.send(append("log"), data(0, content), m.End())
    for kind in (m.Appending, m.Ack, m.Ended):
        await client.expect(kind)


@each_carrier
@pytest.mark.parametrize("at_once", [True, False])
async def test_requests_after_a_follow_that_is_over_are_answered(carrier: str, *, at_once: bool) -> None:
    async with scene(carrier=carrier) as here:
        await filled(await here.entered(), b"abcdef")
        for _ in range(TRIES):
            client = await here.entered()
            follow = m.Get(object="log", offset=0, length=3, follow=True)
            rest = (m.Stop(), m.Use(namespace="ns", create=False), m.Stat(object="log"))
            if at_once:
                await client.send(follow, *rest)
            else:
                await client.send(follow)
                await client.send(*rest)
            for kind in (m.Data, m.GetEnd, m.Using, m.ObjectInfo):
                await client.expect(kind)


@each_carrier
async def test_a_broken_protocol_during_a_follow_ends_that_connection_only(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        bystander = await here.entered()
        await filled(bystander, b"abcdef")
        for _ in range(TRIES):
            client = await here.entered()
            await client.send(m.Get(object="log", offset=0, length=None, follow=True))
            await client.stream.send_all(NO_LENGTH)
            while not isinstance(message := await client.receive(), m.Error):
                assert isinstance(message, m.Data)
        await bystander.ask(m.Ping(n=1), m.Pong)


async def test_a_commit_after_a_broken_protocol_acknowledges_nothing() -> None:
    async with scene(carrier="socket", commits_at_once=False, commits_each_round=True) as here:
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        await client.stream.send_all(encode(data(0, b"abc")) + NO_LENGTH)
        assert isinstance(await client.receive(), m.Error)
        bystander = await here.entered()
        assert (await bystander.ask(m.Stat(object="log"), m.ObjectInfo)).size == 3


async def test_what_a_full_batch_left_in_the_connection_is_taken_after_the_commit() -> None:
    async with scene(carrier="socket", commits_at_once=False, commits_each_round=True) as here:
        here.store.room_bytes = 2
        for number in range(TRIES):
            client = await here.entered()
            await client.ask(append(f"log-{number}"), m.Appending)
            await client.send(data(0, b"abc"), m.Ping(n=1), m.End())
            with trio.fail_after(60):
                await client.expect(m.Ack)
                await client.expect(m.Pong)
                await client.expect(m.Ended)


@each_carrier
async def test_an_unforeseen_mistake_ends_one_session(carrier: str) -> None:
    async with scene(carrier=carrier) as here:
        bystander = await here.entered()
        client = await here.entered()
        here.store.namespaces["ns"].list = _raises  # type: ignore[assignment, method-assign]
        await client.send(m.List(after="", limit=1))
        assert await client.receive() is None
        await bystander.ask(m.Ping(n=1), m.Pong)
        here.failures_expected = ["a mistake of ours"]


async def test_an_unforeseen_mistake_in_a_callback_ends_one_session() -> None:
    async with scene(carrier="socket", commits_at_once=False) as here:
        bystander = await here.entered()
        client = await here.entered()
        await client.ask(append("log"), m.Appending)
        session = next(session for session in here.service.sessions if session.mode is not None)
        session.connection.acknowledge = _raises  # type: ignore[assignment, method-assign]
        await client.send(data(0, b"abc"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        here.store.commit()
        assert await client.receive() is None
        assert (await bystander.ask(m.Stat(object="log"), m.ObjectInfo)).size == 3
        assert here.store.namespaces["ns"].objects["log"].appender is None
        here.failures_expected = ["a mistake of ours"]


@each_carrier
async def test_a_mistake_in_what_all_share_ends_the_process_and_says_why(carrier: str) -> None:
    async def fence(_: Claim, *, still_allowed: object) -> None:
        raise _mistake()

    with pytest.RaisesGroup(
        pytest.RaisesExc(SharedStateError, match="FENCE.*a mistake of ours"), flatten_subgroups=True
    ):
        async with scene(carrier=carrier) as here:
            client = await here.entered()
            here.store.namespaces["ns"].fence = fence  # type: ignore[assignment, method-assign]
            await client.send(m.Fence(epoch=1, holder=bytes(16)))
            await trio.sleep(60)


def _raises(*_: Any) -> Any:
    raise _mistake()


def _mistake() -> Exception:
    return RuntimeError("a mistake of ours")
