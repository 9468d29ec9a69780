"""The copies of a volume that somebody names, on servers and in a directory, as far as they can be opened."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from journal.copies.copies import open_directory_copy, open_member_copy
from journal.errors import UnavailableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from journal.copies.copies import Copy
    from journal.errors import JournalError


@asynccontextmanager
async def open_named_copies(
    volume: str,
    *,
    servers: Sequence[str],
    directory: Path | None,
    token: bytes | None,
    tls: ssl.SSLContext | None,
    insecure: bool,
    timeout: float | None = None,
    on_failure: Callable[[str, JournalError], None] = lambda _place, _error: None,
) -> AsyncIterator[list[Copy]]:
    """Those that can be opened; `on_failure` hears which other ones cannot, and why. UnavailableError if none can be.

    No server is waited for longer than `timeout`.
    """
    openings: dict[str, AbstractAsyncContextManager[Copy]] = {}
    if directory is not None:
        openings[str(directory)] = open_directory_copy(directory, volume)
    for server in servers:
        openings[server] = open_member_copy(server, volume, token=token, tls=tls, insecure=insecure, timeout=timeout)
    async with AsyncExitStack() as stack:
        copies: list[Copy] = []
        failures: dict[str, JournalError] = {}
        for place, opening in openings.items():
            try:
                copies.append(await stack.enter_async_context(opening))
            except UnavailableError as error:
                failures[place] = error
        if failures and not copies:
            raise next(iter(failures.values()))
        for place, failure in failures.items():
            on_failure(place, failure)
        yield copies
