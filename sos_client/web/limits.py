"""What the web endpoint takes of its process, for whoever makes room for it."""

from __future__ import annotations

from typing import Final

WEB_CONNECTIONS_MAX: Final = 1024
"""Two hundred pages, and as many scrapers and probes as anybody has."""
