"""The command `sos-journal`: one verb in each module here. No logic of the journal itself."""

from __future__ import annotations

from typing import Final, NoReturn

from sos_client.command.running import run_command
from sos_client.command.verbs import Verbs

VERBS: Final = {
    "create": ("create", "create"),
    "serve": ("serve", "serve_command"),
    "members": ("members", "members"),
    "volumes": ("volumes", "volumes"),
    "spark-conf": ("spark_conf", "spark_conf"),
    "spark-jar": ("spark_jar", "spark_jar"),
    "status": ("status", "status"),
    "log": ("log", "log"),
    "ls": ("ls", "ls"),
    "cat": ("cat", "cat"),
    "stat": ("stat", "stat"),
    "du": ("du", "du"),
    "batches": ("batches", "batches"),
    "diff": ("diff", "diff"),
    "verify": ("verify", "verify"),
    "doctor": ("doctor", "doctor"),
    "restore": ("restore", "restore"),
    "export": ("restore", "export"),
    "import": ("importing", "import_directory"),
    "backup": ("backup", "backup"),
    "fork": ("fork", "fork"),
    "rewind": ("rewind", "rewind"),
    "repair": ("repair", "repair"),
    "claims": ("claims", "claims"),
    "rm": ("rm", "rm"),
    "web": ("web", "web"),
}


command: Final = Verbs(
    "sos-journal",
    "journal.cli",
    VERBS,
    help="""Volumes of checkpoints: make and serve them, look into them, go back in time.

    \b
    A volume is looked for
      --service HOST:PORT    at the journal service, which names the servers for the past
      --servers A,B,C        straight on the SOS servers (any moment that is kept)
      --dir DIR              in a service's directory, or a backup
    """,
)


def main() -> NoReturn:
    """Entry point of the command."""
    run_command(command, "sos-journal")
