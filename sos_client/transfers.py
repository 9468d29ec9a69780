"""Whole streams of bytes into objects: a `put` that can be repeated until it succeeds, and an `append` to the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ErrorCode, HistoryError, RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sos_client.append_stream import AppendTarget
    from sos_client.client import ObjectInfo, SosClient

Progress = Callable[[int], None]
"""Called with the object's size so far, synced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """The object's size now, and how many of its bytes were there before."""

    size: int
    size_before: int


async def put(
    client: SosClient, target: AppendTarget, chunks: AsyncIterator[bytes], *, progress: Progress = lambda _size: None
) -> Transferred:
    """Make the object have exactly the bytes of `chunks`, once.

    What an earlier attempt left is not sent again, if it is how `chunks` begins. Otherwise HistoryError, and nothing
    changes. When the bytes end before the object does, that is another past, too.
    """
    await client.use(target.namespace, create=True)
    info = await _stat(client, target)
    if info is None:
        return await _append_all(client, target, size=0, crc=0, chunks=chunks, progress=progress)
    rest = await _skip_prefix(info, chunks)
    if info.sealed:
        if rest or await anext(chunks, b""):
            raise RefusedError(ErrorCode.SEALED, size=info.size, crc=info.crc, epoch=info.epoch)
        return Transferred(size=info.size, size_before=info.size)
    return await _append_all(client, target, size=info.size, crc=info.crc, chunks=chunks, progress=progress, first=rest)


async def append(
    client: SosClient, target: AppendTarget, chunks: AsyncIterator[bytes], *, progress: Progress = lambda _size: None
) -> Transferred:
    """Add all bytes of `chunks` to the end of the object, which is made if there is none."""
    await client.use(target.namespace, create=True)
    info = await _stat(client, target)
    size, crc = (info.size, info.crc) if info else (0, 0)
    return await _append_all(client, target, size=size, crc=crc, chunks=chunks, progress=progress)


async def _append_all(
    client: SosClient,
    target: AppendTarget,
    *,
    size: int,
    crc: int,
    chunks: AsyncIterator[bytes],
    progress: Progress,
    first: bytes = b"",
) -> Transferred:
    async with client.append(
        target.namespace, target.object, size=size, prefix_crc=crc, epoch=target.epoch, holder=target.holder
    ) as stream:
        await stream.send(first)
        async for chunk in chunks:
            await stream.send(chunk)
            progress(stream.synced)
    progress(stream.synced)
    return Transferred(size=stream.synced, size_before=size)


async def _stat(client: SosClient, target: AppendTarget) -> ObjectInfo | None:
    try:
        return await client.stat(target.namespace, target.object)
    except RefusedError as refusal:
        if refusal.code is ErrorCode.NOT_FOUND:
            return None
        raise


async def _skip_prefix(info: ObjectInfo, chunks: AsyncIterator[bytes]) -> bytes:
    """Take from `chunks` what the object has already; return what was read beyond it."""
    crc = 0
    left = info.size
    while left:
        chunk = await anext(chunks, b"")
        crc = crc32c(memoryview(chunk)[:left], crc)
        if not chunk:
            raise HistoryError(
                f"{info.name} has {info.size} bytes, and there are only {info.size - left} to put: it has another past"
            )
        if len(chunk) >= left:
            if crc != info.crc:
                raise HistoryError(
                    f"{info.name} has {info.size} bytes, which are not the first {info.size} to put: it has another"
                    " past; put to another object"
                )
            return chunk[left:]
        left -= len(chunk)
    return b""
