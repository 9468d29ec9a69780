"""What a client does after each failure: give up, ask again, or ask elsewhere; and what it may say at its deadline.

Pure but for the addresses that it turns. The rules are the column "again" of PROTOCOL.md's table of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.errors import (
    ConversationError,
    DamagedJournalError,
    JournalCode,
    JournalError,
    UnavailableError,
    journal_error,
    refused,
)
from sos_client.wire.errors import MisuseError, SosError
from sos_client.wire.strangers import WrongPortError

if TYPE_CHECKING:
    from journal.gateway.client.service_pool import Addresses
    from sos_client.retry import RetryPolicy

SHARDS_FIELD: Final = "shards"
"""In VOLUME_NOT_FOUND: over how many shards the volume is spread, whose names the client asks for instead."""

AGAIN: Final = frozenset(
    {
        JournalCode.OUTCOME_UNKNOWN,
        JournalCode.UNAVAILABLE,
        JournalCode.SHUTTING_DOWN,
        JournalCode.LOCKED,
        JournalCode.LIMIT,
        JournalCode.TOO_SLOW,
    }
)


class RetryState:
    """The failures of one operation so far. `changes`: it is not a read, so what became of it matters."""

    def __init__(self, addresses: Addresses, policy: RetryPolicy, *, changes: bool, shard: str = "") -> None:
        """`shard`: named in what is wrong with the journal, since its user has named the whole volume."""
        self._who = f"{shard}: " if shard else ""
        self._addresses = addresses
        self._policy = policy
        self._changes = changes
        self._failures = 0
        self._strangers: set[str] = set()  # services that do not know the volume, since the last one that did
        self._wrong_ports = 0  # in a row
        self._last: SosError | None = None
        self._address = addresses.current
        self._unanswered = False  # something went out and its answer has not come
        self._maybe_done = False

    def trying(self, address: str) -> None:
        """A new attempt, at this address: what fails from here on fails there."""
        self._address = address

    def asked(self, *, has_sent: bool) -> None:
        """The attempt is over. Whether anything of the request has left: then the service may do what is asked."""
        self._unanswered = has_sent

    def after(self, error: SosError, chance: float) -> float:
        """How many seconds to pause before the next attempt; raises the error if there should be none."""
        self._last = error
        self._failures += 1
        if isinstance(error, MisuseError):
            raise error
        self._wrong_ports = self._wrong_ports + 1 if isinstance(error, WrongPortError) else 0
        if self._wrong_ports >= len(self._addresses.configured) and not self._maybe_done:
            # No address is a service's: that is a mistake in the addresses, and nothing was asked.
            raise refused(JournalCode.BAD_REQUEST, str(error)) from error
        if isinstance(error, JournalError):
            self._after_refusal(error)
        else:
            self._maybe_done |= self._unanswered
            self._addresses.turn_from(self._address)
        self._unanswered = False
        return self._policy.pause_seconds(self._failures, chance)

    def out_of_time(self, seconds: float) -> JournalError:
        """The error for the deadline: it tells "maybe" from "no"."""
        why = f"the last trouble was: {self._last}" if self._last else f"{self._address} has not answered"
        if self._changes and (self._maybe_done or self._unanswered):
            return UnavailableError(
                JournalCode.OUTCOME_UNKNOWN,
                f"{self._who}no answer within {seconds:g} s: the change may have been made or not; {why}",
            )
        return UnavailableError(JournalCode.UNAVAILABLE, f"{self._who}no answer within {seconds:g} s; {why}")

    def _after_refusal(self, error: JournalError) -> None:
        if error.code is JournalCode.VOLUME_NOT_FOUND:
            self._strangers.add(self._address)
            if len(self._strangers) >= len(self._addresses.configured) or SHARDS_FIELD in error.fields:
                raise error
            self._addresses.turn_from(self._address)
            return
        self._strangers.clear()
        if error.code is JournalCode.NOT_OWNER:
            hint = error.fields.get("address")
            self._addresses.turn_from(self._address, hint if isinstance(hint, str) else None)
        elif error.code in AGAIN:
            self._maybe_done |= error.code is JournalCode.OUTCOME_UNKNOWN
            self._addresses.turn_from(self._address)
        elif self._maybe_done and isinstance(error, ConversationError):
            raise UnavailableError(
                JournalCode.OUTCOME_UNKNOWN, f"{self._who}the change may have been made or not, and now: {error}"
            ) from error
        elif self._who and isinstance(error, UnavailableError | DamagedJournalError) and self._who not in error.message:
            raise journal_error(error.code, f"{self._who}{error.message}", error.fields) from error
        else:
            raise error
