"""Keeping a moment from being cleaned while a verb reads it: with the service's help, if it is named."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from journal.cli.views import open_service
from journal.errors import JournalCode, JournalError
from sos_client.command.output import note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from journal.cli.options import Access

PIN_SECONDS: Final = 6 * 3600  # longer than any copying takes; a verb that is killed leaves no more than this behind
_RELEASE_SECONDS: Final = 5.0


@asynccontextmanager
async def pinned(access: Access, moments: Mapping[str, int], *, verb: str) -> AsyncIterator[None]:
    """While the block runs, nothing that these moments need is deleted: an LSN of each journal, by the volume's name.

    OUT_OF_RETENTION if one is gone already. Without a service, or if it does not let us, the block runs all the same:
    retention is usually far away, and reading what is gone is an error, never something else's bytes.
    """
    async with AsyncExitStack() as stack:
        for volume, lsn in moments.items() if access.services else ():
            await stack.enter_async_context(_pinned(access, volume, lsn, verb))
        yield


@asynccontextmanager
async def _pinned(access: Access, volume: str, lsn: int, verb: str) -> AsyncIterator[None]:
    name = f"{verb}-{secrets.token_hex(4)}"
    async with open_service(access, volume) as service:
        try:
            await service.pin(name, lsn=lsn, seconds=PIN_SECONDS, operation=service.new_operation())
        except JournalError as error:
            if error.code is JournalCode.OUT_OF_RETENTION:
                raise
            note(f"warning: what is read is not kept from being cleaned meanwhile: {error.message}")
            yield
            return
        try:
            yield
        finally:
            with trio.move_on_after(_RELEASE_SECONDS, shield=True), suppress(JournalError):  # it expires by itself
                await service.pin(name, lsn=lsn, seconds=0, operation=service.new_operation())
