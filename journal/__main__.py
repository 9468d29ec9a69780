"""`python -m journal` is the command `sos-journal`."""

from __future__ import annotations

from journal.cli import main

main()
