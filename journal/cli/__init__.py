"""The command `sos-journal`: one verb in each module here. No logic of the journal itself."""

from __future__ import annotations

import importlib
from typing import Final, NoReturn

import click

from journal.cli.exit_codes import EXIT_CODES_HELP
from journal.cli.running import run_command
from sos_client.serving.interpreter import without_collecting

# Verb → (module, function), in the order in which --help shows them. A verb's module is imported when it is used: `ls`
# need not wait for what only the service needs.
VERBS: Final = {
    "create": ("create", "create"),
    "serve": ("serve", "serve_command"),
    "members": ("members", "members"),
    "spark-conf": ("spark_conf", "spark_conf"),
    "status": ("status", "status"),
    "log": ("log", "log"),
    "ls": ("ls", "ls"),
    "cat": ("cat", "cat"),
    "stat": ("stat", "stat"),
    "batches": ("batches", "batches"),
    "diff": ("diff", "diff"),
    "verify": ("verify", "verify"),
    "doctor": ("doctor", "doctor"),
    "restore": ("restore", "restore"),
    "export": ("restore", "export"),
    "import": ("importing", "import_directory"),
    "backup": ("backup", "backup"),
    "fork": ("fork", "fork"),
    "repair": ("repair", "repair"),
    "claims": ("claims", "claims"),
    "rm": ("rm", "rm"),
}


class Verbs(click.Group):
    """Finds verbs by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, name = VERBS[cmd_name]
        with without_collecting():
            found = getattr(importlib.import_module(f"journal.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Verbs, epilog=EXIT_CODES_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sos-checkpoints", prog_name="sos-journal")
def command() -> None:
    """Volumes of checkpoints: make and serve them, look into them, go back in time.

    \b
    A volume is looked for
      --service HOST:PORT    at the journal service, which names the servers for the past
      --servers A,B,C        straight on the SOS servers (any moment that is kept)
      --dir DIR              in a service's directory, or a backup
    """


def main() -> NoReturn:
    """Entry point of the command."""
    run_command(command)
