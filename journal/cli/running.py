"""From click to trio and back: one way in, one way out, never a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import trio

from journal.cli.exit_codes import JournalExitCode, exit_code_of
from journal.cli.output import BAD
from sos_client.printable import printable
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


_EXIT_OF_ERRNO: Final = {
    errno.ENOSPC: JournalExitCode.SPACE,
    errno.EDQUOT: JournalExitCode.SPACE,
    errno.EACCES: JournalExitCode.ACCESS,
    errno.EPERM: JournalExitCode.ACCESS,
    errno.EROFS: JournalExitCode.ACCESS,
    errno.ENOENT: JournalExitCode.NOT_FOUND,
    errno.ENOTDIR: JournalExitCode.NOT_FOUND,
}
"""What a plain directory or file may refuse. Anything else is a mistake here, or a machine that fails."""


class _PipeClosedError(Exception):
    """Whoever read our output has enough of it. (click would make a failure of BrokenPipeError.)"""


def run_async(function: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Run an async verb; the one error inside groups comes out as it is."""
    try:
        try:
            trio.run(function, *args)
        except BaseExceptionGroup as group:
            raise _first(group) from None
    except BrokenPipeError:
        raise _PipeClosedError from None


def run_command(command: click.Command, program: str = "sos-journal") -> NoReturn:
    """The process's whole life. Errors become one sentence on stderr and an exit code."""

    def complain(message: str) -> None:
        click.secho(f"{program}: {printable(message)}", fg=BAD, err=True)

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character still gets its number
            stream.reconfigure(errors="backslashreplace")
    try:
        command.main(prog_name=program, standalone_mode=False)
        code = JournalExitCode.DONE
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        click.echo("\n".join(map(printable, shown.getvalue().split("\n"))), nl=False, err=True)
        code = JournalExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = JournalExitCode.INTERRUPTED
    except _PipeClosedError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in the buffer
        code = JournalExitCode.DONE
    except VerdictError as error:
        code = error.code
    except SosError as error:
        complain(getattr(error, "message", None) or str(error))
        code = exit_code_of(error)
    except OSError as error:
        code = _EXIT_OF_ERRNO.get(error.errno or 0, JournalExitCode.UNEXPECTED)
        where = error.filename or ("what is written to" if code is JournalExitCode.SPACE else "the system")
        complain(f"{where}: {error.strerror or error}")
    except Exception as error:  # the last one: a person gets a sentence, whoever asks gets the traceback
        if os.environ.get("SOS_DEBUG"):
            traceback.print_exc()
        complain(f"a mistake in {program}: {type(error).__name__}: {error} (SOS_DEBUG=1 shows where)")
        code = JournalExitCode.UNEXPECTED
    sys.exit(code)


class VerdictError(Exception):
    """A check ran to its end and was printed; the exit code says how it went."""

    def __init__(self, code: JournalExitCode) -> None:
        super().__init__(code.name)
        self.code = code


def finish(code: JournalExitCode) -> None:
    """Exit with a verdict, unless all is well."""
    if code != JournalExitCode.DONE:
        raise VerdictError(code)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
