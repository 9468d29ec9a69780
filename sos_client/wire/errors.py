"""What can go wrong, by who must act, and the one table of refusals.

Nothing here decides when to refuse. An error that the server sends is a row of `REFUSALS`: its number on the wire, the
fields that let a program go on without another round trip, whether the connection ends with it, the exit code of a
command, and a sentence for a person.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from sos_client.wire.holders import shown_holder

if TYPE_CHECKING:
    from collections.abc import Mapping

FieldValue = int | str | bytes | bool | None


class ExitCode(IntEnum):
    """What each of the commands exits with; told in its --help. Scripts may rely on them."""

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
    BROKEN_PIPE = 141


class SosError(Exception):
    """Root of everything that SOS raises on purpose. A command that ends with it exits with `exit_code`."""

    exit_code: ExitCode = ExitCode.UNEXPECTED


class MisuseError(SosError):
    """The caller asked for something that this object cannot do now: a mistake in the calling program."""

    exit_code = ExitCode.USAGE


class ProtocolError(SosError):
    """The peer broke the protocol (framing, CRC, an illegal move). The connection is of no further use."""

    exit_code = ExitCode.PROTOCOL


class ConnectionLostError(SosError):
    """The other side is gone or cannot be reached. Whether the last request took effect is unknown."""

    exit_code = ExitCode.UNAVAILABLE


class DeadlineError(SosError):
    """No answer in time. Whether the request took effect is unknown."""

    exit_code = ExitCode.UNAVAILABLE


class DamagedError(SosError):
    """Bytes are not what they were when they were stored. Another copy is needed."""

    exit_code = ExitCode.DAMAGED


class HistoryError(SosError):
    """The server or object is not the one it was: going on would join two different pasts."""

    exit_code = ExitCode.CONFLICT


class ErrorCode(IntEnum):
    """The numbers of refusals on the wire. Never renumbered, never reused."""

    VERSION = 1
    AUTH = 2
    DENIED = 3
    BAD_NAME = 4
    STALE_EPOCH = 5
    WRONG_SIZE = 6
    WRONG_PREFIX = 7
    BUSY = 8
    SEALED = 9
    FENCED = 10
    QUOTA = 11
    NO_SPACE = 12
    IO_ERROR = 13
    NOT_FOUND = 14
    RANGE = 15
    DAMAGED = 16
    NOT_SEALED = 17
    RETAINED = 18
    UNSUPPORTED = 19
    PROTOCOL = 20
    LIMIT = 21
    TOO_SLOW = 22
    SHUTTING_DOWN = 23


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One row of the table. `sentence` may use the fields; what a server left out shows as `?`."""

    fields: tuple[str, ...]
    closes: bool
    exit_code: ExitCode
    sentence: str


def _row(exit_code: ExitCode, sentence: str, *fields: str, closes: bool = False) -> Refusal:
    return Refusal(fields=fields, closes=closes, exit_code=exit_code, sentence=sentence)


REFUSALS: Final[Mapping[ErrorCode, Refusal]] = {
    ErrorCode.VERSION: _row(
        ExitCode.PROTOCOL,
        "the server speaks protocol version {version}; use a client of that version",
        "version",
        closes=True,
    ),
    ErrorCode.AUTH: _row(
        ExitCode.ACCESS, "the token is missing, unknown or expired; pass a valid one (SOS_TOKEN)", closes=True
    ),
    ErrorCode.DENIED: _row(
        ExitCode.ACCESS, "this token has no {right!r} right on namespace {namespace}", "right", "namespace"
    ),
    ErrorCode.BAD_NAME: _row(
        ExitCode.USAGE,
        "{name!r} is not a name: 1 to 128 of A-Z a-z 0-9 . _ - are allowed, beginning with a letter or digit",
        "name",
    ),
    ErrorCode.STALE_EPOCH: _row(
        ExitCode.FENCED,
        "the namespace is claimed with epoch {epoch} by holder {holder}; a claim needs a greater epoch",
        "epoch",
        "holder",
    ),
    ErrorCode.WRONG_SIZE: _row(
        ExitCode.CONFLICT, "the object has {size} bytes; go on from there", "size", "crc", "epoch"
    ),
    ErrorCode.WRONG_PREFIX: _row(
        ExitCode.CONFLICT,
        "the object's {size} bytes have CRC32C {crc}, so they are not those that were meant; nothing was appended",
        "size",
        "crc",
        "epoch",
    ),
    ErrorCode.BUSY: _row(
        ExitCode.CONFLICT, "another client is appending to the object; try again when it has finished", "object"
    ),
    ErrorCode.SEALED: _row(
        ExitCode.CONFLICT, "the object is sealed with {size} bytes and never changes again", "size", "crc", "epoch"
    ),
    ErrorCode.FENCED: _row(
        ExitCode.FENCED,
        "the namespace now belongs to epoch {epoch}, holder {holder}; this writer must stop",
        "epoch",
        "holder",
    ),
    ErrorCode.QUOTA: _row(
        ExitCode.SPACE,
        "the namespace has used {used} of the {quota} bytes it may have; delete sealed objects or raise the quota",
        "used",
        "quota",
    ),
    ErrorCode.NO_SPACE: _row(
        ExitCode.SPACE,
        "the server's disk is full ({free} bytes free); appends work again when there is room",
        "free",
    ),
    ErrorCode.IO_ERROR: _row(
        ExitCode.DAMAGED, "the server's disk failed ({reason}); what was acknowledged is kept", "reason"
    ),
    ErrorCode.NOT_FOUND: _row(ExitCode.NOT_FOUND, "there is no {what} {name!r}", "what", "name"),
    ErrorCode.RANGE: _row(ExitCode.CONFLICT, "the object has only {size} bytes", "size"),
    ErrorCode.DAMAGED: _row(
        ExitCode.DAMAGED,
        "the object is damaged at offset {offset}: its bytes do not match their CRC; read another copy",
        "offset",
    ),
    ErrorCode.NOT_SEALED: _row(
        ExitCode.CONFLICT, "only sealed objects can be deleted; seal it first (it has {size} bytes)", "size"
    ),
    ErrorCode.RETAINED: _row(
        ExitCode.CONFLICT, "the object must be kept for {seconds} more seconds", "seconds", "server_time"
    ),
    ErrorCode.UNSUPPORTED: _row(
        ExitCode.PROTOCOL, "this server does not know request {type}; it may be older than the client", "type"
    ),
    ErrorCode.PROTOCOL: _row(ExitCode.PROTOCOL, "the peer broke the protocol", closes=True),
    ErrorCode.LIMIT: _row(
        ExitCode.UNAVAILABLE, "the server has all the {what} it may have; try again later", "what", closes=True
    ),
    ErrorCode.TOO_SLOW: _row(
        ExitCode.UNAVAILABLE, "too little came in too long a time, so the server gave up waiting", closes=True
    ),
    ErrorCode.SHUTTING_DOWN: _row(
        ExitCode.UNAVAILABLE, "the server is shutting down; connect again when it is back", closes=True
    ),
}

assert set(REFUSALS) == set(ErrorCode)


class RefusedError(SosError):
    """The other side said no, and nothing changed. `fields` say enough to go on; `message` is for a person."""

    def __init__(self, code: ErrorCode, message: str | None = None, /, **fields: FieldValue) -> None:
        self.code = code
        self.fields: dict[str, FieldValue] = fields
        self.exit_code = REFUSALS[code].exit_code
        self.message = message or sentence_for(code, fields)
        super().__init__(f"{code.name}: {self.message}")


def sentence_for(code: ErrorCode, fields: Mapping[str, FieldValue]) -> str:
    """The table's sentence with these fields filled in; bytes are shown in hexadecimal, of a holder its digest.

    Sentences go into logs, where the secret must not be.
    """
    shown: dict[str, FieldValue] = defaultdict(lambda: "?")
    for name, value in fields.items():
        visible = shown_holder(value) if name == "holder" and isinstance(value, bytes) else value
        shown[name] = visible.hex() if isinstance(visible, bytes) else visible
    return REFUSALS[code].sentence.format_map(shown)
