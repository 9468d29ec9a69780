"""The way into a command and out of it: each way to end becomes one sentence and an exit code, never a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click
import trio
from click.shell_completion import shell_complete

from sos_client.command.output import BAD
from sos_client.nurseries import first_of, ungrouped
from sos_client.printable import printable
from sos_client.settings import SettingsError
from sos_client.standard_handles import occupy_standard_handles
from sos_client.wire.errors import ExitCode, SosError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Result = TypeVar("Result")

_EXIT_OF_ERRNO: Final = {
    errno.ENOSPC: ExitCode.SPACE,
    errno.EDQUOT: ExitCode.SPACE,
    errno.EACCES: ExitCode.ACCESS,
    errno.EPERM: ExitCode.ACCESS,
    errno.EROFS: ExitCode.ACCESS,
    errno.ENOENT: ExitCode.NOT_FOUND,
    errno.ENOTDIR: ExitCode.NOT_FOUND,
}
"""What a plain directory or file may refuse. Anything else is a mistake here, or a machine that fails."""


class VerdictError(Exception):
    """The verb has run to its end; the exit code says how it went, and sentences, if any, say why."""

    def __init__(self, code: ExitCode, *sentences: str) -> None:
        super().__init__(code.name)
        self.code = code
        self.sentences = sentences


def finish(code: ExitCode, *sentences: str) -> None:
    """Exit with a verdict, unless all is well."""
    if code != ExitCode.DONE:
        raise VerdictError(code, *sentences)


def confirm(question: str) -> None:
    """Ask on standard error. VerdictError unless the answer is yes: then nothing is to be changed."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # nobody is there, or Ctrl-C
        click.echo(err=True)
        raise VerdictError(ExitCode.INTERRUPTED, "nobody said yes (scripts say --yes): nothing was changed") from None
    if not agreed:
        raise VerdictError(ExitCode.INTERRUPTED, "nothing was changed")


def run_async(function: Callable[..., Awaitable[Result]], *args: Any) -> Result:
    """Run an async verb; the one error inside groups comes out as it is."""
    with ungrouped():
        return trio.run(function, *args)


def run_command(command: click.Command, program: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """The process's whole life, with these arguments or those of the process."""
    occupy_standard_handles()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character still gets its number
            stream.reconfigure(errors="backslashreplace")
    code: int = ExitCode.DONE
    try:
        _complete(command, program)
        # Not by click's own main: it turns a closed pipe and Ctrl-C into exit codes of its own.
        line = list(sys.argv[1:] if arguments is None else arguments)
        with command.make_context(program, line, color=_colour()) as context:
            command.invoke(context)
    except SystemExit:
        raise
    except BaseException as error:  # each way to end is told in a sentence, and decides the exit code
        code = _tell(program, first_of(error))
    finally:
        _flush_output()
    sys.exit(code)


def _colour() -> bool | None:
    """Never, if NO_COLOR or a dumb terminal says so; else on terminals."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def _complete(command: click.Command, program: str) -> None:
    """Answer a shell that asks how a command line may go on (`eval "$(_SOS_JOURNAL_COMPLETE=bash_source …)"`)."""
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    if instruction := os.environ.get(variable):
        sys.exit(shell_complete(command, {}, program, variable, instruction))


def _tell(program: str, error: BaseException) -> int:
    def complain(message: str) -> None:
        click.secho(f"{program}: {printable(message)}", fg=BAD, err=True, color=_colour())

    match error:
        case click.exceptions.Exit():  # --help and --version
            return error.exit_code
        case click.ClickException():
            shown = io.StringIO()
            error.show(file=shown)
            click.echo("\n".join(map(printable, shown.getvalue().split("\n"))), nl=False, err=True)
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            complain("interrupted")
            return ExitCode.INTERRUPTED
        case BrokenPipeError():
            return ExitCode.BROKEN_PIPE
        case VerdictError():
            for sentence in error.sentences:
                complain(sentence)
            return error.code
        case SosError():
            complain(str(error))
            return error.exit_code
        case SettingsError():
            complain(str(error))
            return ExitCode.USAGE
        case OSError():
            code = _EXIT_OF_ERRNO.get(error.errno or 0, ExitCode.UNEXPECTED)
            where = error.filename or ("what is written to" if code is ExitCode.SPACE else "the system")
            complain(f"{where}: {error.strerror or error}")
            return code
    if os.environ.get("SOS_DEBUG"):  # a person gets a sentence, whoever asks gets the traceback
        traceback.print_exception(error)
    complain(f"a mistake in {program}: {type(error).__name__}: {error} (SOS_DEBUG=1 shows where)")
    return ExitCode.UNEXPECTED


def _flush_output() -> None:
    """Drop without complaint what is still buffered for a pipe that nobody reads."""
    if sys.stdout is None:  # it was closed from the beginning
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
