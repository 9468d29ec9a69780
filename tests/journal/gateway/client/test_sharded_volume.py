"""A volume that is spread over shards keeps the contract of one, with paths that make requests go to all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
import trio

from journal.errors import JournalCode, JournalError, journal_error
from journal.gateway.client.client import ClientSettings
from journal.gateway.client.opening import open_whole_volume
from journal.gateway.client.sharded_volume import ShardedVolume
from journal.records.shards import moves_within_shards, shard_of, shards_of
from journal.volume import PathClaim
from tests.contracts.file_protocol_contract import FileProtocolContract
from tests.contracts.volume_histories import NEW, OLD, Change, ModelContract, content, operation
from tests.contracts.volume_requests import code_of, exists, put, stream
from tests.fakes.memory_volume import MemoryVolume
from tests.fakes.memory_volumes import MemoryVolumes
from tests.fakes.serve_memory_volume import gateway_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from journal.volume import Volume

SHARDS = shards_of("payments", 3)


class ShardsInMemory(MemoryVolumes):
    """As a service's, which says how many shards there are when the volume itself is asked for."""

    def owned(self, name: str) -> MemoryVolume:
        try:
            return super().owned(name)
        except JournalError as error:
            error.fields |= {"shards": len(SHARDS)} if name == "payments" else {}
            raise


@pytest.fixture
def shards() -> list[MemoryVolume]:
    return [MemoryVolume(name=shard.name) for shard in SHARDS]


@pytest.fixture
async def volume(shards: list[MemoryVolume], nursery: trio.Nursery) -> AsyncIterator[ShardedVolume]:
    gateway = gateway_over(ShardsInMemory(*shards))

    async def dial(address: str) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        nursery.start_soon(lambda: gateway.talk(there, peer=address))
        return here

    async with open_whole_volume(["memory"], "payments", dial=dial) as volume:
        assert isinstance(volume, ShardedVolume)
        yield volume


class TestContract(FileProtocolContract):
    @pytest.fixture
    def volume(self, volume: ShardedVolume) -> Volume:
        return volume


class TestContractWithPartitions(ModelContract):
    """The random histories again, with files in partitions of all shards, and directories above them."""

    paths: ClassVar[Sequence[str]] = [
        "a", "a/m", "a/state", "a/state/0", "a/state/0/1/x", "a/state/0/2/y",
        "b", "b/m", "b/state/0/1/x", "b/state/0/2", "b/state/1/1/deep/er", "",
    ]  # fmt: skip

    def may_be_made(self, change: Change) -> bool:
        kind, (path, other, *_) = change
        assert isinstance(path, str)
        assert isinstance(other, str)
        if kind == "rename":
            return other != "b" and moves_within_shards(path, other, len(SHARDS))
        return path != "b" or kind not in ("put", "stream")  # a claim on a file is known to its shard alone

    @pytest.fixture
    def volume(self, volume: ShardedVolume) -> Volume:
        return volume


PARTITION_PATHS = [f"q/state/0/{partition}/1.delta" for partition in range(6)]


async def test_partitions_go_round_the_shards_and_all_else_is_at_home(
    volume: ShardedVolume, shards: list[MemoryVolume]
) -> None:
    for path in ["q/metadata", "q/offsets/0", "q/state/0/_metadata/metadata", *PARTITION_PATHS]:
        await put(volume, path, path.encode())
    for number, shard in enumerate(shards):
        mine = {path for path in shard.tree if path in PARTITION_PATHS}
        assert mine == {f"q/state/0/{partition}/1.delta" for partition in (number, number + 3)}
    assert set(shards[0].tree) >= {"q/metadata", "q/offsets/0", "q/state/0/_metadata/metadata"}
    assert [await content(volume, path) for path in PARTITION_PATHS] == [path.encode() for path in PARTITION_PATHS]
    listed = [entry.path for entry in (await volume.list("q/state/0")).entries]
    assert listed == [*(f"q/state/0/{partition}" for partition in range(6)), "q/state/0/_metadata"]
    assert [entry.path for entry in (await volume.list("q/state")).entries] == ["q/state/0"]


async def test_a_listing_of_partitions_goes_on_page_by_page(volume: ShardedVolume) -> None:
    for partition in range(25):
        await put(volume, f"q/state/3/{partition}/1.zip")
    names: list[str] = []
    more = True
    while more:
        page = await volume.list("q/state/3", after=names[-1] if names else "", limit=4)
        assert len(page.entries) <= 4
        names += [entry.path.rpartition("/")[2] for entry in page.entries]
        more = page.more
    assert names == sorted(str(partition) for partition in range(25))


async def test_a_checkpoint_is_moved_and_deleted_in_all_shards(
    volume: ShardedVolume, shards: list[MemoryVolume]
) -> None:
    for path in PARTITION_PATHS:
        await put(volume, path, path.encode())
    await volume.rename("q", "elsewhere/q2", overwrite=False, operation=operation())
    assert not await exists(volume, "q")
    for path in PARTITION_PATHS:
        assert await content(volume, f"elsewhere/{path.replace('q/', 'q2/', 1)}") == path.encode()
    assert await volume.delete("elsewhere", recursive=True, operation=operation())
    assert all(not any("delta" in path for path in shard.tree) for shard in shards)
    tokens = [[mark["spread_change"] for mark in shard.marks] for shard in shards]
    assert len(tokens[0]) == 2
    assert tokens[0] == tokens[1] == tokens[2]


async def test_a_rename_that_home_refuses_leaves_all_where_it_was(volume: ShardedVolume) -> None:
    for path in PARTITION_PATHS:
        await put(volume, path)
    await put(volume, "file")
    renaming = volume.rename("q", "file/q", overwrite=False, operation=operation())
    assert await code_of(renaming) is JournalCode.NOT_DIRECTORY
    assert [await exists(volume, path) for path in PARTITION_PATHS] == [True] * 6


@pytest.mark.parametrize("code", [JournalCode.NO_SPACE, JournalCode.DAMAGED, JournalCode.LOST])
async def test_what_is_wrong_with_a_shard_names_it_and_hurts_no_other(
    volume: ShardedVolume, shards: list[MemoryVolume], code: JournalCode
) -> None:
    async def broken() -> None:
        await trio.lowlevel.checkpoint()
        raise journal_error(code, "the disk is not what it should be")

    shards[1].before_answer = broken
    putting = volume.put("q/state/0/1/1.delta", b"", overwrite=True, operation=operation())
    with pytest.raises(JournalError, match=r"^payments.shard-1-of-3: the disk is not what it should be$") as caught:
        await putting
    assert caught.value.code is code
    for path in ("q/state/0/0/1.delta", "q/state/0/2/1.delta", "q/offsets/0"):
        await put(volume, path)


async def test_a_shard_that_is_away_is_named_within_a_bounded_time(
    shards: list[MemoryVolume], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Its own service does not answer; the others' say that it is none of theirs."""
    gateways = [gateway_over(ShardsInMemory(shard)) for shard in shards]

    async def dial(address: str) -> trio.abc.Stream:
        if address == "1":
            raise OSError("connection refused")
        here, there = trio.testing.memory_stream_pair()
        nursery.start_soon(lambda: gateways[int(address)].talk(there, peer=address))
        return here

    settings = ClientSettings(seconds=20)
    async with open_whole_volume(["0", "1", "2"], "payments", dial=dial, settings=settings) as volume:
        began = trio.current_time()
        for asking in (
            volume.stat("q/state/0/1/1.delta"),
            volume.put("q/state/0/1/1.delta", b"", overwrite=True, operation=volume.new_operation()),
            volume.list("q/state/0"),
            volume.claims(),
            volume.delete("q", recursive=True, operation=volume.new_operation()),
            volume.claim("q", PathClaim(application="app", start_time=1), operation=volume.new_operation()),
        ):
            with pytest.raises(JournalError, match=r"payments\.shard-1-of-3: no answer within 20 s"):
                await asking
        assert trio.current_time() - began <= 6 * 21
        await put(volume, "other/state/0/2/1.delta")


async def test_what_a_rename_that_was_cut_short_has_left_is_named_and_can_be_deleted(
    volume: ShardedVolume, shards: list[MemoryVolume]
) -> None:
    """Another rename to the same path, as of a fork that is done again: HOME has nothing there, one shard has."""
    for path in PARTITION_PATHS:
        await put(volume, path)
    await put(volume, "left/state/0/1/1.delta")
    await volume.volumes[1].rename("left", "q2", overwrite=False, operation=operation())
    renaming = volume.rename("q", "q2", overwrite=False, operation=operation())
    with pytest.raises(JournalError, match=r"payments.shard-1-of-3 has something at q2/.* `sos-journal rm -r`"):
        await renaming
    assert [await exists(volume, path) for path in PARTITION_PATHS] == [True] * 6
    assert not await volume.delete("q2", recursive=False, operation=operation())
    assert await volume.delete("q2", recursive=True, operation=operation())
    assert not any(path.startswith("q2") for shard in shards for path in shard.tree)
    assert not await volume.delete("q2", recursive=True, operation=operation())
    await volume.rename("q", "q2", overwrite=False, operation=operation())
    assert await exists(volume, "q2/state/0/1/1.delta")


async def test_a_rename_that_was_cut_short_is_made_again(volume: ShardedVolume) -> None:
    """One shard has done it, HOME has not: who asks again gets it done."""
    for path in PARTITION_PATHS:
        await put(volume, path)
    await volume.volumes[1].rename("q", "q2", overwrite=False, operation=operation())
    await volume.rename("q", "q2", overwrite=False, operation=operation())
    assert [await exists(volume, path.replace("q/", "q2/", 1)) for path in PARTITION_PATHS] == [True] * 6


async def test_directories_that_were_left_empty_are_not_in_the_way(volume: ShardedVolume) -> None:
    await put(volume, "old/state/0/1/x")
    await volume.delete("old/state/0/1", recursive=True, operation=operation())
    for directory in ("old/state/0", "old/state", "old"):
        assert await volume.delete(directory, recursive=False, operation=operation())
    await put(volume, "q/state/0/1/x")
    await volume.rename("q", "old", overwrite=False, operation=operation())
    assert await exists(volume, "old/state/0/1/x")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("q/state/0/1", "q/state/0/2"),
        ("q/state/0/1", "q/other"),
        ("q/state/0/1", "q/there"),
        ("q/state/0", "q/state/1"),
        ("q/state", "q/old-state"),
        ("q/state/0/1/1.delta", "q/state/0/2/1.delta"),
    ],
)
async def test_what_would_have_to_leave_its_shard_is_not_renamed(
    volume: ShardedVolume, source: str, target: str
) -> None:
    await put(volume, "q/state/0/1/1.delta")
    await put(volume, "q/state/1/2/1.delta")
    await volume.delete("q/state/1", recursive=True, operation=operation())
    await volume.mkdirs("q/there", operation=operation())
    renaming = volume.rename(source, target, overwrite=True, operation=operation())
    assert await code_of(renaming) is JournalCode.BAD_REQUEST
    assert await exists(volume, "q/state/0/1/1.delta")


async def test_a_rename_inside_a_partition_is_one_request(volume: ShardedVolume) -> None:
    """As Spark's own managers make them: the temporary file and its name are in one shard."""
    await stream(volume, "q/state/0/1/.1.delta.tmp", b"state", piece=2)
    await volume.rename("q/state/0/1/.1.delta.tmp", "q/state/0/1/1.delta", overwrite=True, operation=operation())
    assert await content(volume, "q/state/0/1/1.delta") == b"state"


async def test_one_claim_is_checked_by_every_shard(volume: ShardedVolume) -> None:
    await volume.claim("q", OLD, operation=operation())
    await volume.claim("q", NEW, operation=operation())
    for path in ["q/offsets/0", *PARTITION_PATHS]:
        putting = volume.put(path, b"", overwrite=True, operation=operation(), claim=OLD)
        assert await code_of(putting) is JournalCode.FENCED
    for path in ["q/offsets/0", *PARTITION_PATHS]:
        await volume.put(path, b"", overwrite=True, operation=operation(), claim=NEW)
    assert [one.path for one in (await volume.claims()).claims] == ["q"]
    assert await volume.release("q", NEW, operation=operation())
    assert (await volume.claims()).claims == ()
    for shard in volume.volumes:
        assert (await shard.claims()).claims == ()


async def test_a_shard_that_is_away_stops_only_its_own_partitions(
    volume: ShardedVolume, shards: list[MemoryVolume]
) -> None:
    shards[1].room = trio.Event()  # changes wait there
    with trio.move_on_after(0.2) as waited:
        await put(volume, PARTITION_PATHS[1])
    assert waited.cancelled_caught
    for path in ("q/offsets/1", PARTITION_PATHS[0], PARTITION_PATHS[2]):
        await put(volume, path)


def test_the_shard_of_a_path_is_the_same_wherever_a_checkpoint_lies() -> None:
    inside = ["state/0/7/1.delta", "state/12/7/left/1.zip", "state/0/7", "offsets/3", "state/0/_metadata/x"]
    for path in inside:
        assert {shard_of(path, 5), shard_of(f"a/b/{path}", 5)} == {shard_of(f"q.rewound-1/{path}", 5)}
    assert [shard_of(path, 5) for path in inside] == [2, 4, 2, 0, 0]
