"""What belongs to a batch in each shard, from logs that a test wrote: orders in which services may well write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal.copies.copies import open_directory_copy
from journal.copies.volume_reader import open_reader
from journal.errors import JournalCode, JournalError
from journal.records.change import DeleteChange, RenameChange
from journal.shards.cut import Era, cut_of
from tests.journal.cli.conftest import VolumeOnDisk
from tests.journal.cli.spread_on_disk import NAMES, SpreadOnDisk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def spread(tmp_path: Path) -> SpreadOnDisk:
    return SpreadOnDisk(tmp_path)


def test_a_snapshot_that_came_late_is_no_end(spread: SpreadOnDisk) -> None:
    """RocksDB uploads the snapshot of an earlier version while later ones are written."""
    for batch in range(4):
        spread.state(f"{batch + 1}.changelog")
        if batch == 2:
            spread.state("1.zip")
        spread.commit(batch)
    spread.save()
    assert spread.at("batch:2") == {"1.changelog", "2.changelog", "3.changelog", "1.zip"}
    assert spread.at("batch:1") == {"1.changelog", "2.changelog"}
    assert spread.at("batch:3") == {"1.changelog", "2.changelog", "3.changelog", "4.changelog", "1.zip"}


def test_a_batch_that_was_tried_again_is_whole(spread: SpreadOnDisk) -> None:
    spread.state("1.delta")
    spread.commit(0)
    spread.state("2.delta", content=b"first try")
    spread.state("2.delta", content=b"second try")
    spread.commit(1)
    spread.state("3.delta")
    spread.save()
    assert spread.text("q/state/0/1/2.delta", "batch:1") == "second try"
    assert spread.at("batch:1") == {"1.delta", "2.delta"}
    assert spread.at("now") == {"1.delta", "2.delta", "3.delta"}


def test_queries_are_cut_by_their_own_versions(spread: SpreadOnDisk) -> None:
    for batch in range(3):
        spread.state(f"{batch + 1}.delta", "fast")
        spread.commit(batch, "fast")
    spread.state("1.delta", "slow")
    spread.commit(0, "slow")
    spread.state("4.delta", "fast")
    spread.save()
    assert spread.at("batch:0", "slow") == {"1.delta"}
    assert spread.at("batch:1", "fast") == {"1.delta", "2.delta"}


def test_a_query_that_began_anew_is_not_mixed_with_the_one_before(spread: SpreadOnDisk) -> None:
    for run in (b"first", b"second", b"third"):
        for batch in range(3):
            spread.state(f"{batch + 1}.delta", content=run)
            spread.commit(batch)
        if run != b"third":
            spread.both(DeleteChange(path="q"), token=run.decode())
    spread.both(RenameChange(source="q", target="aside"), token="moved")
    spread.save()
    assert spread.at("batch:1") == {"1.delta", "2.delta"}
    assert spread.text("q/state/0/1/2.delta", "batch:1") == "third"
    assert spread.at("batch:2") == {"1.delta", "2.delta", "3.delta"}
    assert spread.at("now", "aside") == {"1.delta", "2.delta", "3.delta"}


def test_what_no_directory_of_the_first_shard_leads_to_is_not_there(spread: SpreadOnDisk) -> None:
    spread.commit(0)
    spread.state("1.delta", "left over")
    spread.save()
    assert spread.at("now", "") == set()


def test_a_shard_that_is_missing_is_named(spread: SpreadOnDisk) -> None:
    spread.commit(0)
    spread.home.save()
    assert NAMES[1] in spread.refusal("ls", "payments")


def test_two_sets_of_shards_are_told_apart_by_nobody(spread: SpreadOnDisk, tmp_path: Path) -> None:
    spread.commit(0)
    spread.save()
    VolumeOnDisk(tmp_path, name="payments.shard-0-of-3").save()
    assert "of 2 and 3 shards" in spread.refusal("ls", "payments")


def test_a_batch_of_several_queries_must_be_said_of_one(spread: SpreadOnDisk) -> None:
    for query in ("one", "two"):
        spread.state("1.delta", query)
        spread.commit(0, query)
    spread.save()
    assert "say which of one, two" in spread.refusal("ls", "payments", "--at", "batch:0")


@pytest.mark.parametrize(
    ("era", "versions"),
    [
        (Era(query="q", batch=0, after=None, before="one"), {1}),
        (Era(query="q", batch=0, after="two", before=None), {1}),
        (Era(query="q", batch=1, after=None, before=None, known=frozenset(), is_all=False), {1, 2}),
        (Era(query="q", batch=0, after=None, before="two", known=frozenset({"two"}), is_all=False), {1}),
    ],
)
async def test_what_the_first_shard_has_forgotten_does_not_end_a_batch(
    spread: SpreadOnDisk, tmp_path: Path, era: Era, versions: set[int]
) -> None:
    """A shard that keeps more of the past than HOME has versions of runs that HOME knows nothing of any more."""
    spread.home.put("q/metadata", b"")
    for run in ("one", "two", ""):
        for version in range(1, 4):
            spread.state(f"{version}.delta", content=run.encode())
        if run:
            spread.both(DeleteChange(path="q"), token=run)
            spread.home.put("q/metadata", b"")
    spread.save()
    async with open_directory_copy(tmp_path, NAMES[1]) as copy:
        reader = await open_reader(NAMES[1], [copy])
        image = await reader.image_at(await cut_of(reader, era))
    found = [status.path for status in image.tree.walk("q") if not status.is_directory]
    assert {int(path.rpartition("/")[2].removesuffix(".delta")) for path in found} == versions


async def test_a_shard_that_has_trimmed_a_batch_says_so(spread: SpreadOnDisk, tmp_path: Path) -> None:
    spread.state("1.delta")
    spread.save()
    async with open_directory_copy(tmp_path, NAMES[1]) as copy:
        reader = await open_reader(NAMES[1], [copy])
        with pytest.raises(JournalError) as caught:
            await cut_of(
                reader, Era(query="q", batch=0, after=None, before="a mark that went with what it stood after")
            )
    assert caught.value.code is JournalCode.OUT_OF_RETENTION
