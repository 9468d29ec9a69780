"""The verb `man-pages` of every command: what `--help` says, as pages for `man`.

Made where they are installed, and so always of the version that is there. In roff, with the macros of man(7).
"""

from __future__ import annotations

import inspect
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sos_client.command.running import finish
from sos_client.wire.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNFILLED: Final = "\b"
"""Begins a paragraph whose lines click leaves as they are."""


def man_pages_verb(command: click.Group, program: str) -> click.Command:
    """`PROGRAM man-pages [DIRECTORY]`."""
    help_text = f"""Write the manual pages of {program} and its verbs.

    Into DIRECTORY/man1. Without one into share/man of the environment that this program is installed in, where `man`
    looks if that environment's bin is on the PATH.

    \b
    {program} man-pages && man {program}
    {program} man-pages /usr/local/share/man
    """

    @click.command("man-pages", help=help_text)
    @click.argument("directory", type=click.Path(file_okay=False, path_type=Path), required=False)
    def man_pages(*, directory: Path | None) -> None:
        folder = (directory or Path(sys.prefix) / "share" / "man") / "man1"
        found = dict(pages(command, program))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in found.items():
                (folder / f"{name}.1").write_text(text, encoding="utf-8")
        except OSError as error:
            finish(ExitCode.USAGE, f"{folder}: the pages cannot be written: {error.strerror}")
        click.echo(f"{len(found)} pages in {folder}")

    return man_pages


def pages(command: click.Command, program: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """(name, text) of the page of a command, then of each of its verbs."""
    context = click.Context(command, parent=parent, info_name=program, help_option_names=["-h", "--help"])
    verbs = _verbs_of(command, context)
    name = program.replace(" ", "-")
    yield name, _page(command, context, name, verbs)
    for verb in verbs:
        yield from pages(verb, f"{program} {verb.name}", context)


def _verbs_of(command: click.Command, context: click.Context) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return []
    found = (command.get_command(context, name) for name in command.list_commands(context))
    return [verb for verb in found if verb is not None]


def _page(command: click.Command, context: click.Context, name: str, verbs: list[click.Command]) -> str:
    first, *paragraphs = _paragraphs(command.help or "")
    program = str(context.info_name)
    lines = [
        f'.TH "{_escaped(name.upper())}" 1 "" "sos-checkpoints {version("sos-checkpoints")}" "SOS"',
        ".nh",
        ".ad l",
    ]
    lines += [".SH NAME", f"{_escaped(name)} \\- {_escaped(' '.join(first).rstrip('.'))}"]
    usage = " ".join(command.collect_usage_pieces(context))
    lines += [".SH SYNOPSIS", f"\\fB{_escaped(program)}\\fR {_escaped(usage)}"]
    if paragraphs:
        lines += [".SH DESCRIPTION", *_described(paragraphs)]
    if verbs:
        lines.append(".SH COMMANDS")
        for verb in verbs:
            summary, *_ = _paragraphs(verb.help or "")
            lines += [".TP", f"\\fB{_escaped(f'{name}-{verb.name}')}\\fR(1)", _line(" ".join(summary))]
    lines.append(".SH OPTIONS")
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            lines += [".TP", f"\\fB{_escaped(record[0])}\\fR", _line(record[1])]
    if context.parent is not None and command.epilog:
        lines += [".SH EXAMPLES", *_described(_paragraphs(command.epilog))]
    for paragraph in _paragraphs(context.find_root().command.epilog or ""):
        lines += [".SH EXIT STATUS", *_described([[_UNFILLED, *paragraph[2:]]])]
    above = name.removesuffix(f"-{command.name}") if context.parent is not None else ""
    seen = [one for one in (above, *(f"{name}-{verb.name}" for verb in verbs)) if one]
    if seen:
        lines += [".SH SEE ALSO", ",\n".join(f"\\fB{_escaped(one)}\\fR(1)" for one in seen)]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[list[str]]:
    """Lines of each paragraph; those that are not to be filled begin with the mark for it."""
    return [part.split("\n") for part in inspect.cleandoc(text).split("\n\n") if part.strip()] or [[""]]


def _described(paragraphs: list[list[str]]) -> Iterator[str]:
    for lines in paragraphs:
        if lines[0].strip() == _UNFILLED:
            yield from (".PP", ".nf", ".RS 4", *map(_line, lines[1:]), ".RE", ".fi")
        else:
            yield from (".PP", *map(_line, lines))


def _line(text: str) -> str:
    """A line of text, never taken for a macro."""
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    """Signs that mean something to roff, or would become other signs: what is copied from a page must work."""
    signs = {"\\": "\\e", "-": "\\-", '"': "\\(dq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", "'": "\\(aq", "|": "|\\:"}
    return "".join(signs.get(sign, sign) for sign in text)
