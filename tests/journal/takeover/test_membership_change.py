"""Changing members in use: nothing acknowledged is lost, also when another old member goes afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.records.settings import JournalSettings
from journal.takeover.membership_change import Wish, change_members
from journal.takeover.owner_board import GIVEN_BACK, ServerBoard
from sos_client.nurseries import background
from sos_client.serving.event_log import EventLog, Level
from tests.journal.cluster import (
    VOLUME,
    MemoryCluster,
    addresses,
    content,
    create,
    memory_cluster,
    open_on,
    surroundings,
)

if TYPE_CHECKING:
    from trio.testing import MockClock

    from journal.records.segment import SegmentHeader
    from sos_server.storage.contents import Claim


async def change(servers: MemoryCluster, known: str, **wish: str) -> SegmentHeader:
    return await change_members(
        VOLUME, addresses(servers, known), Wish(**wish), surroundings=surroundings(servers, "operator")
    )


def board(servers: MemoryCluster) -> ServerBoard:
    """Where services look for who has the volume."""

    async def dial(address: str) -> trio.abc.Stream:
        return await servers.dial(address.partition(":")[0], "reader")

    return ServerBoard(servers=addresses(servers), address="", log=EventLog(least=Level.ERROR), dial=dial)


class Load:
    """A service that takes its volume over again whenever it has lost it, and a client that goes on writing."""

    def __init__(self, servers: MemoryCluster, known: str) -> None:
        self.acknowledged: list[int] = []
        self._servers = servers
        self._known = known

    async def run(self) -> None:
        number = 0
        while True:
            try:
                async with open_on(self._servers, names=self._known) as journal:
                    while True:
                        await journal.put(f"f/{number}", bytes([number % 256]) * 100, overwrite=True)
                        self.acknowledged.append(number)
                        number += 1
                        await trio.sleep(0.05)
            except JournalError:
                await trio.sleep(0.2)


async def test_a_dead_member_is_replaced_under_load_and_then_another_one_is_lost(autojump_clock: MockClock) -> None:
    async with memory_cluster("abcd") as servers, trio.open_nursery() as nursery:
        await create(servers, "abc")
        load = Load(servers, "abc")
        nursery.start_soon(load.run)
        await trio.sleep(3)
        await servers.down("c")
        await trio.sleep(3)
        header = await change(servers, "abc", joining="d:7400", leaving="c:7400")
        assert {member.address for member in header.membership.configuration.members} == {"a:7400", "b:7400", "d:7400"}
        assert header.membership.replaces is None
        before = len(load.acknowledged)
        await trio.sleep(10)
        assert len(load.acknowledged) > before + 50
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await servers.wipe("a")
            async with open_on(servers, names="bd", source="later") as journal:
                for number in load.acknowledged:
                    assert await content(journal, f"f/{number}") == bytes([number % 256]) * 100


async def test_what_was_acknowledged_before_and_after_a_change_survives_the_loss_of_an_old_member(
    autojump_clock: MockClock,
) -> None:
    async with memory_cluster("abcd") as servers:
        await create(servers, "abc")
        async with open_on(servers, names="abc") as journal:
            for number in range(20):
                await journal.put(f"old/{number}", bytes([number]) * 3000)
        await servers.wipe("c")
        await change(servers, "abc", joining="d:7400", leaving="c:7400")
        async with open_on(servers, names="ab") as journal:
            await journal.put("new", b"n")
            await trio.sleep(5)
        await servers.wipe("a")
        async with open_on(servers, names="d") as journal:  # who they are, the volume knows
            assert await content(journal, "new") == b"n"
            for number in range(20):
                assert await content(journal, f"old/{number}") == bytes([number]) * 3000


@pytest.mark.parametrize(("first", "names"), [("a", "ab"), ("ab", "abc"), ("abc", "abcd")])
async def test_adding_and_removing(first: str, names: str, autojump_clock: MockClock) -> None:
    async with memory_cluster(names) as servers:
        await create(servers, first)
        async with open_on(servers, names=first) as journal:
            await journal.put("x", b"1")
        header = await change(servers, first, joining=f"{names[-1]}:7400")
        assert len(header.membership.configuration.members) == len(names)
        header = await change(servers, names, leaving="a:7400")
        assert [member.address[0] for member in header.membership.configuration.members] == list(names[1:])
        await servers.wipe("a")
        async with open_on(servers, names=names[1:]) as journal:
            assert await content(journal, "x") == b"1"


async def test_a_change_that_cannot_be_proven_changes_nothing(autojump_clock: MockClock) -> None:
    async with memory_cluster("abcd") as servers:
        await create(servers, "abc")
        async with open_on(servers, names="abc") as journal:
            await journal.put("x", b"1")
        await servers.down("b")
        await servers.down("c")
        with pytest.raises(JournalError) as caught:
            await change(servers, "abc", joining="d:7400", leaving="c:7400")
        assert caught.value.code is JournalCode.UNAVAILABLE
        await servers.up("b")
        async with open_on(servers, names="abc") as journal:
            assert await content(journal, "x") == b"1"
            members = journal.log.segment.membership.configuration.members
            assert {member.address for member in members} == {"a:7400", "b:7400", "c:7400"}


async def test_a_member_that_comes_back_empty_is_reported_though_it_was_only_away_at_first(
    autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    async with memory_cluster("abc") as servers:
        await create(servers)
        async with open_on(servers) as journal:
            await journal.put("a", b"1")
            await servers.down("c")
            await trio.sleep(10)
            await servers.wipe("c")
            await servers.up("c")
            await trio.sleep(30)
            told = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
            lost = [
                one["reason"]
                for one in told
                if one["event"] == "a member does not follow" and "c:7400" in one["member"]
            ]
            assert len(lost) == 2, "once that it is away, once that it must be replaced"
            assert "has lost the volume: replace the member" in lost[1]


async def test_a_change_that_fails_gives_the_volume_back_and_can_be_tried_again(autojump_clock: MockClock) -> None:
    async with memory_cluster("abcd") as servers:
        await create(servers, "abc", acknowledgements=3)
        async with open_on(servers, names="abc") as journal:
            await journal.put("x", b"1")
            before = journal.epoch
        namespace = await servers.servers["d"].store.namespace(VOLUME, create=True)
        fence = namespace.fence

        async def end(claim: Claim, **_: object) -> None:
            await servers.down("d")
            await fence(claim)

        namespace.fence = end  # type: ignore[method-assign]
        for _ in range(2):
            await servers.up("d")
            with pytest.raises(JournalError) as caught:
                await change(servers, "abc", joining="d:7400", leaving="c:7400")
            assert caught.value.code is JournalCode.UNAVAILABLE
            epoch, address = await board(servers).look_up(VOLUME)
            assert epoch > before
            assert address == GIVEN_BACK
        await servers.up("d")
        namespace.fence = fence  # type: ignore[method-assign]
        await change(servers, "abc", joining="d:7400", leaving="c:7400")
        assert await board(servers).look_up(VOLUME) > (epoch, "")


async def test_a_server_that_has_a_segment_of_an_attempt_can_still_become_a_member(autojump_clock: MockClock) -> None:
    """What an attempt that failed has left there is no other volume."""
    async with memory_cluster("abcd") as servers:
        await create(servers, "abc")
        await change(servers, "abc", joining="d:7400", leaving="c:7400")
        left = next(name for name in sorted(servers.objects("d"), reverse=True) if name.endswith(".seg"))
        stray = servers.objects("d")[left]
        async with open_on(servers, names="abd") as journal:
            await journal.put("x", b"1")
        await change(servers, "abd", joining="c:7400", leaving="d:7400")
        stray.name = f"{2**60:016x}{left[16:]}"
        servers.objects("d")[stray.name] = stray
        with pytest.raises(JournalError) as caught:  # a segment that is not what its name says is nobody's
            await change(servers, "abc", joining="d:7400", leaving="c:7400")
        assert caught.value.code is JournalCode.VOLUME_EXISTS
        del servers.objects("d")[stray.name]
        await change(servers, "abc", joining="d:7400", leaving="c:7400")


async def test_a_server_without_a_place_for_another_object_says_so_and_is_not_called_silent(
    autojump_clock: MockClock,
) -> None:
    async with memory_cluster() as servers:
        servers.servers["c"].store.namespace_objects_max = 0
        with pytest.raises(JournalError, match="the namespace has 0 objects") as caught:
            await create(servers)
        assert caught.value.code is JournalCode.NO_SPACE
    async with memory_cluster("abcd") as servers:
        await create(servers, "abc")
        async with open_on(servers, names="abc") as journal:
            await journal.put("x", b"1")
        servers.servers["d"].store.namespace_objects_max = 0
        with pytest.raises(JournalError, match="the namespace has 0 objects") as caught:
            await change(servers, "abc", joining="d:7400", leaving="c:7400")
        assert caught.value.code is JournalCode.NO_SPACE
        for name in "bc":
            servers.servers[name].store.namespace_objects_max = 0
        with pytest.raises(JournalError, match="full: b:7400, c:7400") as caught:
            async with open_on(servers, names="abc"):
                pass
        assert caught.value.code is JournalCode.NO_SPACE
        for name in "bc":
            servers.servers[name].store.namespace_objects_max = None
        async with open_on(servers, names="abc") as journal:
            assert await content(journal, "x") == b"1"


async def test_a_volume_whose_members_are_full_can_be_read_all_the_while(autojump_clock: MockClock) -> None:
    """A member that refuses appends is not one that does not answer. When there is room, what waited is made."""
    settings = JournalSettings(segment_bytes_max=64 << 10, tail_bytes_max=64 << 10)
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers, settings=settings) as journal, background() as nursery:
            for number in range(20):
                await journal.put(f"old/{number}", bytes([number]) * 10_000)
            for server in servers.servers.values():
                server.store.full = True
            nursery.start_soon(journal.put, "new", b"1")
            for number in range(20):
                await trio.sleep(0.3)
                began = trio.current_time()
                assert await content(journal, f"old/{number}") == bytes([number]) * 10_000
                assert trio.current_time() - began < 0.1
            assert "NO_SPACE" in journal.replicas.problems()
            for server in servers.servers.values():
                server.store.full = False
            await trio.sleep(5)
            assert await content(journal, "new") == b"1"
            assert journal.replicas.problems() == ""


async def test_a_member_that_is_full_and_goes_down_is_found_again(autojump_clock: MockClock) -> None:
    async with memory_cluster() as servers:
        await create(servers)
        async with open_on(servers) as journal:
            servers.servers["c"].store.full = True
            await journal.put("x", b"1")
            await trio.sleep(5)
            await servers.down("c")
            await journal.put("y", b"1")
            await trio.sleep(5)
            servers.servers["c"].store.full = False
            await servers.up("c")
            await trio.sleep(5)
            assert journal.replicas.problems() == ""
            assert all(one.lag_bytes == 0 for one in journal.replicas.status())
