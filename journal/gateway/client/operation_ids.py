"""Ids for a client's changes. Pure: no clock, no chance of its own.

A service keeps the last answers of each client id for as long as somebody may ask for them, however many others come.
So an id is lent to one change at a time: a change that waits long for its answer is not pushed out by those that pass
it, and none of them waits for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.errors import JournalError, UnavailableError
from journal.gateway.wire.limits import CLIENT_IDS_MAX, INSTANCE_BYTES
from journal.volume import OperationId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random


@dataclass(slots=True)
class OperationIds:
    """As many client ids as changes are under way at once; beyond CLIENT_IDS_MAX, those lent longest ago are shared.

    An id whose change got no answer is not lent again before that, so that the change can be repeated.
    """

    chance: Random
    _free: list[OperationId] = field(default_factory=list)  # the last one of each client id
    _lent: dict[OperationId, None] = field(default_factory=dict)  # longest ago first

    def lend(self) -> OperationId:
        """One that was never lent."""
        if self._free:
            last = self._free.pop()
        elif len(self._lent) < CLIENT_IDS_MAX:
            last = OperationId(client=self.chance.randbytes(INSTANCE_BYTES), sequence=0)
        else:
            last = next(iter(self._lent))
            del self._lent[last]
        lent = OperationId(client=last.client, sequence=last.sequence + 1)
        self._lent[lent] = None
        return lent

    def give_back(self, operation: OperationId) -> None:
        """Nobody waits for its answer any more. Harmless if that has been said before."""
        if operation in self._lent:
            del self._lent[operation]
            self._free.append(operation)

    @contextmanager
    def until_answered(self, operation: OperationId) -> Iterator[None]:
        """Gives it back at the end, unless the change may have to be repeated."""
        try:
            yield
        except JournalError as error:
            if not isinstance(error, UnavailableError):
                self.give_back(operation)
            raise
        self.give_back(operation)
