"""Wallaroo's connector protocol: replayable producers in, two-phase-commit consumers out.

`open_source` is for programs that send streams, `serve_sink` for those that take what a query makes; the command
`sos-connector` has the rest.
"""

from __future__ import annotations

from connectors.sink.serve import serve_sink
from connectors.sink.sink_history import SinkTransaction
from connectors.sink.sink_rows import SinkRow
from connectors.sink.transactions import SinkUnavailableError
from connectors.source.source import OpenStream, Source, open_source
from connectors.source.source_link import ListenerRefusedError

__all__ = [
    "ListenerRefusedError",
    "OpenStream",
    "SinkRow",
    "SinkTransaction",
    "SinkUnavailableError",
    "Source",
    "open_source",
    "serve_sink",
]
