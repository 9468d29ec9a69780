"""Which connection uses which stream: a stream is open on at most one of them.

Pure.
"""

from __future__ import annotations

from typing import Generic, TypeVar

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

    def release(self, stream_id: int, owner: OwnerT) -> None:
        """The owner has no use for it any more."""
        if self._owners.get(stream_id) is owner:
            del self._owners[stream_id]
            self._streams[owner].discard(stream_id)

    def release_all(self, owner: OwnerT) -> None:
        """The owner is gone."""
        for stream_id in self._streams.pop(owner, ()):
            del self._owners[stream_id]
