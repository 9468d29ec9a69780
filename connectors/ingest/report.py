"""What an ingest volume holds and who reads it, as JSON has it: half of what `sos-connector status` shows.

Pure. The other half is what only the running listener knows. FORMAT.md has the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from connectors.ingest.retention import bytes_behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from connectors.ingest.known_streams import KnownStreams
    from connectors.ingest.reader_position import ReaderPosition
    from connectors.ingest.retention import MessageFile

STREAMS_SHOWN_MAX: Final = 20_000
"""A report is made while everything else waits: this many streams take about 20 ms. Open ones come first."""


def volume_report(
    *,
    volume: str,
    files: Sequence[MessageFile],
    next_sequence: int,
    readers: Sequence[ReaderPosition],
    streams: KnownStreams,
    in_use: Mapping[int, str],
) -> dict[str, Any]:
    """`in_use`: which peer has which stream open."""
    oldest = files[0].first if files else next_sequence
    return {
        "volume": volume,
        "next_sequence": next_sequence,
        "oldest_sequence": oldest,
        "log_bytes": sum(file.size for file in files),
        "readers": [_reader(reader, files, oldest, next_sequence) for reader in readers],
        "streams_known": len(streams.names),
        "streams": _streams(streams, in_use),
    }


def _reader(reader: ReaderPosition, files: Sequence[MessageFile], oldest: int, next_sequence: int) -> dict[str, Any]:
    return {
        "name": reader.name,
        "next_sequence": reader.needs,
        "written_ms": reader.written_ms,
        "understood": reader.understood,
        "lag_messages": max(0, next_sequence - reader.needs),
        "lag_bytes": bytes_behind(files, next_sequence, reader.needs),
        "rewind_messages": max(0, reader.needs - oldest),
        "lost_messages": max(0, oldest - reader.needs) if reader.understood else 0,
        "remarks": dict(reader.remarks),
    }


def _streams(streams: KnownStreams, in_use: Mapping[int, str]) -> list[dict[str, Any]]:
    shown = [stream_id for stream_id in in_use if stream_id in streams.names][:STREAMS_SHOWN_MAX]
    for stream_id in streams.names:
        if len(shown) == STREAMS_SHOWN_MAX:
            break
        if stream_id not in in_use:
            shown.append(stream_id)
    return [
        {
            "stream_id": stream_id,
            "name": streams.names[stream_id],
            "point_of_reference": None if streams.points[stream_id] < 0 else streams.points[stream_id],
            "peer": in_use.get(stream_id),
        }
        for stream_id in shown
    ]
