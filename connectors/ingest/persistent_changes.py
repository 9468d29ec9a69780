"""Changes of a volume that are asked for until they are made: who waits is kept waiting, nothing is dropped."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from journal.errors import UnavailableError
from journal.volume import OperationId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAUSE_SECONDS: Final = 0.5
"""Before what the volume could not do is asked for again. Senders wait, for want of credits."""

ResultT = TypeVar("ResultT")


class PersistentChanges:
    """One change at a time, under ids of its own. `waits_for` says why the present one is not made yet."""

    def __init__(self) -> None:
        self.waits_for = ""
        self._client = secrets.token_bytes(16)
        self._operations = 0

    async def make(self, ask: Callable[[OperationId], Awaitable[ResultT]]) -> ResultT:
        """Ask until it is done. Raises what will not pass.

        Always the same operation: one of the attempts may have been made, whatever the next one says.
        """
        operation = self.next_operation()
        while True:
            try:
                result = await ask(operation)
            except UnavailableError as error:
                self.waits_for = error.message
            else:
                self.waits_for = ""
                return result
            await trio.sleep(PAUSE_SECONDS)

    def next_operation(self) -> OperationId:
        """For a change that is asked for once."""
        self._operations += 1
        return OperationId(client=self._client, sequence=self._operations)
