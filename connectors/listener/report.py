"""What a listener says of itself at one moment: its volume, its connections, and who waits for whom.

`sos-connector status` shows it. FORMAT.md of the ingest volume has the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from connectors.ingest.report import volume_report

if TYPE_CHECKING:
    from connectors.ingest.ingest_log import IngestLog
    from connectors.listener.sources import Sources
    from connectors.listener.upkeep import Upkeep
    from connectors.registry.stream_registry import StreamRegistry


def listener_report(
    *,
    volume: str,
    epoch: int,
    now_ms: int,
    address: str,
    sources: Sources,
    ingest: IngestLog,
    upkeep: Upkeep,
    registry: StreamRegistry | None = None,
) -> dict[str, Any]:
    """All of it, as JSON has it."""
    stored = volume_report(
        volume=volume,
        files=ingest.files,
        next_sequence=ingest.next_sequence,
        readers=upkeep.readers,
        streams=ingest.durable,
        in_use=dict(sources.streams_in_use()),
    )
    return {
        **stored,
        "time_ms": now_ms,
        "epoch": epoch,
        "listening": address,
        "oldest_received_ms": upkeep.oldest_received_ms,
        "keep_seconds": upkeep.retention.seconds,
        "keep_bytes": upkeep.retention.size,
        "reader_lag_bytes_max": upkeep.retention.lag_bytes_max,
        "waiting_bytes": ingest.intake.frames_bytes,
        "waits": waits(ingest, upkeep, registry, no_new_streams=sources.no_new_streams),
        "registry": None if registry is None else {"streams_held": registry.held},
        "connections": [session.report() for session in sources.sessions],
    }


def waits(
    ingest: IngestLog, upkeep: Upkeep, registry: StreamRegistry | None, *, no_new_streams: str
) -> list[dict[str, str]]:
    """Who waits for whom."""
    found = [
        ("sources", f"the SOS servers: {ingest.waits_for}" if ingest.waits_for else ""),
        ("sources", ingest.held_back),
        ("streams", registry.waits_for if registry is not None else ""),
        ("new streams", no_new_streams),
        ("retention", f"the SOS servers: {ingest.upkeep_waits_for}" if ingest.upkeep_waits_for else ""),
    ]
    if not upkeep.readers and ingest.next_sequence:
        found.append(("retention", "a first reader: until there is one, nothing is deleted"))
    doubtful = (reader.name for reader in upkeep.readers if not reader.understood)
    found += [("retention", f"reader {name}, whose file is not understood") for name in doubtful]
    return [{"who": who, "for": reason} for who, reason in found if reason]
