"""Directories with many children: what is asked of them as a whole stays cheap, and right."""

from __future__ import annotations

import random
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from journal.errors import JournalCode, RefusedByVolumeError
from journal.image import nodes, preconditions
from journal.image.file_tree import FileTree
from journal.image.index_snapshot import decode_snapshot, encode_snapshot
from journal.image.nodes import Directory
from journal.image.preconditions import (
    check_append,
    check_claim,
    check_delete,
    check_make_directories,
    check_rename,
    check_write,
)
from journal.records.change import AppendChange, DeleteChange, MakeDirectoryChange, PutChange, RenameChange
from journal.records.paths import name_of
from journal.volume import PathClaim
from tests.journal.image.test_image import Written

if TYPE_CHECKING:
    from journal.image.image import Image


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


def _kept_bytes(image: Image) -> int:
    every = nodes.walk("", image.tree.root)
    return sum(nodes.bytes_of_node(name_of(path), node) for path, node in every if path)


def test_files_and_directories_are_counted_through_any_changes() -> None:
    written = Written()
    for number in range(5):
        written.add(PutChange(path=f"a/{number}/b/file"), b"x" * number)
    written.add(MakeDirectoryChange(path="c/d/e"))
    for change in (
        RenameChange(source="a/1", target="moved/here"),
        DeleteChange(path="a/2"),
        DeleteChange(path="a/3/b/file"),
    ):
        written.add(change)
        for image in (written.image, written.image.copy(), decode_snapshot(encode_snapshot(written.image))):
            assert (image.tree.file_count, image.tree.directory_count) == _count(image)
            assert image.tree.kept_bytes == _kept_bytes(image)
    written.add(AppendChange(path="moved/here/b/file", size=1), b"more")
    assert written.image.tree.kept_bytes == _kept_bytes(written.image)
    written.add(PutChange(path="moved/here/b/file"), b"over")
    written.add(PutChange(path="wide/\N{GRINNING FACE}x"))
    for image in (written.image, written.image.copy(), decode_snapshot(encode_snapshot(written.image))):
        assert image.tree.kept_bytes == _kept_bytes(image)
    written.add(DeleteChange(path=""))
    tree = written.image.tree
    assert (tree.file_count, tree.directory_count, tree.kept_bytes) == (0, 0, 0)
    assert written.image.tree.objects_in_use() == {}


def test_beyond_the_memory_for_a_tree_nothing_is_added_to_it() -> None:
    written = Written()
    written.add(MakeDirectoryChange(path="a/b/c"))
    written.add(PutChange(path="a/file"), b"x")
    image = written.image
    time_ms = written.image.tree.stat("a/file").modified_ms
    later = PathClaim(start_time=1, application="query")
    adding = (
        lambda: check_make_directories(image, "x/y/z", claim=None),
        lambda: check_write(image, "x/y/z/file", overwrite=False, claim=None),
        lambda: check_write(image, "a/b/c/new", overwrite=False, claim=None),
        lambda: check_rename(image, "a/file", "x/y/z/file", overwrite=False, claim=None),
        lambda: check_rename(image, "a/file", "a/a-longer-name", overwrite=False, claim=None),
        lambda: check_append(image, "a/file", size=1, modified_ms=time_ms, claim=None),
        lambda: check_claim(image, "a", later, now_ms=10),
    )
    for room in (1 << 20, 10_000):
        image.tree_bytes_max = image.tree_bytes + room
        for check in adding:
            check()
    image.tree_bytes_max = image.tree_bytes
    for check in adding:
        with pytest.raises(RefusedByVolumeError, match="no room for more: delete some") as caught:
            check()
        assert caught.value.code is JournalCode.TOO_LARGE
    image.tree_bytes_max = 1  # as after a restart with less
    check_make_directories(image, "a", claim=None)
    check_write(image, "a/file", overwrite=True, claim=None)
    check_rename(image, "a/file", "a/b/move", overwrite=False, claim=None)
    check_delete(image, "a", recursive=True, claim=None)


@pytest.mark.parametrize("name", ["{}", "{:0255}", "{:0250}\N{GRINNING FACE}"], ids=["short", "long", "wide"])
def test_what_files_and_directories_take_is_what_is_counted(name: str) -> None:
    """In two trees, as the writer has them: one for what is pending, one for what is acknowledged."""
    for make in (_put, FileTree.make_directories, _make_deep):
        trees = FileTree(), FileTree()
        tracemalloc.start()
        try:
            for number in range(22_000):  # a dictionary has just grown: it has the most room that it does not need
                for tree in trees:
                    make(tree, f"d/{name.format(number)}", time_ms=1_700_000_000_000 + number)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert 0.7 * trees[0].kept_bytes < taken < trees[0].kept_bytes


def _make_deep(tree: FileTree, path: str, *, time_ms: int) -> None:
    tree.make_directories(f"{path}/{path[2:]}", time_ms=time_ms)


def _put(tree: FileTree, path: str, *, time_ms: int) -> None:
    tree.publish(path, nodes.pack_one_extent_file(time_ms, tree.use("o", 1), 1, 1, 1), time_ms=time_ms)


def test_what_has_gone_from_a_directory_takes_no_room() -> None:
    names = [f"{number:0255}" for number in range(1000)]
    tracemalloc.start()
    try:
        directories = [Directory(0) for _ in range(20)]
        before, _ = tracemalloc.get_traced_memory()
        for directory in directories:
            for name in names:
                directory.add(name, b"")
            for name in names[2:]:
                directory.remove(name)
            directory.names_after("", 1)
            for name in names[2:300]:
                directory.add(name[1:] + "x", b"")
                directory.remove(name[1:] + "x")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20 * 4000


def test_beyond_the_number_of_files_none_is_written_but_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "FILES_MAX", 1)
    written = Written()
    written.add(PutChange(path="file"))
    check_write(written.image, "file", overwrite=True, claim=None)
    check_rename(written.image, "file", "elsewhere", overwrite=False, claim=None)
    with pytest.raises(RefusedByVolumeError, match="has 1 files: delete some"):
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
    written.add(PutChange(path=f"s/{below}"))
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
