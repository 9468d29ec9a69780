"""`python -m sos_server` is the command `sos-server`."""

from __future__ import annotations

from sos_server.cli import main

main()
