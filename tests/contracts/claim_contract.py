"""What every `Volume` must do with claims on paths: fencing, and how it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from journal.errors import JournalCode
from journal.volume import PathClaim, Volume
from tests.contracts.volume_histories import NEW, OLD, content, operation
from tests.contracts.volume_requests import code_of, exists, put, stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class ClaimContract:
    async def test_a_later_claim_fences_the_earlier_one(self, volume: Volume) -> None:
        await volume.claim("q", OLD, operation=operation())
        await volume.put("q/1", b"old", overwrite=True, operation=operation(), claim=OLD)
        await volume.claim("q", NEW, operation=operation())
        zombie: list[Callable[[PathClaim | None], Awaitable[object]]] = [
            lambda c: volume.put("q/1", b"zombie", overwrite=True, operation=operation(), claim=c),
            lambda c: volume.put("q/new", b"zombie", overwrite=False, operation=operation(), claim=c),
            lambda c: stream(volume, "q/2", b"zombie", piece=3, claim=c),
            lambda c: volume.delete("q/1", recursive=False, operation=operation(), claim=c),
            lambda c: volume.delete("q", recursive=True, operation=operation(), claim=c),
            lambda c: volume.delete("", recursive=True, operation=operation(), claim=c),
            lambda c: volume.mkdirs("q/d", operation=operation(), claim=c),
            lambda c: volume.rename("q/1", "elsewhere", overwrite=True, operation=operation(), claim=c),
            lambda c: volume.rename("q", "elsewhere", overwrite=True, operation=operation(), claim=c),
            lambda c: volume.claim("q", c or OLD, operation=operation()),
        ]
        for change in zombie:
            for claim in (OLD, None):
                assert await code_of(change(claim)) is JournalCode.FENCED
        await volume.put("q/1", b"new", overwrite=True, operation=operation(), claim=NEW)
        assert await content(volume, "q/1") == b"new"
        assert [entry.path for entry in (await volume.list("")).entries] == ["q"]

    async def test_a_claim_is_decided_at_commit(self, volume: Volume) -> None:
        await volume.claim("q", OLD, operation=operation())
        write = await volume.open_write("q/state", overwrite=True, operation=operation(), claim=OLD)
        await write.write(b"of the old driver")
        await volume.claim("q", NEW, operation=operation())
        assert await code_of(write.commit()) is JournalCode.FENCED
        assert not await exists(volume, "q/state")

    async def test_other_trees_need_no_claim(self, volume: Volume) -> None:
        await volume.claim("q", NEW, operation=operation())
        await put(volume, "q2/f")
        await put(volume, "qq")
        await volume.put("r/f", b"", overwrite=False, operation=operation(), claim=OLD)

    async def test_the_same_claim_again_is_fine(self, volume: Volume) -> None:
        for _ in range(3):
            await volume.claim("q", NEW, operation=operation())

    async def test_a_claim_survives_the_tree(self, volume: Volume) -> None:
        await volume.claim("q", NEW, operation=operation())
        await volume.put("q/f", b"", overwrite=False, operation=operation(), claim=NEW)
        await volume.delete("q", recursive=True, operation=operation(), claim=NEW)
        asking = volume.put("q/f", b"", overwrite=False, operation=operation(), claim=OLD)
        assert await code_of(asking) is JournalCode.FENCED

    async def test_a_claim_ends_with_its_path(self, volume: Volume) -> None:
        for way in ("q", "above/q"):
            await volume.put(f"{way}/f", b"", overwrite=False, operation=operation())
            await volume.claim(way, NEW, operation=operation())
        await volume.delete("q", recursive=True, operation=operation(), claim=NEW)
        await volume.rename("above", "below", overwrite=False, operation=operation(), claim=NEW)
        assert (await volume.claims()).claims == ()
        for way in ("q", "above/q", "below/q"):
            await volume.put(f"{way}/again", b"", overwrite=True, operation=operation())
        for way in ("q", "above/q"):
            asking = volume.put(f"{way}/again", b"", overwrite=True, operation=operation(), claim=OLD)
            assert await code_of(asking) is JournalCode.FENCED
            asking_again = volume.claim(way, OLD, operation=operation())
            assert await code_of(asking_again) is JournalCode.FENCED
            await volume.claim(way, NEW, operation=operation())

    async def test_a_released_path_is_anybodys_but_an_older_drivers(self, volume: Volume) -> None:
        await volume.claim("q", OLD, operation=operation())
        await volume.claim("q", NEW, operation=operation())
        await volume.put("q/f", b"", overwrite=False, operation=operation(), claim=NEW)
        assert await code_of(volume.release("q", OLD, operation=operation())) is JournalCode.FENCED
        again = operation()
        assert await volume.release("q", NEW, operation=again)
        assert await volume.release("q", NEW, operation=again)
        assert not await volume.release("q", NEW, operation=operation())
        assert not await volume.release("q/f", NEW, operation=operation())
        asking = volume.put("q/f", b"zombie", overwrite=True, operation=operation(), claim=OLD)
        assert await code_of(asking) is JournalCode.FENCED
        await volume.rename("q", "kept", overwrite=False, operation=operation())
        assert await volume.delete("kept", recursive=True, operation=operation())

    async def test_claims_are_listed_in_order_and_in_pages(self, volume: Volume) -> None:
        for path, claim in (("c", NEW), ("a/b", OLD), ("a", OLD), ("c", NEW)):
            await volume.claim(path, claim, operation=operation())
        assert [(one.path, one.claim) for one in (await volume.claims()).claims] == [
            ("a", OLD),
            ("a/b", OLD),
            ("c", NEW),
        ]
        first = await volume.claims(limit=2)
        assert (len(first.claims), first.more) == (2, True)
        rest = await volume.claims(after="a/b", limit=2)
        assert ([one.path for one in rest.claims], rest.more) == (["c"], False)

    async def test_the_root_and_the_future_cannot_be_claimed(self, volume: Volume) -> None:
        assert await code_of(volume.claim("", NEW, operation=operation())) is JournalCode.BAD_REQUEST
        for start_time in (2**63 - 1, time.time_ns() // 1_000_000 + 3600_000):
            future = PathClaim(application="app-future", start_time=start_time)
            assert await code_of(volume.claim("q", future, operation=operation())) is JournalCode.BAD_REQUEST
        await volume.claim("q", NEW, operation=operation())
        skewed = PathClaim(application="app-ahead", start_time=time.time_ns() // 1_000_000 + 60_000)
        await volume.claim("q", skewed, operation=operation())
