"""The `sos` command: one module per kind of verb. What a verb does is in `client` and `transfers`, not here."""

from sos_client.cli.command import main

__all__ = ["main"]
