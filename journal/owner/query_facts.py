"""What a tree of files says of its queries by names and times, without reading a byte: batches and state. Pure.

Spark keeps the plans and commits of its last hundred batches in the tree; what it has purged is in the log (log_past).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.checkpoint.layout import DEFAULT_STORE, state_file_of
from journal.image import nodes
from journal.image.file_tree import status_of
from journal.records.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from journal.checkpoint.layout import StateFile
    from journal.checkpoint.operator_metadata import OperatorStores
    from journal.image.file_tree import FileTree
    from journal.volume import FileStatus

QUERIES_MAX: Final = 200
DIRECTORIES_MAX: Final = 20_000
"""Looked at when queries are searched; a tree with more directories above its checkpoints is not Spark's."""


@dataclass(slots=True, kw_only=True)
class BatchTimes:
    """When a batch was planned and committed, in milliseconds since 1970, as far as it is known."""

    number: int
    planned_ms: int | None = None
    committed_ms: int | None = None

    @property
    def took_ms(self) -> int | None:
        if self.planned_ms is None or self.committed_ms is None:
            return None
        return max(0, self.committed_ms - self.planned_ms)

    def as_json(self) -> list[int | None]:
        return [self.number, self.planned_ms, self.committed_ms]


def find_queries(tree: FileTree) -> list[str]:
    """The directories that have an offset or a commit log, in order; none of them within another."""
    found: list[str] = []
    todo: list[tuple[str, nodes.Directory]] = [("", tree.root)]
    seen = 0
    while todo and seen < DIRECTORIES_MAX and len(found) < QUERIES_MAX:
        path, directory = todo.pop()
        seen += 1
        below = {name: node for name, node in directory.children.items() if isinstance(node, nodes.Directory)}
        if any(_has_numbers(below.get(log)) for log in ("offsets", "commits")):
            found.append(path)
        else:
            todo += [(join(path, name), node) for name, node in below.items()]
    return sorted(found)


def _has_numbers(directory: nodes.Directory | None) -> bool:
    return directory is not None and any(_number(name) is not None for name in directory.children)


def _number(name: str) -> int | None:
    return int(name) if name.isdecimal() and name.isascii() and len(name) <= 18 else None


def batches_of(tree: FileTree, query: str) -> dict[int, BatchTimes]:
    """The batches whose plans or commits are in the tree, by number."""
    found: dict[int, BatchTimes] = {}
    for log in ("offsets", "commits"):
        directory = nodes.find(tree.root, join(query, log))
        if not isinstance(directory, nodes.Directory):
            continue
        for name, node in directory.children.items():
            number = _number(name)
            if number is None or isinstance(node, nodes.Directory):
                continue
            batch = found.setdefault(number, BatchTimes(number=number))
            modified_ms = status_of(name, node).modified_ms
            if log == "offsets":
                batch.planned_ms = modified_ms
            else:
                batch.committed_ms = modified_ms
    return found


def last_commits(tree: FileTree) -> dict[str, int]:
    """Of each query when it has committed its last batch; those that have committed none are missing."""
    found = {}
    for query in find_queries(tree):
        directory = nodes.find(tree.root, join(query, "commits"))
        if isinstance(directory, nodes.Directory):
            named = [(number, name) for name in directory.children if (number := _number(name)) is not None]
            if named:
                found[query] = nodes.modified_ms_of(directory.children[max(named)[1]])
    return found


@dataclass(slots=True, kw_only=True)
class StateSize:
    """The state of one operator (of one store of it)."""

    operator: int
    store: str
    name: str = ""
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    version: int = 0
    replayed: int = 0
    """Changelogs that the next start reads, of all partitions together, beside one whole file of each."""

    def as_json(self) -> dict[str, object]:
        return {
            "operator": self.operator, "store": self.store, "name": self.name, "partitions": self.partitions,
            "files": self.files, "bytes": self.bytes, "version": self.version, "changelogs": self.replayed,
        }  # fmt: skip


def state_of(
    query: str, statuses: Iterable[FileStatus], operators: Mapping[int, OperatorStores] | None = None
) -> list[StateSize]:
    """From all files below the query. `operators`: what their metadata says, where it was read."""
    prefix = f"{query}/" if query else ""
    sizes: dict[tuple[int, str], StateSize] = {}
    versions: dict[tuple[int, str], dict[int, list[StateFile]]] = {}
    for status in statuses:
        file = state_file_of(status.path[len(prefix) :])
        if file is None:
            continue
        key = (file.store.operator, file.store.store)
        size = sizes.setdefault(key, StateSize(operator=key[0], store="" if key[1] == DEFAULT_STORE else key[1]))
        size.files += 1
        size.bytes += status.size
        size.version = max(size.version, file.version)
        versions.setdefault(key, {}).setdefault(file.store.partition, []).append(file)
    for key, size in sizes.items():
        size.partitions = len(versions[key])
        size.replayed = sum(_replayed(files) for files in versions[key].values())
        described = (operators or {}).get(size.operator)
        size.name = described.name if described else ""
    return [sizes[key] for key in sorted(sizes)]


def _replayed(files: list[StateFile]) -> int:
    """The versions after the newest whole file of this partition: each is a changelog to read."""
    whole = max((file.version for file in files if file.whole), default=0)
    return len({file.version for file in files if file.version > whole})
