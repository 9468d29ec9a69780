"""Wallaroo's connector protocol: replayable producers in, two-phase-commit consumers out.

`open_source` is for programs that send streams; the command `sos-connector` has the rest.
"""

from __future__ import annotations

from connectors.source.source import OpenStream, Source, open_source
from connectors.source.source_link import ListenerRefusedError

__all__ = ["ListenerRefusedError", "OpenStream", "Source", "open_source"]
