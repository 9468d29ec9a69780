"""Streams that a connection has no use for any more, on their way back to the registry of several listeners.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from connectors.registry.claims import NOTHING

if TYPE_CHECKING:
    from connectors.ingest.ingest_log import IngestLog
    from connectors.ingest.intake import IntakeShare
    from connectors.listener.active_streams import ActiveStreams
    from connectors.registry.stream_registry import StreamRegistry


class GivenUp:
    """Streams that a connection has no use for any more: told when all of them is durable."""

    def __init__(
        self,
        streams: list[int],
        *,
        log: IngestLog,
        active: ActiveStreams[Any],
        registry: StreamRegistry,
    ) -> None:
        self._streams = streams
        self._log = log
        self._active = active
        self._registry = registry

    def durable(self, share: IntakeShare) -> None:
        """Those that no other connection here has opened meanwhile are for other listeners now."""
        del share
        for stream_id in self._streams:
            if not self._active.is_taken(stream_id):
                self._registry.free(stream_id, self._log.durable.points.get(stream_id, NOTHING))
