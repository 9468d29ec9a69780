"""A member's errors as the journal's own: the one edge at which they are translated.

Belongs here: what a server's refusal, its silence and its own word that bytes are damaged mean to whoever asked for the
volume. What a refusal means to a takeover is a move of that (takeover/wording.py), no error.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from journal.errors import OF_SERVERS, JournalCode, JournalError, UnavailableError, damaged, journal_error
from sos_client.wire.errors import DamagedError, ErrorCode, RefusedError, SosError
from sos_client.wire.strangers import WrongPortError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Meanings: TypeAlias = "Mapping[ErrorCode, Callable[[str], JournalError]]"
"""What some refusals mean in one place: the error for the sentence that says who refused, and why."""


def meaning_of(refusal: RefusedError, address: str, meanings: Meanings | None = None) -> JournalError:
    """The error for a refusal; what nobody foresaw is UNAVAILABLE: it may be otherwise later."""
    message = f"{address}: {refusal.message}"
    if meanings is not None and refusal.code in meanings:
        return meanings[refusal.code](message)
    if refusal.code in OF_SERVERS:
        return journal_error(OF_SERVERS[refusal.code], message)
    return UnavailableError(JournalCode.UNAVAILABLE, message)


@contextmanager
def member_errors(address: str, meanings: Meanings | None = None, *, silent: str = "does not answer") -> Iterator[None]:
    """What the server at this address refuses, or does not answer, is raised as a JournalError. Others pass.

    `silent` says what its silence means.
    """
    try:
        yield
    except RefusedError as error:
        raise meaning_of(error, address, meanings) from error
    except DamagedError as error:
        raise damaged(f"{address}: {error}") from error
    except JournalError:
        raise
    except WrongPortError as error:
        raise UnavailableError(JournalCode.UNAVAILABLE, str(error)) from error
    except SosError as error:
        why = str(error).removeprefix(f"{address}: ")
        raise UnavailableError(JournalCode.UNAVAILABLE, f"{address} {silent}: {why}") from error
