"""The command itself: its verbs, and how each way to end becomes an exit code and a sentence. Never a traceback."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, NoReturn

import click

from sos_client.cli.bench import bench
from sos_client.cli.reading import get, ls, ping, stat, tail
from sos_client.cli.writing import append, fence, put, rm, seal
from sos_client.printable import printable
from sos_client.standard_handles import occupy_standard_handles
from sos_client.wire.errors import ExitCode, SosError, exit_code_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_EPILOG = """\b
Exit codes
   0  done
   1  something unexpected failed
   2  wrong usage, or not a name
   3  no such namespace or object
   4  in conflict with what is there (size, content, sealed, busy, retained)
   5  the namespace is claimed by somebody else
   6  not allowed
   7  no space, or quota used up
   8  damaged, or the server's disk failed
   9  the server cannot be reached, or not in time
  10  the two do not speak the same protocol
 130  interrupted
 141  nobody reads standard output any more
"""


@click.group(epilog=_EPILOG)
@click.version_option(version("sos-checkpoints"), prog_name="sos")
def sos() -> None:
    """Append-only objects on an SOS server. Data comes from standard input and goes to standard output.

    Every verb takes --server (or SOS_SERVER), --token (SOS_TOKEN), --tls-ca (SOS_TLS_CA) and --json.
    """


for _verb in (ping, ls, stat, put, append, get, tail, fence, seal, rm, bench):
    sos.add_command(_verb)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit."""
    occupy_standard_handles()
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
    except BaseException as error:  # each way to end is told in a sentence, and decides the exit code
        raise SystemExit(_tell(_first(error))) from None
    finally:
        _flush_output()
    sys.exit(ExitCode.DONE)


def _run(arguments: list[str]) -> None:
    # Not by click's own main: it turns a closed pipe and Ctrl-C into exit codes of its own.
    with sos.make_context("sos", arguments) as context:
        sos.invoke(context)


def _first(error: BaseException) -> BaseException:
    """The exception to tell about: tasks that fail together come as a group."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    for kind in (KeyboardInterrupt, BrokenPipeError, SosError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _tell(error: BaseException) -> int:
    match error:
        case click.ClickException():
            error.show()
            return error.exit_code
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            click.echo("sos: interrupted", err=True)
            return ExitCode.INTERRUPTED
        case BrokenPipeError():
            return ExitCode.BROKEN_PIPE
        case SosError():
            click.echo(f"sos: {printable(str(error))}", err=True)
            return exit_code_for(error)
        case OSError():
            click.echo(f"sos: {error.strerror or error}", err=True)
            return ExitCode.UNEXPECTED
    click.echo(f"sos: unexpected: {type(error).__name__}: {printable(str(error))}", err=True)
    return ExitCode.UNEXPECTED


def _flush_output() -> None:
    """Drop without complaint what is still buffered for a pipe that nobody reads."""
    if sys.stdout is None:  # it was closed from the beginning
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
