"""What `sos-journal` exits with: the numbers of the `sos` command, and two more."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from journal.errors import JournalCode, JournalError
from sos_client.wire.errors import SosError, exit_code_for


class JournalExitCode(IntEnum):
    """Documented in `sos-journal --help`; scripts may rely on them."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    FENCED = 5
    ACCESS = 6
    SPACE = 7
    DAMAGED = 8
    UNAVAILABLE = 9
    PROTOCOL = 10
    OUTCOME_UNKNOWN = 11
    WARNING = 12
    INTERRUPTED = 130


EXIT_CODES_HELP: Final = """\b
Exit codes:
  0  done, everything is well        7  no space
  1  a mistake in this program       8  damaged, lost, or a check failed
  2  wrong usage                     9  nobody answers, or not now
  3  not found                      10  the other side spoke another protocol
  4  in conflict with what is there 11  unknown whether it was done
  5  fenced: a newer owner exists   12  it works, with warnings
  6  access denied                 130  interrupted"""

_BY_CODE: Final = {
    JournalExitCode.USAGE: (JournalCode.BAD_PATH, JournalCode.BAD_REQUEST, JournalCode.TOO_LARGE),
    JournalExitCode.NOT_FOUND: (JournalCode.NOT_FOUND, JournalCode.VOLUME_NOT_FOUND, JournalCode.OUT_OF_RETENTION),
    JournalExitCode.CONFLICT: (
        JournalCode.ALREADY_EXISTS,
        JournalCode.IS_DIRECTORY,
        JournalCode.NOT_DIRECTORY,
        JournalCode.NOT_EMPTY,
        JournalCode.VOLUME_EXISTS,
        JournalCode.CHANGED,
    ),
    JournalExitCode.FENCED: (JournalCode.FENCED, JournalCode.EXPIRED, JournalCode.NOT_OWNER),
    JournalExitCode.ACCESS: (JournalCode.AUTH, JournalCode.DENIED),
    JournalExitCode.SPACE: (JournalCode.NO_SPACE,),
    JournalExitCode.DAMAGED: (JournalCode.DAMAGED, JournalCode.LOST, JournalCode.TOO_NEW),
    JournalExitCode.UNAVAILABLE: (JournalCode.UNAVAILABLE, JournalCode.SHUTTING_DOWN, JournalCode.LOCKED),
    JournalExitCode.PROTOCOL: (
        JournalCode.VERSION,
        JournalCode.PROTOCOL,
        JournalCode.UNSUPPORTED,
        JournalCode.LIMIT,
        JournalCode.TOO_SLOW,
    ),
    JournalExitCode.OUTCOME_UNKNOWN: (JournalCode.OUTCOME_UNKNOWN,),
}
_EXIT_OF: Final = {code: exit_code for exit_code, codes in _BY_CODE.items() for code in codes}
assert set(_EXIT_OF) == set(JournalCode), "every error has an exit code"


def exit_code_of(error: SosError) -> JournalExitCode:
    """What a command that ends with this error exits with."""
    if isinstance(error, JournalError):
        return _EXIT_OF[error.code]
    return JournalExitCode(exit_code_for(error))
