"""`python -m connectors` is the command `sos-connector`."""

from __future__ import annotations

from connectors.cli import main

main()
