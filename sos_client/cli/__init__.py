"""The `sos` command: one module per kind of verb. What a verb does is in `client` and `transfers`, not here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from sos_client.command.running import run_command
from sos_client.command.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS: Final = {
    "ping": ("reading", "ping"),
    "ls": ("reading", "ls"),
    "stat": ("reading", "stat"),
    "put": ("writing", "put"),
    "append": ("writing", "append"),
    "get": ("reading", "get"),
    "tail": ("reading", "tail"),
    "fence": ("writing", "fence"),
    "seal": ("writing", "seal"),
    "rm": ("writing", "rm"),
    "bench": ("bench", "bench"),
}

command: Final = Verbs(
    "sos",
    "sos_client.cli",
    VERBS,
    help="""Append-only objects on an SOS server. Data comes from standard input and goes to standard output.

    Every verb takes --server (or SOS_SERVER), --token (SOS_TOKEN), --tls-ca (SOS_TLS_CA) and --json.
    """,
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit."""
    run_command(command, "sos", arguments)
