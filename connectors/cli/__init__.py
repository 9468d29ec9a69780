"""The command `sos-connector`: one verb in each module here."""

from __future__ import annotations

from typing import Final, NoReturn

from sos_client.command.running import run_command
from sos_client.command.verbs import Verbs

VERBS: Final = {
    "listen": ("listen", "listen_command"),
    "send": ("send", "send_command"),
    "status": ("status", "status_command"),
    "readers": ("readers", "readers_command"),
    "drain": ("drain", "drain_command"),
    "relay": ("relay", "relay_command"),
    "receive": ("receive", "receive_command"),
    "committed": ("receive", "committed_command"),
    "postgres": ("postgres", "postgres_command"),
}


command: Final = Verbs(
    "sos-connector",
    "connectors.cli",
    VERBS,
    help="Streams of messages from any program through Spark to any program, exactly once.",
)


def main() -> NoReturn:
    """Entry point of the command."""
    run_command(command, "sos-connector")
