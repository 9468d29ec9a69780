"""Directories with many children: what is asked of them as a whole stays cheap, and right."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from journal import nodes, preconditions
from journal.change import Delete, MakeDirectory, Put, Rename
from journal.errors import JournalCode, RefusedByVolumeError
from journal.index_snapshot import decode_snapshot, encode_snapshot
from journal.nodes import Directory
from journal.preconditions import check_make_directories, check_rename, check_write
from tests.journal.test_image import Written

if TYPE_CHECKING:
    from journal.image import Image


@pytest.mark.parametrize("seed", range(20))
def test_names_stay_sorted_through_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    directory = Directory(0)
    for _ in range(chance.choice([50, 3000])):
        name = str(chance.randrange(300))
        if chance.random() < 0.6:
            directory.add(name, nodes.pack_file(1, b""))
        else:
            directory.remove(name)
        if chance.random() < 0.1:
            after = chance.choice(["", name])
            wanted = [one for one in sorted(directory.children) if one > after]
            assert directory.names_after(after, 1000) == wanted


def _count(image: Image) -> tuple[int, int]:
    statuses = list(image.tree.walk())
    return sum(not one.is_directory for one in statuses), sum(one.is_directory for one in statuses) - 1


def test_files_and_directories_are_counted_through_any_changes() -> None:
    written = Written()
    for number in range(5):
        written.add(Put(path=f"a/{number}/b/file"), b"x" * number)
    written.add(MakeDirectory(path="c/d/e"))
    for change in (Rename(source="a/1", target="moved/here"), Delete(path="a/2"), Delete(path="a/3/b/file")):
        written.add(change)
        for image in (written.image, written.image.copy(), decode_snapshot(encode_snapshot(written.image))):
            assert (image.tree.file_count, image.tree.directory_count) == _count(image)
    written.add(Delete(path=""))
    assert (written.image.tree.file_count, written.image.tree.directory_count) == (0, 0)
    assert written.image.tree.objects_in_use() == {}


def test_beyond_the_number_of_directories_none_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "DIRECTORIES_MAX", 5)
    written = Written()
    written.add(MakeDirectory(path="a/b/c"))
    written.add(Put(path="a/file"))
    image = written.image
    check_make_directories(image, "a/b/c/d/e", claim=None)
    check_make_directories(image, "a", claim=None)
    check_write(image, "a/b/c/new", overwrite=False, claim=None)
    for check in (
        lambda: check_make_directories(image, "x/y/z", claim=None),
        lambda: check_write(image, "x/y/z/file", overwrite=False, claim=None),
        lambda: check_rename(image, "a/file", "x/y/z/file", overwrite=False, claim=None),
    ):
        with pytest.raises(RefusedByVolumeError, match="directories, and no room for more") as caught:
            check()
        assert caught.value.code is JournalCode.TOO_LARGE


def test_beyond_the_number_of_files_none_is_written_but_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "FILES_MAX", 1)
    written = Written()
    written.add(Put(path="file"))
    check_write(written.image, "file", overwrite=True, claim=None)
    check_rename(written.image, "file", "elsewhere", overwrite=False, claim=None)
    with pytest.raises(RefusedByVolumeError, match="files, and no room for more"):
        check_write(written.image, "another", overwrite=False, claim=None)


_LONG = "/".join(["y" * 255] * 15) + "/t"  # leaves room for a slash and 254 bytes


@pytest.mark.parametrize(
    ("below", "target", "fits"),
    [
        ("x" * 254, _LONG, True),
        ("é" * 127, _LONG, True),
        ("x" + "é" * 127, _LONG, False),
        ("d/" + "x" * 253, _LONG, False),
        ("d/" * 126 + "f", "longer", True),
        ("d/" * 126 + "f", "t/t", False),
    ],
)
def test_a_rename_that_makes_paths_too_long_is_refused(below: str, target: str, *, fits: bool) -> None:
    written = Written()
    written.add(Put(path=f"s/{below}"))
    if fits:
        assert check_rename(written.image, "s", target, overwrite=False, claim=None)
        return
    with pytest.raises(RefusedByVolumeError) as caught:
        check_rename(written.image, "s", target, overwrite=False, claim=None)
    assert caught.value.code is JournalCode.BAD_PATH


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_the_size_of_a_file_is_that_of_all_its_extents(count: int) -> None:
    chance = random.Random(count)
    numbers = [
        (chance.getrandbits(32), chance.getrandbits(63), chance.getrandbits(32), 2**32 - 1) for _ in range(count)
    ]
    file = nodes.pack_file(2**63 - 1, b"".join(nodes.pack_extent(*one) for one in numbers))
    assert list(nodes.extents_of(file)) == numbers
    assert nodes.size_of(file) == sum(length for _, _, length, _ in numbers)


def test_one_huge_directory_holds_nobody_up_for_long() -> None:
    """Processor time: a tenth of a second each would be felt by every client of the service."""
    written = Written()
    tree = written.image.tree
    number = tree.use("x", 1)
    chance = random.Random(1)
    for _ in range(100_000):
        file = nodes.pack_one_extent_file(5, number, 0, 1, 7)
        tree.publish(f"big/{chance.randrange(10**12):012}-a-name-as-long-as-many", file, time_ms=1)
    tree.list_page("big")
    tree.publish("big/one-more", nodes.pack_file(5, b""), time_ms=2)
    began = time.process_time()
    tree.list_page("big")
    listed = time.process_time() - began
    check_rename(written.image, "big", "bigger/than/before", overwrite=False, claim=None)
    tree.rename("big", "bigger/than/before", time_ms=3)
    renamed = time.process_time() - began - listed
    tree.delete("bigger", time_ms=4)
    deleted = time.process_time() - began - listed - renamed
    assert max(listed, renamed, deleted) < 0.3, (listed, renamed, deleted)
