"""Requests as the contracts of a volume make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal.errors import JournalCode, JournalError
from tests.contracts.volume_histories import operation

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from journal.volume import FileStatus, PathClaim, Volume


async def put(volume: Volume, path: str, content: bytes = b"x", *, overwrite: bool = False) -> FileStatus:
    return await volume.put(path, content, overwrite=overwrite, operation=operation())


async def code_of(asking: Awaitable[object]) -> JournalCode:
    with pytest.raises(JournalError) as caught:
        await asking
    return caught.value.code


async def exists(volume: Volume, path: str) -> bool:
    try:
        await volume.stat(path)
    except JournalError as error:
        if error.code is not JournalCode.NOT_FOUND:
            raise
        return False
    return True


async def stream(
    volume: Volume, path: str, data: bytes, *, piece: int, overwrite: bool = False, claim: PathClaim | None = None
) -> FileStatus:
    write = await volume.open_write(path, overwrite=overwrite, operation=operation(), claim=claim)
    for start in range(0, len(data), piece):
        await write.write(data[start : start + piece])
    return await write.commit()
