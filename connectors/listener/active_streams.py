"""Which connection uses which stream: a stream is open on at most one of them.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

OwnerT = TypeVar("OwnerT")


class ActiveStreams(Generic[OwnerT]):
    """Streams and their connections."""

    def __init__(self) -> None:
        self._owners: dict[int, OwnerT] = {}
        self._streams: dict[OwnerT, set[int]] = {}

    def take(self, stream_id: int, owner: OwnerT) -> OwnerT:
        """Whose the stream is: this owner's from now on, if it was nobody's."""
        present = self._owners.setdefault(stream_id, owner)
        if present is owner:
            self._streams.setdefault(owner, set()).add(stream_id)
        return present

    def __iter__(self) -> Iterator[tuple[int, OwnerT]]:
        """Each stream that is in use, and whose it is."""
        return iter(self._owners.items())

    def count_of(self, owner: OwnerT) -> int:
        """How many streams it has."""
        return len(self._streams.get(owner, ()))

    def release(self, stream_id: int, owner: OwnerT) -> None:
        """The owner has no use for it any more."""
        if self._owners.get(stream_id) is owner:
            del self._owners[stream_id]
            self._streams[owner].discard(stream_id)

    def release_all(self, owner: OwnerT) -> set[int]:
        """The owner is gone; what it had."""
        released = self._streams.pop(owner, set())
        for stream_id in released:
            del self._owners[stream_id]
        return released

    def is_taken(self, stream_id: int) -> bool:
        """Whether somebody has it."""
        return stream_id in self._owners
