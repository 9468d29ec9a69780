"""Batches and state by names and times alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.checkpoint.operator_metadata import OperatorStores
from journal.image import nodes
from journal.image.file_tree import FileTree
from journal.owner import query_facts
from journal.owner.query_facts import BatchTimes, batches_of, find_queries, last_commits, state_of

if TYPE_CHECKING:
    import pytest


def tree_of(*paths: tuple[str, int]) -> FileTree:
    tree = FileTree()
    for path, time_ms in paths:
        tree.publish(path, nodes.pack_file(time_ms, b""), time_ms=time_ms)
    return tree


def test_queries_are_where_batches_are() -> None:
    tree = tree_of(
        ("q1/offsets/0", 1), ("q1/state/0/0/1.delta", 1), ("q1/nested/offsets/3", 1), ("a/b/commits/7", 1),
        ("files/offsets/readme", 1), ("plain", 1),
    )  # fmt: skip
    assert find_queries(tree) == ["a/b", "q1"]
    assert find_queries(tree_of(("offsets/0", 1))) == [""]
    assert find_queries(FileTree()) == []


def test_a_tree_that_is_no_sparks_is_not_searched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_facts, "DIRECTORIES_MAX", 3)
    assert find_queries(tree_of(*((f"d{number}/offsets/0", 1) for number in range(50)))) != []
    assert len(find_queries(tree_of(*((f"d{number}/offsets/0", 1) for number in range(50))))) == 2


def test_batches_by_their_files() -> None:
    tree = tree_of(
        ("q/offsets/0", 1000), ("q/commits/0", 1500), ("q/offsets/1", 2000), ("q/commits/.1.crc", 1),
        ("q/offsets/x/1", 1),
    )  # fmt: skip
    assert batches_of(tree, "q") == {
        0: BatchTimes(number=0, planned_ms=1000, committed_ms=1500),
        1: BatchTimes(number=1, planned_ms=2000),
    }
    assert batches_of(tree, "nothing") == {}
    assert batches_of(tree_of(("q/offsets/3/4", 1)), "q") == {}
    first, second = batches_of(tree, "q").values()
    assert (first.took_ms, second.took_ms) == (500, None)
    assert first.as_json() == [0, 1000, 1500]
    assert BatchTimes(number=1, planned_ms=9, committed_ms=8).took_ms == 0  # a clock that was set back


def test_the_last_commit_of_each_query() -> None:
    tree = tree_of(
        ("a/commits/9", 900), ("a/commits/10", 1000), ("a/commits/x", 5), ("b/offsets/0", 1), ("c/commits", 1)
    )
    tree.publish("d/offsets/0", nodes.pack_file(1, b""), time_ms=1)
    tree.make_directories("d/commits", time_ms=1)
    assert last_commits(tree) == {"a": 1000}


def test_state_is_counted_and_what_a_start_replays() -> None:
    tree = tree_of(*((f"q/state/0/{partition}/{version}.delta", 1) for partition in (0, 1) for version in range(1, 6)))
    tree.publish("q/state/0/1/4.snapshot", nodes.pack_file(1, b""), time_ms=1)
    tree.publish("q/state/1/0/left/2.changelog", nodes.pack_file(1, b""), time_ms=1)
    statuses = [status for status in tree.walk("q") if not status.is_directory]
    named = {0: OperatorStores(operator=0, name="stateStoreSave", stores={"default": 2})}
    found = [size.as_json() for size in state_of("q", statuses, named)]
    assert found == [
        {"operator": 0, "store": "", "name": "stateStoreSave", "partitions": 2, "files": 11, "bytes": 0, "version": 5,
         "changelogs": 6},
        {"operator": 1, "store": "left", "name": "", "partitions": 1, "files": 1, "bytes": 0, "version": 2,
         "changelogs": 1},
    ]  # fmt: skip
    assert state_of("", [status for status in tree_of(("state/0/0/1.zip", 1)).walk() if not status.is_directory])
    assert state_of("q", [status for status in tree_of(("q/metadata", 1)).walk("q") if not status.is_directory]) == []
