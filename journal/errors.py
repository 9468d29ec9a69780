"""Every error of the journal: one table of codes, one small tree by who must act.

Belongs here: codes, what each means to a caller, what a command exits with, the classes, and the way from a code on
the wire back to its class.
Does not belong here: how an error is shown to a person (journal/cli) or framed on the wire (journal/gateway).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from sos_client.wire.errors import ErrorCode, ExitCode, SosError

if TYPE_CHECKING:
    from collections.abc import Mapping

FieldValue: TypeAlias = "int | str | bytes | bool | None"


class JournalCode(IntEnum):
    """What went wrong, as a number that is the same in every process and language."""

    # The request cannot be granted as the volume is now: definitely not done, the caller decides what to do.
    NOT_FOUND = 1
    ALREADY_EXISTS = 2
    IS_DIRECTORY = 3
    NOT_DIRECTORY = 4
    NOT_EMPTY = 5
    BAD_PATH = 6
    BAD_REQUEST = 7
    TOO_LARGE = 8
    OUT_OF_RETENTION = 9
    VOLUME_NOT_FOUND = 10
    VOLUME_EXISTS = 11
    CHANGED = 12

    # A newer owner of the path or of the volume exists, or the operation is too old: definitely not done, do not
    # retry here.
    FENCED = 20
    EXPIRED = 21
    NOT_OWNER = 22

    # Nobody can do it at the moment.
    OUTCOME_UNKNOWN = 30
    UNAVAILABLE = 31
    SHUTTING_DOWN = 32
    LOCKED = 33
    NO_SPACE = 34

    # Stored bytes are not what was acknowledged.
    DAMAGED = 40
    LOST = 41
    TOO_NEW = 42

    # The conversation itself (file protocol).
    VERSION = 50
    AUTH = 51
    DENIED = 52
    PROTOCOL = 53
    UNSUPPORTED = 54
    LIMIT = 55
    TOO_SLOW = 56


OF_SERVERS: Final = {
    ErrorCode.AUTH: JournalCode.AUTH,
    ErrorCode.DENIED: JournalCode.DENIED,
    ErrorCode.NO_SPACE: JournalCode.NO_SPACE,
    ErrorCode.QUOTA: JournalCode.NO_SPACE,
}
"""What a server refuses until its operator does something. Its own sentence says what."""
FULL: Final = frozenset(code for code, meaning in OF_SERVERS.items() if meaning is JournalCode.NO_SPACE)
"""What a server says that takes nothing more, and still gives what it has."""

_EXIT_CODES: Final = {
    ExitCode.USAGE: (JournalCode.BAD_PATH, JournalCode.BAD_REQUEST, JournalCode.TOO_LARGE),
    ExitCode.NOT_FOUND: (JournalCode.NOT_FOUND, JournalCode.VOLUME_NOT_FOUND, JournalCode.OUT_OF_RETENTION),
    ExitCode.CONFLICT: (
        JournalCode.ALREADY_EXISTS,
        JournalCode.IS_DIRECTORY,
        JournalCode.NOT_DIRECTORY,
        JournalCode.NOT_EMPTY,
        JournalCode.VOLUME_EXISTS,
        JournalCode.CHANGED,
    ),
    ExitCode.FENCED: (JournalCode.FENCED, JournalCode.EXPIRED, JournalCode.NOT_OWNER),
    ExitCode.ACCESS: (JournalCode.AUTH, JournalCode.DENIED),
    ExitCode.SPACE: (JournalCode.NO_SPACE,),
    ExitCode.DAMAGED: (JournalCode.DAMAGED, JournalCode.LOST, JournalCode.TOO_NEW),
    ExitCode.UNAVAILABLE: (JournalCode.UNAVAILABLE, JournalCode.SHUTTING_DOWN, JournalCode.LOCKED),
    ExitCode.PROTOCOL: (
        JournalCode.VERSION,
        JournalCode.PROTOCOL,
        JournalCode.UNSUPPORTED,
        JournalCode.LIMIT,
        JournalCode.TOO_SLOW,
    ),
    ExitCode.OUTCOME_UNKNOWN: (JournalCode.OUTCOME_UNKNOWN,),
}
_EXIT_CODE_OF: Final = {code: exit_code for exit_code, codes in _EXIT_CODES.items() for code in codes}
assert set(_EXIT_CODE_OF) == set(JournalCode), "every error has an exit code"


class JournalError(SosError):
    """Root of the journal's errors: a code, a sentence for a person, fields for a program."""

    codes: ClassVar[frozenset[JournalCode]] = frozenset()

    def __init__(self, code: JournalCode, message: str, **fields: FieldValue) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = _EXIT_CODE_OF[code]
        self.message = message
        self.fields: dict[str, FieldValue] = fields

    def __str__(self) -> str:
        return self.message


class RefusedByVolumeError(JournalError):
    """The caller must act: the request does not fit the tree as it is. Nothing was changed."""

    codes = frozenset(JournalCode(n) for n in range(1, 13))


class SupersededError(JournalError):
    """Someone newer has taken over, or the operation is too old. Nothing was changed, and trying again is useless."""

    codes = frozenset({JournalCode.FENCED, JournalCode.EXPIRED, JournalCode.NOT_OWNER})


class UnavailableError(JournalError):
    """Wait and try again, with the same operation id. Only OUTCOME_UNKNOWN may have been done."""

    codes = frozenset(JournalCode(n) for n in range(30, 35))

    @property
    def outcome_unknown(self) -> bool:
        return self.code == JournalCode.OUTCOME_UNKNOWN


class WriteCutShortError(UnavailableError):
    """A streamed file lost the service in its middle. Who still has all of it: begin again, with the same operation."""


class DamagedJournalError(JournalError):
    """An operator must act: stored bytes are damaged, lost, or written by a newer version. Never served as if whole."""

    codes = frozenset({JournalCode.DAMAGED, JournalCode.LOST, JournalCode.TOO_NEW})


class ConversationError(JournalError):
    """The other side of a connection to the service was refused or misbehaved."""

    codes = frozenset(JournalCode(n) for n in range(50, 57))


_CLASSES: tuple[type[JournalError], ...] = (
    RefusedByVolumeError,
    SupersededError,
    UnavailableError,
    DamagedJournalError,
    ConversationError,
)
_CLASS_OF_CODE: dict[JournalCode, type[JournalError]] = {code: cls for cls in _CLASSES for code in cls.codes}
assert set(_CLASS_OF_CODE) == set(JournalCode), "every code belongs to one class"


def journal_error(code: JournalCode, message: str, fields: Mapping[str, FieldValue] | None = None) -> JournalError:
    """The error of the right class for `code`, e.g. one that came over the wire."""
    return _CLASS_OF_CODE[code](code, message, **(fields or {}))


def damaged(message: str, **fields: FieldValue) -> DamagedJournalError:
    """The one error for stored bytes that are not what was written."""
    return DamagedJournalError(JournalCode.DAMAGED, message, **fields)


def refused(code: JournalCode, message: str, **fields: FieldValue) -> RefusedByVolumeError:
    """A refusal that the caller can act on; nothing was changed."""
    return RefusedByVolumeError(code, message, **fields)
