"""Every combination of rights with every request; missing, wrong, expired, reloaded tokens; what the audit log says."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from sos_client.serving.access import AccessRules, Right, append_token, new_token
from sos_client.wire import messages as m
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode
from sos_server.service.session import REVOKED_SECONDS_MAX
from sos_server.storage.contents import Claim
from tests.fakes.scripted_client import append, data
from tests.sos_server.conversations import NOW, Scene, scene
from tests.sos_server.real_store import Client, running

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = b"holder number 1."

NEEDS: dict[str, tuple[Right, m.Message]] = {
    "FENCE": (Right.FENCE, m.Fence(epoch=1, holder=HOLDER)),
    "APPEND": (Right.APPEND, append("log", epoch=1, holder=HOLDER)),
    "SEAL": (Right.APPEND, m.Seal(object="done", size=1, epoch=1, holder=HOLDER)),
    "GET": (Right.READ, m.Get(object="done", offset=0, length=None, follow=False)),
    "GET follow": (Right.READ, m.Get(object="done", offset=0, length=0, follow=True)),
    "STAT": (Right.READ, m.Stat(object="done")),
    "LIST": (Right.READ, m.List(after="", limit=1)),
    "DELETE": (Right.DELETE, m.Delete(object="done", epoch=1, holder=HOLDER)),
}
RIGHTS = [frozenset(some) for size in range(1, 5) for some in itertools.combinations(Right, size)]


@dataclass
class Tokens:
    """A tokens file that grows as tests ask for tokens."""

    path: Path
    access: AccessRules = field(init=False)

    def __post_init__(self) -> None:
        self.path.touch()
        self.access = AccessRules(self.path)

    def make(
        self,
        rights: frozenset[Right] = frozenset(Right),
        *,
        name: str = "tested",
        namespaces: tuple[str, ...] = ("*",),
        expires: float | None = None,
    ) -> bytes:
        text, grant = new_token(name=name, namespaces=namespaces, rights=rights, expires=expires)
        append_token(self.path, grant)
        self.access.reload()
        return bytes.fromhex(text)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.toml")


async def prepare(here: Scene, token: bytes) -> None:
    """A namespace claimed with epoch 1, and in it a sealed object of one byte."""
    owner = await here.entered(token=token)
    await owner.ask(m.Fence(epoch=1, holder=HOLDER), m.Fenced)
    await owner.send(append("done", epoch=1, holder=HOLDER), data(0, b"x"), m.End(), m.Quit())
    while await owner.receive() is not None:
        pass
    here.store.namespaces["ns"].objects["done"].sealed = True


async def test_a_token_sees_the_namespaces_that_it_may_enter_and_no_others(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        owner = tokens.make(name="owner")
        for name in ("payments", "test-1", "test-2", "test-3"):
            await here.entered(name, token=owner)
        client = here.connect()
        await client.hello(tokens.make(frozenset({Right.READ}), namespaces=("test-*",)))
        page = await client.ask(m.List(after="test-1", limit=1), m.Listing)
        assert ([one.name for one in page.entries], page.more) == (["test-2"], True)
        page = await client.ask(m.List(after="", limit=3), m.Listing)
        assert ([one.name for one in page.entries], page.more) == (["test-1", "test-2", "test-3"], False)


@pytest.mark.parametrize("rights", RIGHTS, ids=lambda rights: "+".join(sorted(rights)))
@pytest.mark.parametrize("what", list(NEEDS))
async def test_each_right_with_each_request(tokens: Tokens, what: str, rights: frozenset[Right]) -> None:
    right, request = NEEDS[what]
    async with scene(access=tokens.access) as here:
        await prepare(here, tokens.make(name="owner"))
        client = await here.entered(token=tokens.make(rights))
        await client.send(request)
        answer = await client.receive()
        if right in rights:
            assert not isinstance(answer, m.Error), answer
        else:
            assert isinstance(answer, m.Error)
            assert (answer.code, answer.fields) == (ErrorCode.DENIED, {"right": str(right), "namespace": "ns"})
            assert here.store.namespaces["ns"].objects.keys() == {"done"}


@pytest.mark.parametrize("rights", RIGHTS, ids=lambda rights: "+".join(sorted(rights)))
async def test_creating_a_namespace_takes_the_right_to_append(tokens: Tokens, rights: frozenset[Right]) -> None:
    async with scene(access=tokens.access) as here:
        client = here.connect()
        await client.hello(tokens.make(rights))
        await client.send(m.Use(namespace="fresh", create=True))
        answer = await client.receive()
        assert isinstance(answer, m.Using) == (Right.APPEND in rights)
        assert ("fresh" in here.store.namespaces) == (Right.APPEND in rights)
        if isinstance(answer, m.Error):
            assert answer.code is ErrorCode.DENIED


async def test_another_namespace_is_denied_whether_it_exists_or_not(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        await prepare(here, tokens.make(name="owner"))
        client = here.connect()
        await client.hello(tokens.make(namespaces=("mine", "mine-*")))
        for name in ("ns", "none"):
            for create in (False, True):
                error = await client.refused(m.Use(namespace=name, create=create))
                assert error.code is ErrorCode.DENIED
        await client.use("mine-7")


@pytest.mark.parametrize("kind", ["missing", "wrong", "expired"])
async def test_who_does_not_come_in(tokens: Tokens, kind: str) -> None:
    expired = tokens.make(expires=NOW - 1)
    token = {"missing": None, "wrong": bytes(32), "expired": expired}[kind]
    async with scene(access=tokens.access) as here:
        client = here.connect()
        hello = m.Hello(version=1, token=token, client="x", instance=bytes(16))
        await client.send(hello, m.Use(namespace="n", create=True))
        assert (await client.ends_with(ErrorCode.AUTH)).message
        assert not here.store.namespaces
        audited = [json.loads(line) for line in here.log_lines if '"audit"' in line]
        assert [line["event"] for line in audited] == ["AUTH refused"]
        assert expired.hex() not in "".join(here.log_lines)


async def test_nothing_is_decoded_before_the_token_is_checked(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        client = here.connect()
        junk = b"\xc1" * 3000
        await client.stream.send_all((1 + 35 + len(junk)).to_bytes(4, "big") + b"\x01\x00\x01\x01" + bytes(32) + junk)
        await client.ends_with(ErrorCode.AUTH)


async def test_a_token_taken_away_ends_its_connections(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        staying, going = tokens.make(name="stays"), tokens.make(name="goes")
        stays, goes, appends = [await here.entered(token=token) for token in (staying, going, going)]
        await appends.ask(append("log"), m.Appending)
        entries = tokens.path.read_text().split("\n\n")
        tokens.path.write_text("\n\n".join(entry for entry in entries if '"goes"' not in entry))
        tokens.access.reload()
        here.service.recheck_access()
        assert "not valid any more" in (await goes.ends_with(ErrorCode.AUTH)).message
        await appends.ends_with(ErrorCode.AUTH)
        await stays.ask(m.Ping(n=1), m.Pong)


async def test_rights_change_with_the_file(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        client = await here.entered(token=tokens.make(frozenset({Right.READ, Right.APPEND})))
        tokens.path.write_text(tokens.path.read_text().replace('"append", ', ""))
        tokens.access.reload()
        here.service.recheck_access()
        assert (await client.refused(append("log"))).code is ErrorCode.DENIED


@pytest.mark.parametrize("change", [('"append", ', ""), ('["*"]', '["other"]')], ids=["right", "namespace"])
async def test_an_append_ends_when_the_file_does_not_allow_it_any_more(tokens: Tokens, change: tuple[str, str]) -> None:
    async with scene(access=tokens.access) as here:
        client = await here.entered(token=tokens.make(frozenset({Right.READ, Right.APPEND})))
        await client.ask(append("log"), m.Appending)
        tokens.path.write_text(tokens.path.read_text().replace(*change))
        tokens.access.reload()
        here.service.recheck_access()
        assert "'append' right" in (await client.ends_with(ErrorCode.AUTH)).message


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_follow_goes_on_only_as_long_as_the_file_allows_it(tokens: Tokens, *, allowed: bool) -> None:
    async with scene(access=tokens.access) as here:
        rights = frozenset({Right.READ, Right.APPEND})
        writer, reader = [await here.entered(token=tokens.make(rights, name=name)) for name in ("writer", "reader")]
        await writer.send(append("log"), data(0, b"abc"))
        await writer.expect(m.Appending)
        await reader.send(m.Get(object="log", offset=0, length=None, follow=True))
        await reader.expect(m.Data)
        before, of_reader, rest = tokens.path.read_text().partition('name = "reader"')
        tokens.path.write_text(before + of_reader + rest.replace('"append", ' if allowed else ', "read"', ""))
        tokens.access.reload()
        here.service.recheck_access()
        if allowed:
            await reader.ask(m.Ping(n=1), m.Pong)
            await writer.send(data(3, b"def"))
            await reader.expect(m.Data)
        else:
            assert "'read' right" in (await reader.ends_with(ErrorCode.AUTH)).message


async def test_a_reader_that_is_slow_is_left_soon_after_its_right_was_taken_away(tokens: Tokens) -> None:
    async with scene(carrier="socket", access=tokens.access) as here:
        reader = await here.entered(token=tokens.make(frozenset({Right.READ, Right.APPEND})))
        await reader.send(append("log"), data(0, bytes(4_000_000)), m.End())
        for kind in (m.Appending, m.Ack, m.Ended):
            await reader.expect(kind)
        await reader.send(m.Get(object="log", offset=0, length=None, follow=False))
        await trio.testing.wait_all_tasks_blocked(0.01)
        tokens.path.write_text(tokens.path.read_text().replace(', "read"', ""))
        tokens.access.reload()
        here.service.recheck_access()
        with trio.fail_after(REVOKED_SECONDS_MAX + 10):
            while here.service.sessions:  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_who_has_not_said_hello_is_not_concerned_by_a_reload(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        token = tokens.make()
        client = here.connect()
        await trio.testing.wait_all_tasks_blocked(0.01)
        tokens.access.reload()
        here.service.recheck_access()
        await client.hello(token)


@pytest.mark.parametrize("may_fence", [True, False])
async def test_the_holder_is_told_only_to_who_may_take_its_claim_away(tokens: Tokens, *, may_fence: bool) -> None:
    async with scene(access=tokens.access) as here:
        await prepare(here, tokens.make(name="owner"))
        rights = frozenset({Right.READ, Right.APPEND, *([Right.FENCE] if may_fence else [])})
        client = here.connect()
        await client.hello(tokens.make(rights))
        told = (await client.use("ns")).holder
        digest = hashlib.sha256(b"SOS holder " + HOLDER).digest()[:16]
        assert told == (HOLDER if may_fence else digest)
        refused = await client.refused(append("log"))
        assert (refused.code, refused.fields["holder"]) == (ErrorCode.FENCED, told)
        assert digest.hex() in refused.message
        assert HOLDER.hex() not in refused.message
        await client.send(m.End())
        assert isinstance(await client.ask(append("log", epoch=1, holder=HOLDER), m.Appending), m.Appending)
        owner = await here.entered(token=tokens.make(name="next owner"))
        await owner.ask(m.Fence(epoch=2, holder=bytes(16)), m.Fenced)
        evicted = await client.expect(m.Error)
        assert (evicted.fields["holder"] == bytes(16)) == may_fence


async def test_a_token_that_expires_ends_its_connection(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        client = await here.entered(token=tokens.make(expires=NOW + 5))
        await client.ask(m.List(after="", limit=1), m.Listing)
        here.service.wall_clock = lambda: NOW + 5
        await client.send(m.List(after="", limit=1))
        assert "expired" in (await client.ends_with(ErrorCode.AUTH)).message


async def test_a_change_during_which_the_token_expires_is_audited_and_answered(tokens: Tokens) -> None:
    async with scene(access=tokens.access) as here:
        client = await here.entered(token=tokens.make(expires=NOW + 5))
        namespace = here.store.namespaces["ns"]
        fence = namespace.fence

        async def slow_fence(claim: Claim, **_: object) -> None:
            await fence(claim)
            here.service.wall_clock = lambda: NOW + 5

        namespace.fence = slow_fence  # type: ignore[method-assign]
        await client.ask(m.Fence(epoch=1, holder=HOLDER), m.Fenced)
        (line,) = [json.loads(line) for line in here.log_lines if '"audit"' in line]
        assert (line["event"], line["token"]) == ("FENCE", "tested")
        await client.send(m.List(after="", limit=1))
        await client.ends_with(ErrorCode.AUTH)


LATER = Claim(epoch=2, holder=HOLDER)
WAITING: dict[str, m.Message] = {
    "USE": m.Use(namespace="fresh", create=True),
    "FENCE": m.Fence(epoch=3, holder=HOLDER),
    "APPEND": append("log", size=1, epoch=1, holder=HOLDER),
    "SEAL": m.Seal(object="log", size=1, epoch=1, holder=HOLDER),
}


@pytest.mark.parametrize("taken", ["right", "token"])
@pytest.mark.parametrize("what", list(WAITING))
async def test_a_change_that_waits_while_its_right_is_taken_away_is_not_made(
    tokens: Tokens, tmp_path: Path, what: str, taken: str
) -> None:
    async with running(tmp_path / "root") as store, scene(access=tokens.access, real_store=store) as here:
        client = await here.entered(token=tokens.make())
        await client.ask(m.Fence(epoch=1, holder=HOLDER), m.Fenced)
        namespace = await store.namespace("ns", create=False)
        owner = Client(namespace, claim=namespace.claim)
        await owner.put("log", b"")
        first = await owner.start("log")
        commit, go_on = store.log._commit, trio.Event()

        async def commit_later() -> None:
            await go_on.wait()
            await commit()

        store.log._commit = commit_later  # type: ignore[method-assign]
        match what:
            case "USE":
                here.nursery.start_soon(partial(store.namespace, "other", create=True))
            case "FENCE":
                here.nursery.start_soon(namespace.fence, LATER)
            case _:
                first.append(0, crc32c(b"x"), memoryview(b"x"))
        await trio.testing.wait_all_tasks_blocked()
        await client.send(WAITING[what])
        await trio.testing.wait_all_tasks_blocked()
        less = tokens.path.read_text().replace('"append", ', "").replace('"fence", ', "")
        tokens.path.write_text("" if taken == "token" else less)
        tokens.access.reload()
        here.service.recheck_access()
        go_on.set()
        answer = await client.receive()
        assert isinstance(answer, m.Error)
        assert answer.code is (ErrorCode.AUTH if taken == "token" or what == "APPEND" else ErrorCode.DENIED)
        await trio.testing.wait_all_tasks_blocked()
        assert "fresh" not in store.contents.namespaces
        assert namespace.claim == (LATER if what == "FENCE" else Claim(epoch=1, holder=HOLDER))
        assert not any(stored.sealed_time for stored in store.contents.objects.values())
