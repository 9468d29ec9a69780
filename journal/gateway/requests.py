"""What each request does to a volume, and which right it needs. Connections, frames and rights are checked elsewhere.

Each function gives the answer or raises JournalError. READ and streamed writes, which have more than one frame, are in
outgoing_file.py and incoming_file.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from journal.errors import JournalCode, refused
from journal.gateway.wire import messages as m
from journal.gateway.wire.limits import PAGE_BYTES_MAX
from journal.records.change import APPLICATION_BYTES_MAX
from sos_client.serving.access import Right

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from journal.volume import FileStatus, ServedVolume, Volume

    Run = Callable[[ServedVolume, Any], Awaitable[m.Answer]]

EntryT = TypeVar("EntryT")

# What a status costs in a PAGE beside its path: array, flag and two numbers at their longest.
_STATUS_OVERHEAD_BYTES: Final = 32
# What a claim costs beside its path: the application at its longest, the start time.
_CLAIM_OVERHEAD_BYTES: Final = APPLICATION_BYTES_MAX + 32


async def put(volume: Volume, request: m.PutRequest) -> m.StatusAnswer:
    status = await volume.put(
        request.path,
        bytes(request.payload),  # the frame's buffer is used again, the writer may keep the file's bytes for long
        overwrite=request.overwrite,
        operation=request.stamp.operation,
        claim=request.stamp.claim,
        modified_ms=request.modified_ms,
    )
    return m.StatusAnswer(epoch=volume.epoch, status=status)


async def append(volume: Volume, request: m.AppendRequest) -> m.StatusAnswer:
    status = await volume.append(
        request.path,
        bytes(request.payload),
        size=request.size,
        modified_ms=request.modified_ms,
        operation=request.stamp.operation,
        claim=request.stamp.claim,
    )
    return m.StatusAnswer(epoch=volume.epoch, status=status)


async def stat(volume: Volume, request: m.StatRequest) -> m.StatusAnswer:
    status = await volume.stat(request.path)
    return m.StatusAnswer(epoch=volume.epoch, status=status)


async def list_page(volume: Volume, request: m.ListRequest) -> m.PageAnswer:
    page = await volume.list(request.path, after=request.after, limit=request.limit)
    entries = fitting(page.entries)
    more = page.more or len(entries) < len(page.entries)
    return m.PageAnswer(epoch=volume.epoch, entries=entries, more=more)


def fitting(entries: tuple[FileStatus, ...]) -> tuple[FileStatus, ...]:
    """As many of the first entries as one PAGE may carry, and at least one."""
    return _fitting(entries, lambda entry: len(entry.path.encode()) + _STATUS_OVERHEAD_BYTES)


def _fitting(entries: tuple[EntryT, ...], size: Callable[[EntryT], int]) -> tuple[EntryT, ...]:
    total = 0
    for count, entry in enumerate(entries):
        total += size(entry)
        if total > PAGE_BYTES_MAX and count:
            return entries[:count]
    return entries


async def mkdirs(volume: Volume, request: m.MkdirsRequest) -> m.DoneAnswer:
    await volume.mkdirs(request.path, operation=request.stamp.operation, claim=request.stamp.claim)
    return m.DoneAnswer(epoch=volume.epoch, applied=True)


async def delete(volume: Volume, request: m.DeleteRequest) -> m.DoneAnswer:
    applied = await volume.delete(
        request.path,
        recursive=request.recursive,
        operation=request.stamp.operation,
        claim=request.stamp.claim,
    )
    return m.DoneAnswer(epoch=volume.epoch, applied=applied)


async def rename(volume: Volume, request: m.RenameRequest) -> m.DoneAnswer:
    await volume.rename(
        request.source,
        request.target,
        overwrite=request.overwrite,
        operation=request.stamp.operation,
        claim=request.stamp.claim,
    )
    return m.DoneAnswer(epoch=volume.epoch, applied=True)


async def claim(volume: ServedVolume, request: m.ClaimRequest, *, whose: str = "") -> m.DoneAnswer:
    claimed = request.stamp.claim
    if claimed is None:
        raise refused(JournalCode.BAD_REQUEST, "a claim needs an application and its start time")
    await volume.claim(request.path, claimed, operation=request.stamp.operation, whose=whose)
    return m.DoneAnswer(epoch=volume.epoch, applied=True)


async def mark(volume: Volume, request: m.MarkRequest) -> m.DoneAnswer:
    await volume.mark(dict(request.values), operation=request.stamp.operation)
    return m.DoneAnswer(epoch=volume.epoch, applied=True)


async def pin(volume: ServedVolume, request: m.PinRequest, *, whose: str = "") -> m.DoneAnswer:
    operation = request.stamp.operation
    await volume.pin(request.name, lsn=request.lsn, seconds=request.seconds, operation=operation, whose=whose)
    return m.DoneAnswer(epoch=volume.epoch, applied=True)


async def describe(volume: Volume, request: m.DescribeRequest) -> m.DescriptionAnswer:
    del request
    return m.DescriptionAnswer(epoch=volume.epoch, description=await volume.describe())


async def claims(volume: Volume, request: m.ClaimsRequest) -> m.ClaimPageAnswer:
    page = await volume.claims(after=request.after, limit=request.limit)
    fit = _fitting(page.claims, lambda one: len(one.path.encode()) + _CLAIM_OVERHEAD_BYTES)
    return m.ClaimPageAnswer(epoch=volume.epoch, claims=fit, more=page.more or len(fit) < len(page.claims))


async def release(volume: Volume, request: m.ReleaseRequest) -> m.DoneAnswer:
    assert request.stamp.claim is not None, "decoding has seen to it"
    applied = await volume.release(request.path, request.stamp.claim, operation=request.stamp.operation)
    return m.DoneAnswer(epoch=volume.epoch, applied=applied)


RUN: Final[dict[type, Run]] = {
    m.PutRequest: put,
    m.AppendRequest: append,
    m.StatRequest: stat,
    m.ListRequest: list_page,
    m.MkdirsRequest: mkdirs,
    m.DeleteRequest: delete,
    m.RenameRequest: rename,
    m.ClaimRequest: claim,
    m.MarkRequest: mark,
    m.PinRequest: pin,
    m.DescribeRequest: describe,
    m.ClaimsRequest: claims,
    m.ReleaseRequest: release,
}
RIGHTS: Final[dict[type, tuple[Right, ...]]] = {
    m.PutRequest: (Right.APPEND,),
    m.AppendRequest: (Right.APPEND,),
    m.WriteOpenRequest: (Right.APPEND,),
    m.ReadRequest: (Right.READ,),
    m.StatRequest: (Right.READ,),
    m.ListRequest: (Right.READ,),
    m.MkdirsRequest: (Right.APPEND,),
    m.DeleteRequest: (Right.DELETE,),
    m.RenameRequest: (Right.APPEND, Right.DELETE),  # what is moved away is gone from where it was
    m.ClaimRequest: (Right.FENCE,),
    m.MarkRequest: (Right.APPEND,),
    m.PinRequest: (Right.APPEND,),
    m.DescribeRequest: (Right.READ,),
    m.ClaimsRequest: (Right.READ,),
    m.ReleaseRequest: (Right.FENCE,),
}


def epoch_seen(request: Any) -> int:
    """The highest epoch that the client had seen when it asked."""
    stamp: m.Stamp | None = getattr(request, "stamp", None)
    seen: int = request.epoch_seen if stamp is None else stamp.epoch_seen
    return seen
