"""A command with verbs: each verb's module is imported when it is used, so that none waits for what others need."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

import click

from sos_client.command.completion import completion_verb
from sos_client.command.man_pages import man_pages_verb
from sos_client.serving.interpreter import without_collecting

if TYPE_CHECKING:
    from collections.abc import Mapping

EXIT_CODES_HELP: Final = """\b
Exit codes:
  0  done, everything is well        8  damaged, lost, a disk failed, a check failed
  1  a mistake in this program       9  nobody answers, or not now
  2  wrong usage, or not a name     10  the other side spoke another protocol
  3  not found                      11  unknown whether it was done
  4  in conflict with what is there 12  it works, with warnings
  5  claimed by somebody else      130  interrupted
  6  access denied                 141  nobody reads standard output any more
  7  no space, or quota used up"""

_OF_EVERY_COMMAND: Final = {"completion": completion_verb, "man-pages": man_pages_verb}


class Verbs(click.Group):
    """Finds verbs by name. `-h` is `--help`, and help ends with the exit codes."""

    def __init__(
        self, program: str, package: str, verbs: Mapping[str, tuple[str, str]], *, help: str, default: str | None = None
    ) -> None:
        """`verbs`: what each is called → (module of the package, function), in the order in which --help shows them.

        With `default`, a command line that begins with an option is one of that verb.
        """
        super().__init__(
            program, help=help, epilog=EXIT_CODES_HELP, context_settings={"help_option_names": ["-h", "--help"]}
        )
        click.version_option(package_name="sos-checkpoints", prog_name=program)(self)
        self._package = package
        self._verbs = verbs
        self._default = default

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._verbs, *_OF_EVERY_COMMAND]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OF_EVERY_COMMAND:
            return _OF_EVERY_COMMAND[cmd_name](self, str(self.name))
        if cmd_name not in self._verbs:
            return None
        module, name = self._verbs[cmd_name]
        with without_collecting():
            found = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = (*ctx.help_option_names, "--version")
        begins_with_verb = bool(args) and (not args[0].startswith("-") or args[0] in own)
        if (
            self._default is not None and not begins_with_verb and not ctx.resilient_parsing
        ):  # that is a shell's question
            args = [self._default, *args]
        return super().parse_args(ctx, args)
