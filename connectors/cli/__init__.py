"""The command `sos-connector`: one verb in each module here."""

from __future__ import annotations

import importlib
from typing import Final, NoReturn

import click

from journal.cli.exit_codes import EXIT_CODES_HELP
from journal.cli.running import run_command

# Verb → (module, function), in the order in which --help shows them.
VERBS: Final = {
    "listen": ("listen", "listen_command"),
    "send": ("send", "send_command"),
    "status": ("status", "status_command"),
    "readers": ("readers", "readers_command"),
    "drain": ("drain", "drain_command"),
}


class ConnectorVerbs(click.Group):
    """Finds verbs by name; a verb's module is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, name = VERBS[cmd_name]
        found = getattr(importlib.import_module(f"connectors.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=ConnectorVerbs, epilog=EXIT_CODES_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sos-checkpoints", prog_name="sos-connector")
def command() -> None:
    """Streams of messages from any program into Spark, exactly once."""


def main() -> NoReturn:
    """Entry point of the command."""
    run_command(command, "sos-connector")
